"""A SYNC_MASTER that waits for one slave: pyrmq's pair beside Apache RocketMQ's, in turns.

`python -m benches.loopback.pairs [--seconds S] [--rounds N]`; needs Java and Maven. Each turn is a
new pair with new stores; what counts are the ratios of the turns' medians.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from tests.support.client import Client
from tests.system.interop.store.peer import NameServer

from .generator import generate
from .harness import Broker, HarnessError, await_ready, stop
from .peer import JavaBroker

LOADS = ((1, 64), (8, 128))
KEYS = "inSyncReplicas=2\nslaveTimeout=10000\nslaveReadEnable=true\n"
IN_SYNC = 60.0
"""Seconds until the slave has to follow."""


def _start(home: Path, name: str, *words: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    log = home / f"{name}.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "pyrmq", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    return process, await_ready(process, log)


@contextmanager
def ours(role: str = "SYNC_MASTER") -> Iterator[Broker]:
    """A pair of pyrmq's brokers; the master."""
    home = Path(tempfile.mkdtemp(prefix="pyrmq-pair-"))
    processes = []
    try:
        names = f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={home}/k\n"
        (home / "n.conf").write_text(names)
        process, facts = _start(home, "namesrv", "namesrv", "-c", str(home / "n.conf"))
        processes.append(process)
        namesrv = facts["namesrv"]
        brokers = []
        for name, its_role, number in (("master", role, 0), ("slave", "SLAVE", 1)):
            (home / f"{name}.conf").write_text(
                f"brokerName=pair\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort=0\n"
                f"brokerRole={its_role}\nbrokerId={number}\nstorePathRootDir={home}/{name}\n{KEYS}"
            )
            conf = str(home / f"{name}.conf")
            process, facts = _start(home, name, "broker", "-c", conf, "-n", namesrv)
            processes.append(process)
            host, _, port = facts["broker"].rpartition(":")
            brokers.append(Broker(host, int(port), process.pid, 0.0, namesrv))
        _wait_in_sync(brokers[0])
        yield brokers[0]
    finally:
        for process in processes:
            stop(process)
            assert process.stdout is not None
            process.stdout.close()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def apache() -> Iterator[Broker]:
    """A pair of Apache RocketMQ's brokers, of one JVM each; the master."""
    home = Path(tempfile.mkdtemp(prefix="apache-pair-"))
    try:
        with ExitStack() as stack:
            names = stack.enter_context(NameServer(home / "namesrv"))
            conf = f"{KEYS}brokerRole=SYNC_MASTER\nbrokerId=0\n"
            master = stack.enter_context(
                JavaBroker(home / "master", names.address, conf, home=home / "master-home")
            )
            conf = f"{KEYS}brokerRole=SLAVE\nbrokerId=1\n"
            stack.enter_context(
                JavaBroker(home / "slave", names.address, conf, home=home / "slave-home")
            )
            broker = Broker(*master.address, None, 0.0, names.address)
            _wait_in_sync(broker)
            yield broker
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _wait_in_sync(broker: Broker) -> None:
    end = time.monotonic() + IN_SYNC
    with Client((broker.host, broker.port)) as client:
        while time.monotonic() < end:
            if b'"inSync":true' in client.call(907).body:
                # A first message, which makes the topic.
                client.send("BenchmarkTest")
                return
            time.sleep(0.2)
    raise HarnessError("the slave does not follow")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    makers: dict[str, Callable[[], AbstractContextManager[Broker]]]
    makers = {"pyrmq": ours, "apache": apache}
    rates: dict[tuple[str, int, int], list[float]] = {}
    p99s: dict[tuple[str, int, int], list[float]] = {}
    for _ in range(options.rounds):
        for name, maker in makers.items():
            with maker() as broker:
                for connections, in_flight in LOADS:
                    words = {
                        "connections": connections,
                        "in_flight": in_flight,
                        "seconds": options.seconds,
                        "warmup": 2,
                    }
                    result = generate("send", broker, words)
                    key = (name, connections, in_flight)
                    rates.setdefault(key, []).append(result["rate"])
                    p99s.setdefault(key, []).append(result["p99_us"])
                    print(name, connections, in_flight, result, flush=True)
    for connections, in_flight in LOADS:
        own, other = ("pyrmq", connections, in_flight), ("apache", connections, in_flight)
        rate = statistics.median(rates[own]) / statistics.median(rates[other])
        p99 = statistics.median(p99s[own]) / statistics.median(p99s[other])
        print(f"{connections} x {in_flight}: {rate:.1f} times Apache's rate, {p99:.2f} of its p99")


if __name__ == "__main__":
    main()
