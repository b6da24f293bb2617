"""A turn of many connections in one native call, over socket pairs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from pyrmq.engine import Listener, RecvBuffer, Session, Store, Turn
from tests.session.exchange import new_session, serving
from tests.session.test_round import NOW, opaques, send
from tests.support.wire import Command, encode

LATER = 60_000


class Line:
    """A session with its socket, and the peer's."""

    def __init__(self, listener: Listener, stack: ExitStack) -> None:
        ours, peer = socket.socketpair()
        self.ours, self.peer = stack.enter_context(ours), stack.enter_context(peer)
        self.ours.setblocking(False)
        self.session: Session = new_session(listener)
        self.session.fd = self.ours.fileno()

    def said(self) -> list[tuple[int, int]]:
        self.peer.setblocking(False)
        try:
            return opaques(self.peer.recv(1 << 20))
        except BlockingIOError:
            return []


class World:
    def __init__(self, store: Store, listener: Listener, stack: ExitStack) -> None:
        self.store, self.listener = store, listener
        self.lines = [Line(listener, stack) for _ in range(5)]
        self.turn = Turn(len(self.lines))
        self.buffer = RecvBuffer(1 << 16)

    def receive(self, *, answers: bool = True, store: bool = True):
        sessions = [line.session for line in self.lines]
        where = self.store if store else None
        return self.turn.receive(sessions, self.buffer, where, NOW, LATER, answers)


@contextmanager
def a_world(root: Path, **options: bool) -> Iterator[World]:
    with ExitStack() as stack:
        store, listener = stack.enter_context(serving(root, **options))
        yield World(store, listener, stack)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


def test_all_are_written_at_once_and_answered(world: World):
    world.store.notify_on_arrival("T", 0)
    for n, line in enumerate(world.lines):
        line.peer.send(send(10 * n) + send(10 * n + 1))
    assert world.receive() == ([], None)
    assert world.turn.arrivals
    assert world.store.queue_range("T", 0) == (0, 10)
    for n, line in enumerate(world.lines):
        assert line.said() == [(10 * n, 0), (10 * n + 1, 0)]
        assert line.session.unconfirmed == 0
    world.store.drain_arrivals()
    assert world.receive() == ([], None), "nothing has come, and nothing is to be done"
    assert not world.turn.arrivals


def test_what_needs_care_is_reported(world: World):
    plain, refused, command, broken, ended = world.lines
    plain.peer.send(send(1))
    refused.peer.send(send(2, queue_id=77) + send(3)[:50])
    command.peer.send(encode(Command(code=35, opaque=4)) + send(5))
    broken.peer.send(send(6) + b"\xff" * 64)
    ended.peer.close()
    left, error = world.receive()
    assert error is None
    assert [(i, end, rest, failure) for i, end, rest, failure in left] == [
        (2, False, None, None),
        (3, False, None, None),
        (4, True, None, None),
    ]
    assert plain.said() == [(1, 0)]
    assert refused.said() == [(2, 29)]
    assert command.said() == [(5, 0)]
    found = command.session.next_command()
    assert found is not None
    assert (found.code, found.opaque) == (35, 4)
    assert broken.session.error is not None
    assert opaques(broken.session.release(NOW, LATER)) == [(6, 0)], "what it sent before counts"
    refused.peer.send(send(3)[50:])
    world.receive()
    assert refused.said() == [(3, 0)]


def test_what_the_socket_does_not_take_is_given_back(world: World):
    line = world.lines[0]
    with suppress(BlockingIOError):
        while True:
            line.ours.send(bytes(1 << 16))
    line.peer.send(send(1) + send(2, queue_id=77) + send(3))
    ((index, ended, rest, failure),), _ = world.receive()
    assert (index, ended, failure) == (0, False, None)
    assert opaques(rest) == [(1, 0), (2, 29), (3, 0)]


def test_a_socket_that_is_gone_fails_alone(world: World):
    first, second, *_ = world.lines
    first.peer.send(send(1))
    first.ours.shutdown(socket.SHUT_WR)
    second.peer.send(send(2))
    world.lines[2].session.fd = 10_000
    left, _ = world.receive()
    (index, ended, _, failure), (other, gone, _, nothing) = left
    assert (index, ended) == (0, False)
    assert isinstance(failure, BrokenPipeError)
    assert (other, gone, nothing) == (2, True, None)
    assert second.said() == [(2, 0)]
    assert world.store.queue_range("T", 0) == (0, 2)


def test_answers_wait_for_the_flush(tmp_path: Path):
    with a_world(tmp_path, sync_flush=True) as world:
        for n, line in enumerate(world.lines):
            line.peer.send(send(n))
        left, error = world.receive(answers=False)
        assert error is None
        assert [index for index, *_ in left] == [0, 1, 2, 3, 4]
        sessions = [line.session for line in world.lines]
        assert [session.unconfirmed for session in sessions] == [1] * 5
        while world.turn.release(sessions, NOW, LATER):
            pass
        assert [line.said() for line in world.lines] == [[(n, 0)] for n in range(5)]


def test_a_write_that_fails_is_said_and_answered(world: World):
    world.store.close()
    world.lines[0].peer.send(send(1))
    left, error = world.receive()
    assert error is None, "the message was refused before"
    assert left == []
    ((_, code),) = world.lines[0].said()
    assert code == 14


def test_a_name_server_stores_nothing(world: World):
    world.lines[1].peer.send(encode(Command(code=105, opaque=9)))
    left, error = world.receive(store=False)
    assert error is None
    assert [index for index, *_ in left] == [1]


def test_misuse_is_an_error(world: World):
    sessions = [line.session for line in world.lines]
    with pytest.raises(ValueError, match="room for 5"):
        world.turn.release([*sessions, sessions[0]], NOW, LATER)
    with pytest.raises(RuntimeError, match="one thread"):
        world.turn.release([sessions[0], sessions[0]], NOW, LATER)
    sessions[3].fd = -1
    with pytest.raises(ValueError, match="without a socket"):
        world.turn.release(sessions, NOW, LATER)
    sessions[3].fd = world.lines[3].ours.fileno()
    with pytest.raises(TypeError):
        world.turn.release([sessions[0], None], NOW, LATER)  # type: ignore[list-item]
    assert world.turn.release(sessions, NOW, LATER) == [], "nobody was left in use"
