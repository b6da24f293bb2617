"""The server's loop on real sockets: a peer that is gone, answers that wait, a stop."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager

import trio
import trio.testing

from pyrmq.engine import Command, Listener
from pyrmq.model.codes import RequestCode
from pyrmq.net.command import Response, encode_request
from pyrmq.net.server.answers import Processor
from pyrmq.net.server.connection import MAX_AWAITED, Connection
from pyrmq.net.server.listen import open_listeners
from pyrmq.net.server.server import RemotingServer
from tests.support.waiting import eventually_trio

AWAITED = RequestCode.REGISTER_BROKER  # its body may be as long as a frame
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection."""


@asynccontextmanager
async def serving(
    processors: Mapping[int, Processor], listener: Listener | None = None
) -> AsyncIterator[RemotingServer]:
    listener = listener or Listener(None)
    server = RemotingServer("test", open_listeners("127.0.0.1", 0), processors, listener)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server
        nursery.cancel_scope.cancel()


def requests(code: int, count: int) -> bytes:
    return b"".join(encode_request(code, opaque) for opaque in range(count))


async def test_a_reset_connection_with_frames_in_wait_is_no_work() -> None:
    """Its answers are awaited and frames wait for their turn: the reader sleeps meanwhile."""
    ready = trio.Event()
    seen = 0

    async def later(connection: Connection, command: Command) -> Response:
        nonlocal seen
        seen += 1
        await ready.wait()
        return Response()

    with trio.fail_after(20):
        async with serving({AWAITED: later}) as server:
            peer = socket.create_connection(server.address)
            peer.sendall(requests(AWAITED, 3 * MAX_AWAITED))
            await eventually_trio(lambda: seen > MAX_AWAITED, "too many are awaited to read on")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            peer.close()
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert len(server.connections) == 1
            ready.set()
            await eventually_trio(lambda: not server.connections, "the connection is closed")
            await trio.testing.wait_all_tasks_blocked()
            assert seen == 3 * MAX_AWAITED, "what came before the reset is carried out"


async def test_stalled_large_frames_give_way_to_those_that_come() -> None:
    """Connections that begin large frames and fall silent, until the memory for such frames is
    short: the oldest ones go, small requests and whoever sends a large one are served."""
    large = encode_request(AWAITED, 7, body=bytes(600_000))
    small = encode_request(AWAITED, 8)

    async def answer(connection: Connection, command: Command) -> Response:
        return Response(body=b"%d" % len(command.body))

    listener = Listener(None, partial_limit=2_000_000)
    with trio.fail_after(30), ExitStack() as closing:
        async with serving({AWAITED: answer}, listener) as server:

            async def connect() -> trio.SocketStream:
                stream = await trio.open_tcp_stream(*server.address)
                closing.callback(stream.socket.close)
                return stream

            async def ask(stream: trio.SocketStream, request: bytes) -> bytes:
                await stream.send_all(request)
                return bytes(await stream.receive_some(4096))

            first = await connect()
            stalled = [first]
            await first.send_all(large[:-1])
            talker = await connect()
            for n in range(12):
                stalled.append(await connect())
                await stalled[-1].send_all(large[:400_000])
                assert (await ask(talker, small)).endswith(b"0"), n
            assert await first.receive_some(10) == b"", "closed, as the oldest"
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert listener.partial_bytes() < 2_000_000
            assert len(server.connections) > 2, "no more than are needed"
            assert (await ask(await connect(), large)).endswith(b"600000")
            await stalled[-1].send_all(large[400_000:])
            assert (await stalled[-1].receive_some(4096)).endswith(b"600000"), "the newest stays"
