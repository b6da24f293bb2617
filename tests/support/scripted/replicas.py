"""A cluster `C` of which a name server tells: broker-a with a slave, broker-b with nobody there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.scripted.script import Script
from tests.support.scripted.sockets import SocketServer
from tests.support.wire import Command

DEAD = "127.0.0.1:1"


class Answers(Script):
    """Success with nothing in it, unless `change` says something else."""

    def usual(self, command: Command) -> Command:
        return command.reply(0)

    def says(self, code: int, body: object = None, remark: str | None = None) -> None:
        """The answer to a request code: JSON, or bytes as they are."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()

        def answer(command: Command) -> Command:
            reply = command.reply(0, {}, b"" if body is None else raw)
            reply.remark = remark
            return reply

        self.change[code] = answer

    def bodies(self, code: int) -> list[bytes]:
        return [c.body for c in self.asked if c.code == code]


@dataclass(slots=True)
class Replicas:
    namesrv: str
    master: str
    slave: str
    on_namesrv: Answers
    on_master: Answers
    on_slave: Answers


@contextlib.contextmanager
def replicas() -> Iterator[Replicas]:
    scripts = [Answers() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        namesrv, master, slave = (
            stack.enter_context(SocketServer(script).serving()) for script in scripts
        )
        scripts[0].says(
            106,
            {
                "brokerAddrTable": {
                    "broker-a": _broker("broker-a", {0: master, 1: slave}),
                    "broker-b": _broker("broker-b", {0: DEAD}),
                },
                "clusterAddrTable": {"C": ["broker-a", "broker-b"]},
            },
        )
        yield Replicas(namesrv, master, slave, *scripts)


def _broker(name: str, addresses: dict[int, str]) -> dict[str, object]:
    return {"brokerAddrs": addresses, "brokerName": name, "cluster": "C"}
