"""One stranger and every request there is: as much as a connection may send of it, on a connection
that reads no answer. What the server keeps stays bounded, and others are served.

A new request has to be in the tables of rows, or `test_every_request_has_a_row` fails: then it has
to pass here as well.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from pyrmq.model.request_kinds import most_body
from tests.support.client import Client, pull_command
from tests.support.operators import create_topic
from tests.support.server import Address, ServerProcess
from tests.support.thorough import THOROUGH
from tests.support.waiting import eventually
from tests.support.wire import Command, encode
from tests.system.hostile.requests import broker_rows, namesrv_rows
from tests.system.hostile.requests.rows import Row

COUNT = 32
"""Requests of one connection."""
FEW = 4
"""As many for two of three codes in `make test`; `make thorough-faults` takes COUNT for all."""
BODY = 3 << 20
FIELD = 900 << 10
"""Bytes of a body, and of an ext field, that nobody asked for."""
SLACK_KIB = 48 * 1024
"""What may be kept of COUNT * (BODY + FIELD), some 120 MiB: one or two frames, and what the
allocator does not give back."""
SMALL = 400
"""Small requests of one connection, of which every answer has to wait."""
PIECE = 256 << 10
STILL = 10
"""Looks at what is sent that see no progress: then the server does not read on."""
PATIENCE = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    store = tmp_path_factory.mktemp("bounds") / "store"
    conf = "enablePropertyFilter=true\n"
    with ServerProcess(store, conf=conf) as process:
        with Client(process.broker) as client:
            for topic in (broker_rows.TOPIC, broker_rows.VICTIM):
                assert create_topic(client, topic, 4).code == 0
            for group in (broker_rows.GROUP, broker_rows.GROUP_VICTIM):
                assert client.call(200, b'{"groupName":"%b"}' % group.encode()).code == 0
            assert client.send(broker_rows.TOPIC).code == 0
        yield process


class Stranger:
    """A connection that only sends, from a thread: the server may stop reading it."""

    def __init__(self, address: Address, data: bytes) -> None:
        self._sock = socket.create_connection(address)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._sock.settimeout(PATIENCE)
        self._sent = 0
        self._thread = threading.Thread(target=self._send, args=(data,), daemon=True)
        self._thread.start()

    def _send(self, data: bytes) -> None:
        with suppress(OSError), memoryview(data) as view:  # it may be closed for that
            while self._sent < len(data):
                self._sent += self._sock.send(view[self._sent : self._sent + PIECE])

    def wait(self) -> None:
        """Until all is sent, or the server takes no more."""
        last: list[int] = []

        def stands() -> bool:
            last.append(self._sent)
            return not self._thread.is_alive() or last[-STILL:] == [self._sent] * STILL

        eventually(stands, "the server takes what it takes", PATIENCE)

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._sock.close()


def check_bounds(server: ServerProcess, address: Address, request: Command) -> None:
    """A request with a long body and a long field, again and again; then small ones."""
    before = server.status_kib("RssAnon")
    large = replace(request, ext={**request.ext, "nobodyAskedFor": "x" * FIELD})
    # What has a body is stored or parsed: another one would be refused.
    large.body = request.body if most_body(request.code) else b"z" * BODY
    many = COUNT if THOROUGH or not request.code % 3 else FEW
    for command, count in ((large, many), (request, SMALL)):
        stranger = Stranger(address, encode(command) * count)
        try:
            stranger.wait()
            with Client(server.broker) as other:
                assert other.call(30, topic=broker_rows.TOPIC, queueId=0).code == 0
            with Client(server.namesrv) as other:
                assert other.call(106).code == 0
            grown = "what is kept of the requests stays below a bound"
            eventually(
                lambda: server.status_kib("RssAnon") - before,
                grown,
                until=lambda kib: kib <= SLACK_KIB,
            )
        finally:
            stranger.close()
    assert server.running


@pytest.mark.parametrize(("code", "row"), broker_rows.ROWS.items(), ids=lambda v: str(v)[:6])
def test_request_of_the_broker(server: ServerProcess, code: int, row: Row) -> None:
    check_bounds(server, server.broker, row.request(code))


@pytest.mark.parametrize(("code", "row"), namesrv_rows.ROWS.items(), ids=lambda v: str(v)[:6])
def test_request_of_the_name_server(server: ServerProcess, code: int, row: Row) -> None:
    check_bounds(server, server.namesrv, row.request(code))


@pytest.mark.parametrize("gone", [False, True], ids=["waiting", "gone"])
@pytest.mark.parametrize("part", ["body", "field"])
def test_pulls_that_wait(server: ServerProcess, part: str, gone: bool) -> None:
    """Parked for minutes, with 3 MiB each that no pull needs."""
    before = server.status_kib("RssAnon")
    for queue in range(4):
        with Client(server.broker) as client:
            end = client.max_offset(broker_rows.TOPIC, queue)
        pull = pull_command(broker_rows.TOPIC, queue, end, sys_flag=6, suspend_ms=600_000)
        if part == "body":
            pull.body = b"z" * BODY
        else:
            pull.ext["nobodyAskedFor"] = "x" * FIELD
        stranger = Stranger(server.broker, encode(pull) * COUNT)
        try:
            stranger.wait()
            if gone:
                stranger.close()
            eventually(
                lambda: server.status_kib("RssAnon") - before,
                "what is kept of the pulls stays below a bound",
                until=lambda kib: kib <= SLACK_KIB,
            )
        finally:
            stranger.close()
