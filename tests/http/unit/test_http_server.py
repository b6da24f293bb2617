"""The HTTP server on streams in memory, by a clock that jumps: what it answers, and its bounds."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPResponse
from io import BytesIO
from typing import cast

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair

from pyrmq.errors import ConfigError
from pyrmq.http import connection as connection_module
from pyrmq.http import server as server_module
from pyrmq.http.connection import ANSWER_SECONDS, MAX_HEADER, MAX_LINGER, READ_SECONDS
from pyrmq.http.messages import Reply, Request, text
from pyrmq.http.server import AT_ONCE, MAX_CONNECTIONS, HttpServer, http_listeners
from tests.support.waiting import eventually_trio

GET = b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0.01)


class Answer:
    """An answer of a server, as Python's own client reads it."""

    def __init__(self, data: bytes) -> None:
        response = HTTPResponse(cast("object", _Socket(data)))  # type: ignore[arg-type]
        response.begin()
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        return BytesIO(self._data)


async def here(request: Request) -> Reply:
    return text(200, f"{request.method} {request.query} {request.headers.get('accept')}")


async def broken(request: Request) -> Reply:
    raise ValueError("a fault")


async def parts(request: Request) -> Reply:
    async def made() -> AsyncGenerator[bytes, None]:
        for part in (b"one ", b"", b"two"):
            yield part

    return Reply(200, "text/plain", made())


async def cut_off(request: Request) -> Reply:
    async def made() -> AsyncGenerator[bytes, None]:
        yield b"one"
        raise ValueError("a fault")

    return Reply(200, "text/plain", made())


ROUTES = {"/here": here, "/broken": broken, "/parts": parts, "/cut": cut_off}


def a_server(**routes: object) -> HttpServer:
    return HttpServer("test", [], ROUTES | routes)  # type: ignore[arg-type]


async def received(stream: trio.abc.ReceiveStream) -> bytes:
    """What comes until the end; closes the stream."""
    data = b""
    async with stream:
        async for part in stream:
            data += part
    return data


async def ask(request: bytes, server: HttpServer | None = None) -> bytes:
    """What a connection gets that sends these bytes."""
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon((server or a_server()).serve, theirs, "a:1")
        await ours.send_all(request)
        return await received(ours)


async def get(path: str, method: str = "GET", version: str = "1.1") -> bytes:
    return await ask(
        f"{method} {path} HTTP/{version}\r\nHost: a\r\nAccept: text/x\r\n\r\n".encode()
    )


async def test_a_request_reaches_its_handler_and_the_connection_ends(
    autojump_clock: MockClock,
) -> None:
    answer = Answer(await get("/here?name=x"))
    assert (answer.status, answer.body) == (200, b"GET name=x text/x")
    assert answer.headers["connection"] == "close"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert Answer(await get("http://host:1/here?a")).body == b"GET a text/x"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_body_in_parts(version: str, autojump_clock: MockClock) -> None:
    answer = Answer(await get("/parts", version=version))
    assert (answer.status, answer.body) == (200, b"one two")
    assert (answer.headers["transfer-encoding"] == "chunked") == (version == "1.1")


@pytest.mark.parametrize("path", ["/here", "/parts"])
async def test_head_has_no_body(path: str, autojump_clock: MockClock) -> None:
    data = await get(path, "HEAD")
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert data.endswith(b"\r\n\r\n")


async def test_what_is_not_served(autojump_clock: MockClock) -> None:
    missing = Answer(await get("/other"))
    assert (missing.status, missing.body) == (
        404,
        b"this server has /broken, /cut, /here, /parts\n",
    )
    wrong = Answer(await get("/here", "POST"))
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD")


async def test_a_handler_that_fails(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    assert Answer(await get("/broken")).status == 500
    assert "/broken is not answered" in caplog.text
    data = await get("/cut")
    assert data.endswith(b"one\r\n")  # and no last chunk: the client knows that it ended early
    assert "an answer was ended early" in caplog.text


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03\r\n\r\n", 400),
        (b"GET /here HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /here HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", 400),
        (b"GET /here HTTP/1.1\r\nHost: a\r\nx: " + b"y" * (MAX_HEADER + 4096), 431),
    ],
)
async def test_what_is_no_request(request_: bytes, status: int, autojump_clock: MockClock) -> None:
    assert Answer(await ask(request_)).status == status


async def test_a_second_request_on_a_connection_is_not_answered(
    autojump_clock: MockClock,
) -> None:
    data = await ask(GET + GET)
    assert data.count(b"HTTP/1.1 200") == 1


async def test_what_comes_behind_a_request_is_thrown_away(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(a_server().serve, theirs, "a:1")
        await ours.send_all(GET + b"x" * (MAX_LINGER + 8192))  # and it does not close
        assert Answer(await received(ours)).status == 200


async def test_a_request_that_does_not_end(autojump_clock: MockClock) -> None:
    start = trio.current_time()
    answer = Answer(await ask(GET[:-2]))
    assert answer.status == 408
    assert trio.current_time() - start >= READ_SECONDS


async def test_who_closes_without_a_request_gets_nothing(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    await ours.send_eof()
    await a_server().serve(theirs, "a:1")
    assert await received(ours) == b""


async def test_who_does_not_read_loses_the_connection(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = a_server()
    start = trio.current_time()
    ours, theirs = lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs, "a:1")
        await ours.send_all(GET)
    assert trio.current_time() - start == pytest.approx(ANSWER_SECONDS, abs=1)
    assert "was not read" in caplog.text
    assert Answer(await ask(GET, server)).status == 200


async def test_an_endless_answer_is_ended(autojump_clock: MockClock) -> None:
    closed = trio.Event()

    async def endless(request: Request) -> Reply:
        async def made() -> AsyncGenerator[bytes, None]:
            try:
                while True:
                    yield b"x"
                    await trio.sleep(1)
            finally:
                closed.set()

        return Reply(200, "text/plain", made())

    server = a_server()
    server.add({"/endless": endless})
    data = await ask(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n", server)
    assert not data.endswith(b"0\r\n\r\n")
    assert closed.is_set()


async def test_requests_of_one_path_at_a_time(autojump_clock: MockClock) -> None:
    go = trio.Event()

    async def slow(request: Request) -> Reply:
        await go.wait()
        return text(200, "done")

    server = a_server()
    server.add({"/slow": slow})
    request = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
    statuses: list[int] = []

    async def one() -> None:
        statuses.append(Answer(await ask(request, server)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE + 2):
            nursery.start_soon(one)
        await eventually_trio(lambda: len(statuses) == 2, "two are refused")
        assert statuses == [503, 503]
        assert Answer(await ask(GET, server)).status == 200  # other paths are answered
        go.set()
    assert statuses == [503, 503] + [200] * AT_ONCE
    assert Answer(await ask(request, server)).status == 200


@asynccontextmanager
async def listening(server: HttpServer) -> AsyncIterator[HttpServer]:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            yield server
            nursery.cancel_scope.cancel()


def on_a_port() -> HttpServer:
    return HttpServer("test", http_listeners("127.0.0.1", 0, "aPort"), ROUTES)


async def test_a_crowd_that_sends_nothing_does_not_keep_others_out() -> None:
    async with listening(on_a_port()) as server:
        host, port = server.address
        crowd = [await trio.open_tcp_stream(host, port) for _ in range(MAX_CONNECTIONS + 8)]
        stream = await trio.open_tcp_stream(host, port)
        await stream.send_all(GET)
        await stream.send_eof()
        assert Answer(await received(stream)).status == 200
        for one in crowd[:8]:  # the oldest gave way
            assert await received(one) == b""
        for one in crowd[8:]:
            await trio.aclose_forcefully(one)


async def test_more_connections_than_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    go = trio.Event()

    async def slow(request: Request) -> Reply:
        await go.wait()
        return text(200, "done")

    async with listening(on_a_port()) as server:
        server.add({"/here": slow})
        first = [await trio.open_tcp_stream(*server.address) for _ in range(2)]
        for stream in first:
            await stream.send_all(GET)
        await eventually_trio(lambda: server.answering == 2, "both are answered")
        late = await trio.open_tcp_stream(*server.address)
        assert (await received(late)).startswith(b"HTTP/1.1 503 ")
        go.set()
        for stream in first:
            assert Answer(await received(stream)).status == 200


async def test_clients_that_do_not_close_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of them must not make a liveness probe fail."""
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(connection_module, "LINGER_SECONDS", 60.0)
    async with listening(on_a_port()) as server:
        held = []
        for _ in range(6):
            stream = await trio.open_tcp_stream(*server.address)
            held.append(stream)
            await stream.send_all(GET)
            answer = b""
            async for part in stream:  # up to the server's end; this side stays open
                answer += part
            assert Answer(answer).status == 200
        for stream in held:
            await trio.aclose_forcefully(stream)


async def test_the_sockets_are_closed_at_the_end() -> None:
    async with listening(on_a_port()) as server:
        address = server.address
        waiting = await trio.open_tcp_stream(*address)
    assert await received(waiting) == b""
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream(*address)


async def test_a_port_in_use_names_the_key() -> None:
    async with listening(on_a_port()) as server:
        with pytest.raises(ConfigError, match=r"cannot listen on .* aPort chooses another port"):
            http_listeners(*server.address, "aPort")


async def test_a_client_that_goes_away(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    caplog.set_level(logging.INFO)
    ours, theirs = memory_stream_pair()
    await ours.send_all(b"GET")
    await trio.aclose_forcefully(ours)
    await a_server().serve(theirs, "a\x1b:1")
    assert "\x1b" not in caplog.text
