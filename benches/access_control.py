"""Measures what access control costs plain sends: `python -m benches.access_control`.

Two servers run: one without access control, and one that verifies signatures and grants each sender
what it asks for first. The load generator sends to them in turns: unsigned to the first, signed to
the second. The ratio of a pair says what is left of the rate; CPU a message is steadier on a busy
machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benches.release_build import require_release_build
from pyrmq.bench.options import Options
from pyrmq.bench.result import Result
from pyrmq.bench.run import run
from pyrmq.net.client.credentials import Credentials

USER = Credentials("rocketmq2", "12345678")
LOADS = {"8x128": (8, 128), "1x64": (1, 64), "64x1": (64, 1)}
GUARDED = "guarded"


def serve_guarded(arguments: list[str]) -> None:
    """A server whose only user may do all that he asks for."""
    from pyrmq.broker import assembly
    from pyrmq.broker.requests.send import SendProcessor
    from pyrmq.cli import main
    from pyrmq.engine import ACCESS_SEND, Command, Keyring, Listener
    from pyrmq.net.server.answers import Answer
    from pyrmq.net.server.connection import Connection

    ring = Keyring()
    ring.replace({USER.access_key: USER.secret_key})
    decide = SendProcessor.__call__

    def granting(self: SendProcessor, connection: Connection, command: Command) -> Answer:
        if command.subject is None:
            raise SystemExit("a send is not signed, or wrongly")
        topic = command.ext["b"]
        connection.session.grant_access(ACCESS_SEND, command.subject, topic)
        return decide(self, connection, command)

    SendProcessor.__call__ = granting  # type: ignore[method-assign]
    assembly.Listener = partial(Listener, keyring=ring)  # type: ignore[attr-defined]
    main(arguments)


@contextmanager
def server(*words: str) -> Iterator[tuple[str, int]]:
    """Its broker's address and process id."""
    with tempfile.TemporaryDirectory(prefix="pyrmq-bench-") as folder:
        command = [sys.executable, *words, "server", "--host", "127.0.0.1", "--namesrv-port", "0"]
        command += ["--broker-port", "0", "--log-level", "warning", "--store", f"{folder}/store"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        try:
            line = process.stdout.readline().decode()
            facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
            yield facts["broker"], int(facts["pid"])
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def measure(load: str, at: tuple[str, int], user: Credentials | None, seconds: float) -> Result:
    connections, in_flight = LOADS[load]
    return run(
        Options(
            "send",
            address=at[0],
            connections=connections,
            in_flight=in_flight,
            duration=seconds,
            warmup=seconds / 4,
            pids=[at[1]],
            credentials=user,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benches.access_control", description=__doc__)
    parser.add_argument("--load", action="append", choices=LOADS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument(
        "--both-signed",
        action="store_true",
        help="sign those to the first server too: the cost of verifying alone",
    )
    options = parser.parse_args()
    require_release_build()
    with server("-m", "pyrmq") as plain, server(str(Path(__file__)), GUARDED) as guarded:
        print(f"{'load':6} {'plain/s':>9} {'signed/s':>9} {'ratio':>6} {'CPU us':>13} {'ratio':>6}")
        for load in options.load or LOADS:
            rates, cpus = [], []
            for turn in range(options.rounds):
                pair = [(plain, USER if options.both_signed else None), (guarded, USER)]
                found = [
                    measure(load, at, user, options.seconds)
                    for at, user in (pair if turn % 2 else reversed(pair))
                ]
                without, signed = found if turn % 2 else reversed(found)
                rates.append((without.rate, signed.rate))
                cpus.append(
                    (without.servers[0].cpu_us_per_message or 0,
                     signed.servers[0].cpu_us_per_message or 0)
                )  # fmt: skip
            rate = [statistics.median(one) for one in zip(*rates, strict=True)]
            cpu = [statistics.median(one) for one in zip(*cpus, strict=True)]
            ratio = statistics.median(b / a for a, b in rates)
            cpu_ratio = statistics.median(a / b for a, b in cpus)
            print(
                f"{load:6} {rate[0]:9,.0f} {rate[1]:9,.0f} {ratio:6.2f} "
                f"{cpu[0]:5.2f} to {cpu[1]:4.2f} {cpu_ratio:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == [GUARDED]:
        sys.path.insert(0, os.getcwd())
        serve_guarded(sys.argv[2:])
    else:
        main()
