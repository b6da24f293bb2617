"""Answers that are not taken: counted, and bounded for each connection and for all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pyrmq.engine import Listener, Session
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import State
from pyrmq.net.server.unsent import PIECE, Unsent

SIZE = 1 << 20
"""Bytes of an answer; more than a socket takes."""


class World:
    def __init__(self, stack: ExitStack, **bounds: int) -> None:
        self._stack = stack
        self.unsent = Unsent(**bounds)

    def connect(self) -> tuple[Connection, socket.socket]:
        ours, peer = (self._stack.enter_context(one) for one in socket.socketpair())
        for one in (ours, peer):
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        session = Session(Listener(), b"\x7f\0\0\1", 1)
        return Connection(ours, session, "peer", lambda _: None, 0.0, self.unsent), peer


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def read(peer: socket.socket) -> int:
    """Takes what is there."""
    taken = 0
    while True:
        try:
            taken += len(peer.recv(1 << 20))
        except BlockingIOError:
            return taken


def test_it_is_counted_until_it_is_taken(stack: ExitStack) -> None:
    world = World(stack)
    connection, peer = world.connect()
    connection.send(b"small")
    assert world.unsent.total == 0
    connection.send(bytes(SIZE), bytes(SIZE))
    assert 2 * SIZE <= world.unsent.of(connection) == world.unsent.total <= 2 * (SIZE + PIECE)
    assert connection.has_room
    taken = 0
    while connection.out:
        taken += read(peer)
        connection.send_kept()
        assert world.unsent.total >= sum(len(piece) for piece in connection.out)
    assert world.unsent.total == world.unsent.of(connection) == 0
    assert taken + read(peer) == 2 * SIZE + 5


def test_a_connection_that_takes_nothing_is_closed(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(stack, most=4 * SIZE)
    connection, _ = world.connect()
    for _ in range(3):
        connection.send(bytes(SIZE))
    assert connection.state is State.OPEN
    connection.send(bytes(2 * SIZE))
    assert connection.state is State.CLOSED
    assert not connection.out
    assert world.unsent.total == 0
    assert "has not taken answers" in caplog.text


def test_of_all_connections_the_one_with_most_is_closed(stack: ExitStack) -> None:
    world = World(stack, most_of_all=6 * SIZE)
    first, second, third = (world.connect()[0] for _ in range(3))
    first.send(bytes(2 * SIZE))
    second.send(bytes(3 * SIZE))
    third.send(bytes(SIZE // 2))
    assert {c.state for c in (first, second, third)} == {State.OPEN}
    third.send(bytes(SIZE))
    assert [c.state for c in (first, second, third)] == [State.OPEN, State.CLOSED, State.OPEN]
    assert world.unsent.total == world.unsent.of(first) + world.unsent.of(third)


def test_one_that_closes_gives_its_bytes_back(stack: ExitStack) -> None:
    world = World(stack)
    connection, peer = world.connect()
    connection.send(bytes(SIZE))
    peer.close()
    connection.send_kept()
    assert connection.state is State.MUTE
    assert world.unsent.total == 0


def test_no_request_is_put_behind_many_bytes(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question to a client, or a reply that is passed on."""
    monkeypatch.setattr("pyrmq.net.server.connection.MAX_WAITING_BYTES", 3 * SIZE)
    connection, _ = World(stack).connect()
    connection.send(bytes(SIZE))
    assert connection.has_room
    connection.send(bytes(3 * SIZE))
    assert not connection.has_room


def test_parts_of_an_answer_count_as_what_they_keep(stack: ExitStack) -> None:
    """The rest of a buffer keeps all of it."""
    world = World(stack)
    connection, peer = world.connect()
    piece: Any = bytes(SIZE)
    connection.send(piece)
    read(peer)
    connection.send_kept()
    assert 0 < len(connection.out[0]) < SIZE
    assert world.unsent.total == SIZE + PIECE
