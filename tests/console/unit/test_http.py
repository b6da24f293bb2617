"""Connections of the console: who gives way when there are many, and who takes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pyrmq.console import http
from pyrmq.console.service import ConsoleService
from pyrmq.console.settings import Settings
from pyrmq.net.server.listen import open_listeners

pytestmark = pytest.mark.usefixtures("deadline")
ASK = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


@pytest.fixture
async def service(deadline: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConsoleService]:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(http, "WRITE", 1e6)
    monkeypatch.setattr("pyrmq.console.service.KEEP_ALIVE", 1e6)
    running = ConsoleService(Settings("127.0.0.1:1", ("127.0.0.1", 0)))
    async with trio.open_nursery() as nursery:
        await nursery.start(running.run)
        yield running
        nursery.cancel_scope.cancel()


async def answer(stream: trio.SocketStream) -> bytes:
    await stream.send_all(ASK)
    return await stream.receive_some(4096)


@asynccontextmanager
async def serving(handler: Callable[[Request], Awaitable[Response]]) -> AsyncIterator[Any]:
    """A server of one page."""
    app = Starlette(routes=[Route("/health", handler)])
    (sock,) = open_listeners("127.0.0.1", 0)
    address = sock.getsockname()
    server = http.HttpServer(app, Config(), [sock])  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield address
        server.stop()


async def said_by(stream: trio.SocketStream) -> bytes:
    """What comes next; nothing from a connection that is closed."""
    with suppress(trio.BrokenResourceError):
        return await stream.receive_some()
    return b""


async def test_the_oldest_that_waits_gives_way(service: ConsoleService) -> None:
    first, second, third = [await trio.open_tcp_stream(*service.address) for _ in range(3)]
    for stream in (second, third):
        assert (await answer(stream)).startswith(b"HTTP/1.1 200")
    assert await first.receive_some() == b""
    for stream in (first, second, third):
        await stream.aclose()


async def test_those_that_are_answered_do_not(service: ConsoleService) -> None:
    """Not even for many; and a client that has all of its request is answered."""
    entered, go_on = trio.Semaphore(0), trio.Event()

    async def slow(request: Request) -> Response:
        entered.release()
        await go_on.wait()
        return PlainTextResponse("slow")

    async with serving(slow) as address:
        begun = [await trio.open_tcp_stream(*address) for _ in range(2)]
        for stream in begun:
            await stream.send_all(ASK)
            await entered.acquire()
        third = await trio.open_tcp_stream(*address)
        assert await said_by(third) == b""
        go_on.set()
        for stream in begun:
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
        for stream in (*begun, third):
            await stream.aclose()


async def test_requests_that_have_no_end_keep_nobody_out(service: ConsoleService) -> None:
    begun = [await trio.open_tcp_stream(*service.address) for _ in range(2)]
    for stream in begun:
        await stream.send_all(
            b"POST /topics/~/create HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\n"
            b"content-type: application/x-www-form-urlencoded\r\ncontent-length: 1\r\n\r\n"
        )
        assert b"100" in await stream.receive_some()
    async with await trio.open_tcp_stream(*service.address) as third:
        assert (await answer(third)).startswith(b"HTTP/1.1 200")
        assert await said_by(begun[0]) == b""
        await begun[1].send_all(b"x")
        assert (await begun[1].receive_some()).startswith(b"HTTP/1.1 403")
    for stream in begun:
        await stream.aclose()


async def test_who_takes_no_answer_keeps_nobody_out(service: ConsoleService) -> None:
    entered = trio.Semaphore(0)

    async def large(request: Request) -> Response:
        entered.release()
        return PlainTextResponse(bytes(32 << 20))

    async with serving(large) as address:
        begun = [await trio.open_tcp_stream(*address) for _ in range(2)]
        for stream in begun:
            await stream.send_all(ASK)
            await entered.acquire()
        said = b""
        while not said:  # until what the sockets keep is full
            third = await trio.open_tcp_stream(*address)
            with suppress(trio.BrokenResourceError):
                said = await answer(third)
            await trio.aclose_forcefully(third)
        assert said.startswith(b"HTTP/1.1 200")
        for stream in begun:
            await trio.aclose_forcefully(stream)


async def test_a_client_that_left_has_no_connection(service: ConsoleService) -> None:
    """Also between its requests. It is no error of the console either."""
    stream = await trio.open_tcp_stream(*service.address)
    assert (await answer(stream)).startswith(b"HTTP/1.1 200")
    await stream.send_eof()
    while await said_by(stream):
        pass
    await stream.aclose()


async def test_a_request_that_breaks_off_is_no_error(
    service: ConsoleService, caplog: pytest.LogCaptureFixture
) -> None:
    stream = await trio.open_tcp_stream(*service.address)
    await stream.send_all(
        b"POST /topics/~/create HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n"
        b"content-type: application/x-www-form-urlencoded\r\n\r\nx"
    )
    await stream.send_eof()
    while await said_by(stream):
        pass
    await stream.aclose()
    async with await trio.open_tcp_stream(*service.address) as other:
        assert (await answer(other)).startswith(b"HTTP/1.1 200")
    assert [r.levelname for r in caplog.records if r.levelname == "ERROR"] == []


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


async def test_a_body_with_two_lengths_hides_no_request(service: ConsoleService) -> None:
    """A proxy that goes by the other length would give the second request to somebody else."""
    async with await trio.open_tcp_stream(*service.address) as stream:
        await stream.send_all(
            b"POST /health HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 80\r\n"
            b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n" + ASK
        )
        said = b""
        while piece := await said_by(stream):
            said += piece
    assert said.startswith(b"HTTP/1.1 400")
    assert said.endswith(b"a request has one length: content-length or transfer-encoding\n")
