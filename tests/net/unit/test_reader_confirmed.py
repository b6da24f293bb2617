"""Who sends the answers that wait for a flush: the ready loop, or the reader."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.net.clock import clock_ms
from pyrmq.net.server.connection import MAX_AWAITED, Connection
from pyrmq.net.server.connection_state import Event
from pyrmq.net.server.reader import Reader
from pyrmq.net.server.unconfirmed import Unconfirmed
from tests.net.unit.session.exchange import new_session, serving
from tests.net.unit.session.test_deferred_write import opaques, send
from tests.support.wire import Command, encode

NEVER = 1 << 60
FLUSH_DISK_TIMEOUT = 10


class Nobody:
    """Stands for the dispatcher where no command comes."""

    def wake_parked(self) -> None:
        pass


class World:
    """A reader with SYNC_FLUSH, and connections with their peers."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        store, listener = stack.enter_context(serving(root, sync_flush=True))
        self.unconfirmed = Unconfirmed("test", store, 60_000)
        dispatcher: Any = Nobody()
        self.reader = Reader("test", listener, dispatcher, self.unconfirmed, store)
        self.peers = []
        self.connections: list[Connection] = []
        for _ in range(2):
            ours, peer = (stack.enter_context(one) for one in socket.socketpair())
            ours.setblocking(False)
            peer.settimeout(60)
            self.reader.add(ours, new_session(listener), f"peer {peer.fileno()}")
            self.connections.append(self.reader.connections[ours.fileno()])
            self.peers.append(peer)
        stack.callback(self.reader.close_all)

    def keep(self, at: int, opaque: int, log_end: int = NEVER) -> None:
        """The session keeps an answer."""
        frame = encode(Command(code=0, opaque=opaque, flag=1))
        session = self.connections[at].session
        assert session.answer(frame, 0, opaque, log_end, clock_ms()) is None
        self.unconfirmed.note(self.connections[at])

    async def serve(self) -> None:
        """One turn of the reader, behind something that is ready."""
        with trio.fail_after(60):
            await trio.lowlevel.wait_readable(self.reader._epoll.fileno())
        self.reader._serve_shift()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, stack)


async def test_the_loop_has_those_that_it_watches(world: World) -> None:
    first = world.connections[0]
    assert not world.unconfirmed
    world.keep(0, 1)
    assert world.unconfirmed
    assert not world.unconfirmed.has_noted
    first.keep(b"what its socket did not take")
    assert world.unconfirmed.has_noted
    first.send_kept()
    assert world.unconfirmed
    assert not world.unconfirmed.has_noted
    world.reader.close(first)
    assert not world.unconfirmed


async def test_when_the_server_stops_the_reader_has_all(world: World) -> None:
    world.keep(0, 1)
    world.keep(1, 2)
    world.reader.stop_reading()
    assert world.unconfirmed.has_noted
    assert world.reader._ready_loop.keeping() == []
    for connection in world.connections:
        connection.happened(Event.END)
        world.reader.close(connection)
    assert not world.unconfirmed


async def test_both_look_behind_a_flush(world: World) -> None:
    """The time of what the second one keeps is over, so it leaves when somebody looks."""
    watched, other = world.connections
    world.keep(1, 77)
    for _ in range(MAX_AWAITED + 1):
        other.begin_awaited()  # so nothing is read from it
    assert world.unconfirmed.has_noted
    world.unconfirmed.timeout = 0
    world.peers[0].send(send(5))
    while other.session.unconfirmed:
        await world.serve()
    assert not watched.session.unconfirmed
    assert opaques(world.peers[0].recv(1 << 16)) == [(5, 0)]
    assert opaques(world.peers[1].recv(1 << 16)) == [(77, FLUSH_DISK_TIMEOUT)]
    assert not world.unconfirmed


async def test_the_time_limit_holds_for_both(world: World) -> None:
    world.keep(0, 1)
    world.keep(1, 2)
    world.reader.stop_reading()
    world.reader.stopping = False
    world.reader._arm(world.connections[0])
    assert world.reader.keeping() == [world.connections[0]]
    assert world.unconfirmed.has_noted
    world.unconfirmed.timeout = 0
    world.unconfirmed.release()
    for n, peer in enumerate(world.peers, 1):
        assert opaques(peer.recv(1 << 16)) == [(n, FLUSH_DISK_TIMEOUT)]
    assert not world.unconfirmed
