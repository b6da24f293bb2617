"""A slave of either make under a master of the other, where brokers demand credentials and TLS.

The log goes over the port for slaves, which has neither. The tables (topics, offsets) are requests,
which the slave signs with its innerClientAuthenticationCredentials.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from pyrmq import Credentials, Message, Tls, sync
from pyrmq.admin import Admin
from pyrmq.net.client.protocol import Ext
from tests.system.ha.processes import eventually

from . import certificates
from .access.users import SUPER
from .secured import broker, name_server

TABLES = 100.0
"""Seconds: Apache's slave asks for the tables once a minute."""
FILES = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20_000}
COUNT = 50


class Operator:
    """Asks servers as the super user, over TLS."""

    def __init__(self, namesrv: str, properties: Path) -> None:
        self._namesrv = namesrv
        self._access = {
            "credentials": Credentials(*SUPER),
            "tls": Tls.from_properties(properties),
        }

    def ask(self, address: str, code: int, ext: Ext | None = None, body: bytes = b"") -> bytes:
        async def asked() -> bytes:
            async with Admin(self._namesrv, **self._access) as admin:
                return (await admin.link.ask(address, code, ext, body)).body

        return trio.run(asked)

    def log_end(self, address: str) -> int:
        status = json.loads(self.ask(address, 907))
        if status["master"]:
            return int(status["masterCommitLogMaxOffset"])
        return int(status["haClientRuntimeInfo"]["maxOffset"])

    def send(self) -> None:
        with sync.Producer("senders", namesrv=self._namesrv, **self._access) as producer:
            for n in range(COUNT):
                producer.send(Message("T", b"%d" % n))


@pytest.mark.thorough("Apache's slave syncs its tables once a minute")
@pytest.mark.parametrize(("first", "second"), [("apache", "pyrmq"), ("pyrmq", "apache")])
def test_a_slave_of_the_other_make(tmp_path: Path, first: str, second: str) -> None:
    tls = certificates.make(tmp_path / "tls")
    with ExitStack() as stack:
        names = stack.enter_context(name_server("guarded", tmp_path / "names", tls))
        operator = Operator(names.address, tls.client)
        at = names.address, tls
        master = stack.enter_context(broker(first, tmp_path / "master", *at, **FILES))
        operator.send()
        operator.ask(master.address, 200, body=b'{"groupName":"G"}')
        offset: Ext = {"topic": "T", "consumerGroup": "G", "queueId": 0, "commitOffset": 1}
        operator.ask(master.address, 15, offset)
        role = {"brokerRole": "SLAVE", "brokerId": 1}
        slave = stack.enter_context(broker(second, tmp_path / "slave", *at, **FILES, **role))
        tables = {21: b'"T"', 43: b'"T@G"'}
        for server, patience in ((master, 1.0), (slave, TABLES)):
            eventually(
                lambda at=server.address: all(
                    row in operator.ask(at, code) for code, row in tables.items()
                ),
                patience,
                server.state,
            )
        end = operator.log_end(master.address)
        assert end > 0
        eventually(lambda: operator.log_end(slave.address) == end, TABLES, slave.state)
