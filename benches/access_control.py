"""Measures what access control and TLS cost plain sends: `python -m benches.access_control`.

Servers run side by side, in one of four ways: plain, with access control (`acl`), with TLS (`tls`),
with both. The load generator sends to two of them in turns, signed or with TLS as each wants it.
The ratio of a pair says what is left of the rate; CPU a message is steadier on a busy machine. The
generator signs, and encrypts, on the same cores: with `--both-signed` it signs for both, so that
the ratio has the server's part only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benches.release_build import require_release_build
from pyrmq.bench.options import Options
from pyrmq.bench.result import Result
from pyrmq.bench.run import run
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

USER = Credentials("rocketmq2", "12345678")
LOADS = {"8x128": (8, 128), "1x64": (1, 64), "64x1": (64, 1)}
WAYS = ("plain", "acl", "tls", "both")
ACCESS = {
    "authenticationEnabled": "true",
    "authenticationMetadataProvider": "LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationMetadataProvider": "LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps(
        {"username": USER.access_key, "password": USER.secret_key}
    ),
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": "inner", "secretKey": "inner-secret"}
    ),
}
"""Keys of a broker whose only users are super users."""


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    pid: int
    user: Credentials | None
    tls: Tls | None


@contextmanager
def server(way: str) -> Iterator[Server]:
    user = USER if way in ("acl", "both") else None
    # Without keys a server makes a certificate, which nobody can verify.
    tls = Tls(insecure=True) if way in ("tls", "both") else None
    with tempfile.TemporaryDirectory(prefix="pyrmq-bench-") as folder:
        conf = f"{folder}/broker.conf"
        with open(conf, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            for key, value in ACCESS.items() if user else ():
                file.write(f"{key}={value}\n")
        command = [sys.executable, "-m", "pyrmq", "server", "--host", "127.0.0.1", "-c", conf]
        command += ["--namesrv-port", "0", "--broker-port", "0", "--log-level", "error"]
        command += ["--store", f"{folder}/store"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        try:
            line = process.stdout.readline().decode()
            facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
            yield Server(facts["broker"], int(facts["pid"]), user, tls)
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def measure(load: str, at: Server, user: Credentials | None, seconds: float) -> Result:
    connections, in_flight = LOADS[load]
    found = run(
        Options(
            "send",
            address=at.address,
            connections=connections,
            in_flight=in_flight,
            duration=seconds,
            warmup=seconds / 4,
            pids=[at.pid],
            credentials=user,
            tls=at.tls,
        )
    )
    if found.errors:
        raise SystemExit(f"sends failed: {found.errors[0]}")
    return found


def compare(load: str, a: Server, b: Server, options: argparse.Namespace) -> str:
    """A line of figures: medians, and the least and the most of the ratios."""
    rates, cpus = [], []
    for turn in range(options.rounds):
        pair = [(a, USER if options.both_signed else a.user), (b, b.user)]
        found = [
            measure(load, at, user, options.seconds)
            for at, user in (pair if turn % 2 else reversed(pair))
        ]
        without, with_it = found if turn % 2 else reversed(found)
        rates.append((without.rate, with_it.rate))
        cpus.append([one.servers[0].cpu_us_per_message or 0 for one in (without, with_it)])
    rate = [statistics.median(one) for one in zip(*rates, strict=True)]
    cpu = [statistics.median(one) for one in zip(*cpus, strict=True)]
    ratios = [b / a for a, b in rates]
    cpu_ratios = [b / a for a, b in cpus if a]
    return (
        f"{rate[0]:9,.0f} {rate[1]:9,.0f}  {statistics.median(ratios):4.2f} "
        f"({min(ratios):4.2f} to {max(ratios):4.2f})  {cpu[0]:5.2f} {cpu[1]:5.2f}  "
        f"{statistics.median(cpu_ratios):4.2f} ({min(cpu_ratios):4.2f} to {max(cpu_ratios):4.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benches.access_control", description=__doc__)
    parser.add_argument("--load", action="append", choices=LOADS)
    parser.add_argument(
        "--way", action="append", choices=WAYS[1:], help="beside plain  [default: all]"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument(
        "--both-signed",
        action="store_true",
        help="sign those to the plain server too: the cost of verifying alone",
    )
    options = parser.parse_args()
    require_release_build()
    with ExitStack() as stack:
        plain = stack.enter_context(server("plain"))
        others = {
            way: stack.enter_context(server(way)) for way in dict.fromkeys(options.way or WAYS[1:])
        }
        print("                plain/s    with/s  ratio of pairs       CPU us of the server, ratio")
        for load in options.load or LOADS:
            for way, other in others.items():
                print(f"{load:6} {way:5} {compare(load, plain, other, options)}", flush=True)


if __name__ == "__main__":
    main()
