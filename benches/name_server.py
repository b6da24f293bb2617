"""What a name server needs for many brokers with many topics: ours, and Apache's beside it.

    python -m benches.name_server [--brokers 100] [--topics 5000] [--apache] [--rounds 3]

Each broker is a connection that registers as brokers do, with a body of all its topics. In `same`
all brokers have the same topics, so that a route names all of them; in `own` each has others. CPU
is that of the server's process (/proc), as generator and server share the machine.

A storm is what follows a restart of the name server: all brokers register at once. Brokers with
forceRegister (the default) say the same again every 30 s: `again`. `look-up` asks for routes of
many topics in turn, on one connection; `memory` is what the process has grown by (private bytes).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from pyrmq.net.address import parse_address
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, REGISTER_BROKER, Client
from tests.support.command import Serving
from tests.support.namesrv import place, topic_config
from tests.support.wire import Command

LOOK_UPS = 2000
PATIENCE = 300.0
"""Seconds for an answer."""


class Server:
    """A name server that runs: its address, and its process."""

    def __init__(self, address: tuple[str, int], pid: int) -> None:
        self.address = address
        self.pid = pid

    @property
    def cpu(self) -> float:
        """Seconds, of all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def private(self) -> int:
        """Bytes."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(x.split()[1]) << 10 for x in lines if x.startswith("Private_"))


@contextmanager
def ours() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "n.conf"
        file.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder}/kv.json\n")
        with Serving(Path(folder) / "log", "namesrv", "-c", str(file)) as process:
            yield Server(process.address("namesrv"), process.process.pid)


@contextmanager
def apache() -> Iterator[Server]:
    from tests.system.interop.store import peer

    class NameServer(peer.NameServer):
        def __enter__(self) -> Self:
            main = "org.apache.rocketmq.namesrv.NamesrvStartup"
            command = peer.java_command(self.home, main, *self._arguments, heap="2g")
            self._start(command, "boot success")
            return self

    with tempfile.TemporaryDirectory() as folder, NameServer(Path(folder)) as names:
        assert names._process is not None
        yield Server(parse_address(names.address), names._process.pid)


def body_of(topics: list[str], version: int) -> bytes:
    wrapper = {
        "dataVersion": {"counter": version, "timestamp": version, "stateVersion": 0},
        "topicConfigTable": {name: topic_config(name) for name in topics},
    }
    value = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
    return json.dumps(value, separators=(",", ":")).encode()


class Load:
    """The brokers of one name server."""

    def __init__(self, stack: ExitStack, server: Server, brokers: int, topics: int, own: bool):
        self.server = server
        self.names = [
            [f"topic-of-service-{n if own else 0:03}-{t:05}" for t in range(topics)]
            for n in range(brokers)
        ]
        self.clients = [
            stack.enter_context(Client(server.address, timeout=PATIENCE)) for _ in range(brokers)
        ]
        self.own = own

    def register(self, version: int) -> None:
        """All at once; returns when all are answered."""
        shared = None if self.own else body_of(self.names[0], version)
        for n, client in enumerate(self.clients):
            ext = {**place(f"broker-{n:03}", 20_000 + n), "haServerAddr": "127.0.0.1:1"}
            ext |= {"compressed": "false", "bodyCrc32": "0"}
            body = shared or body_of(self.names[n], version)
            client.post(Command(REGISTER_BROKER, ext, body))
        for client in self.clients:
            answer = client.receive(PATIENCE)
            assert answer.code == 0, answer

    def look_up(self) -> None:
        client = self.clients[0]
        for n in range(LOOK_UPS):
            names = self.names[n % len(self.names)]
            answer = client.call(GET_ROUTEINFO_BY_TOPIC, topic=names[n * 7 % len(names)])
            assert answer.code == 0, answer


def measure(server: Server, brokers: int, topics: int, own: bool) -> dict[str, float]:
    figures: dict[str, float] = {}

    def timed(what: str, do: Callable[[], None], each: int) -> None:
        cpu, began = server.cpu, time.perf_counter()
        do()
        figures[f"{what} wall ms"] = (time.perf_counter() - began) * 1000 / each
        figures[f"{what} CPU ms"] = (server.cpu - cpu) * 1000 / each

    with ExitStack() as stack:
        load = Load(stack, server, brokers, topics, own)
        before = server.private
        timed("storm", lambda: load.register(1), brokers)
        figures["memory MiB"] = (server.private - before) / (1 << 20)
        timed("again", lambda: load.register(1), brokers)
        timed("changed", lambda: load.register(2), brokers)
        timed("look-up", load.look_up, LOOK_UPS)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--topics", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--apache", action="store_true", help="Apache RocketMQ's as well, in turns")
    chosen = parser.parse_args()
    servers = {"ours": ours} | ({"apache": apache} if chosen.apache else {})
    for turn in range(chosen.rounds):
        for own in (False, True):
            found = {}
            for name, make in servers.items():
                with make() as server:
                    found[name] = measure(server, chosen.brokers, chosen.topics, own)
            print(f"round {turn + 1}, {'own' if own else 'same'} topics; for each request")
            for what, value in found["ours"].items():
                line = f"  {what:18} {value:10.3f}"
                if "apache" in found:
                    line += f"   Apache {found['apache'][what]:10.3f}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
