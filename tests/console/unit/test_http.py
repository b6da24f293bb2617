"""Connections of the console: who gives way when there are many, and who takes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trio

from pyrmq.console import http
from pyrmq.console.service import ConsoleService
from pyrmq.console.settings import Settings

pytestmark = pytest.mark.usefixtures("deadline")
ASK = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


@pytest.fixture
async def service(deadline: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConsoleService]:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 2)
    running = ConsoleService(Settings("127.0.0.1:1", ("127.0.0.1", 0)))
    async with trio.open_nursery() as nursery:
        await nursery.start(running.run)
        yield running
        nursery.cancel_scope.cancel()


async def answer(stream: trio.SocketStream) -> bytes:
    await stream.send_all(ASK)
    return await stream.receive_some(4096)


async def test_the_oldest_that_waits_gives_way(service: ConsoleService) -> None:
    first, second, third = [await trio.open_tcp_stream(*service.address) for _ in range(3)]
    for stream in (second, third):
        assert (await answer(stream)).startswith(b"HTTP/1.1 200")
    assert await first.receive_some() == b""
    for stream in (first, second, third):
        await stream.aclose()


async def test_those_that_have_begun_do_not(service: ConsoleService) -> None:
    begun = [await trio.open_tcp_stream(*service.address) for _ in range(2)]
    for stream in begun:
        await stream.send_all(
            b"POST /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\n"
            b"content-length: 1\r\n\r\n"
        )
        assert b"100" in await stream.receive_some()
    third = await trio.open_tcp_stream(*service.address)
    try:
        said = await third.receive_some()
    except trio.BrokenResourceError:
        said = b""
    assert said == b""
    for stream in begun:
        await stream.send_all(b"x")
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 404")
    for stream in (*begun, third):
        await stream.aclose()


@pytest.mark.parametrize(
    "asked",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
        b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade, http2-settings\r\n"
        b"upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n",
    ],
)
async def test_no_http_2(service: ConsoleService, asked: bytes) -> None:
    stream = await trio.open_tcp_stream(*service.address)
    await stream.send_all(asked)
    said = b""
    with suppress(trio.BrokenResourceError):
        while piece := await stream.receive_some():
            said += piece
    assert b"ok" not in said
    await stream.aclose()
    async with await trio.open_tcp_stream(*service.address) as other:
        assert (await answer(other)).startswith(b"HTTP/1.1 200")


async def test_who_takes_nothing_is_closed(
    service: ConsoleService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "WRITE", 0.05)
    stream = await trio.open_tcp_stream(*service.address)
    request = b"GET /static/htmx.min.js HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with pytest.raises(trio.BrokenResourceError):
        await stream.send_all(request * 100_000)
    await stream.aclose()
