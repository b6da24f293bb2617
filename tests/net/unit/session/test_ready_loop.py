"""The ready loop: many connections in one native call, over socket pairs."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyrmq.engine import AnswerSender, Listener, ReadyLoop, RecvBuffer, Session, Store
from pyrmq.net.clock import clock_ms
from tests.net.unit.session.exchange import new_session, serving
from tests.net.unit.session.test_deferred_write import opaques, send
from tests.support.waiting import eventually
from tests.support.wire import Command, encode

if TYPE_CHECKING:
    from pyrmq.engine import Left

NOW = clock_ms()
"""The loop reads the clock by itself: an invented time would let its answers time out."""
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
    """`stores`: the loop writes what its sessions store."""

    def __init__(
        self, store: Store, listener: Listener, stack: ExitStack, *, stores: bool = True
    ) -> None:
        self.store, self.listener = store, listener
        self.lines = [Line(listener, stack) for _ in range(5)]
        self.sender = AnswerSender(len(self.lines))
        self.buffer = RecvBuffer(1 << 16)
        self.epoll = stack.enter_context(select.epoll())
        storage = store if stores else None
        self.loop = ReadyLoop(self.epoll.fileno(), len(self.lines), 1 << 16, storage, LATER)
        for line in self.lines:
            self.epoll.register(line.ours.fileno(), select.EPOLLIN)
            self.loop.watch(line.session)

    def serve(
        self, *, linger: float = 0.0, hold: bool = False
    ) -> tuple[list[tuple[int, int]], list[Left], Exception | None]:
        """The descriptors in it are positions of `lines`."""
        end = time.monotonic_ns() + 40_000_000_000
        others, left, error = self.loop.serve(7.5, end, int(linger * 1e9), hold)
        return [(self.at(fd), event) for fd, event in others], self.by_line(left), error

    def finish(self) -> tuple[list[Left], Exception | None]:
        left, error = self.loop.finish(7.5)
        return self.by_line(left), error

    def by_line(self, left: list[Left]) -> list[Left]:
        return sorted((self.at(fd), *rest) for fd, *rest in left)

    def at(self, fd: int) -> int:
        return [line.session.fd for line in self.lines].index(fd)


@contextmanager
def a_world(root: Path, *, stores: bool = True, **options: bool) -> Iterator[World]:
    with ExitStack() as stack:
        store, listener = stack.enter_context(serving(root, **options))
        yield World(store, listener, stack, stores=stores)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


def test_all_are_written_at_once_and_answered(world: World):
    world.store.notify_on_arrival("T", 0)
    for n, line in enumerate(world.lines):
        line.peer.send(send(10 * n) + send(10 * n + 1))
    assert world.serve() == ([], [], None)
    assert world.loop.arrivals
    assert world.store.queue_range("T", 0) == (0, 10)
    for n, line in enumerate(world.lines):
        assert line.said() == [(10 * n, 0), (10 * n + 1, 0)]
        assert line.session.unconfirmed == 0
    world.store.drain_arrivals()
    assert world.serve() == ([], [], None), "nothing has come, and nothing is to be done"
    assert not world.loop.arrivals


def test_what_needs_care_is_reported(world: World):
    plain, refused, command, broken, ended = world.lines
    plain.peer.send(send(1))
    refused.peer.send(send(2, queue_id=77) + send(3)[:50])
    command.peer.send(encode(Command(code=35, opaque=4)) + send(5))
    broken.peer.send(send(6) + b"\xff" * 64)
    ended.peer.shutdown(socket.SHUT_WR)
    _, left, error = world.serve()
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
    world.serve()
    assert refused.said() == [(3, 0)]


def test_what_the_socket_does_not_take_is_given_back(world: World):
    line = world.lines[0]
    with suppress(BlockingIOError):
        while True:
            line.ours.send(bytes(1 << 16))
    line.peer.send(send(1) + send(2, queue_id=77) + send(3))
    _, ((index, ended, rest, failure),), _ = world.serve()
    assert (index, ended, failure) == (0, False, None)
    assert opaques(rest) == [(1, 0), (2, 29), (3, 0)]


def test_a_socket_that_is_gone_fails_alone(world: World):
    first, second, *_ = world.lines
    first.peer.send(send(1))
    first.ours.shutdown(socket.SHUT_WR)
    second.peer.send(send(2))
    _, left, _ = world.serve()
    ((index, ended, _, failure),) = left
    assert (index, ended) == (0, False)
    assert isinstance(failure, BrokenPipeError)
    assert second.said() == [(2, 0)]
    assert world.store.queue_range("T", 0) == (0, 2)


def test_answers_wait_for_the_flush(tmp_path: Path):
    with a_world(tmp_path, sync_flush=True) as world:
        for n, line in enumerate(world.lines):
            line.peer.send(send(n))
        _, left, error = world.serve()
        assert error is None
        assert left == []
        sessions = [line.session for line in world.lines]
        assert [session.unconfirmed for session in sessions] == [1] * 5
        assert world.loop.keeping() == [session.fd for session in sessions]
        while world.sender.release(sessions, NOW, LATER):
            pass
        assert [line.said() for line in world.lines] == [[(n, 0)] for n in range(5)]
        assert world.loop.keeping() == []


def test_what_a_flush_has_confirmed_is_sent(tmp_path: Path):
    with a_world(tmp_path, sync_flush=True) as world:
        world.epoll.register(world.store.event_fd(), select.EPOLLIN)
        for n, line in enumerate(world.lines):
            line.peer.send(send(n))
        end = time.monotonic() + 60
        while True:
            assert world.serve(linger=0.01) == ([], [], None)
            if not world.loop.keeping():
                break
            assert time.monotonic() < end
        assert [line.said() for line in world.lines] == [[(n, 0)] for n in range(5)]
        assert world.loop.confirmed


def test_whose_answers_the_loop_sends(tmp_path: Path):
    with a_world(tmp_path / "sync", sync_flush=True) as world:
        session = world.lines[0].session
        assert world.loop.keep(session)
        world.loop.forget(session)
        assert not world.loop.keep(session), "it is not watched"
    with a_world(tmp_path / "async") as world:
        assert not world.loop.keep(world.lines[0].session), "what is written is confirmed"


def test_a_write_that_fails_is_said_and_answered(world: World):
    world.store.close()
    world.lines[0].peer.send(send(1))
    _, left, error = world.serve()
    assert error is None, "the message was refused before"
    assert left == []
    ((_, code),) = world.lines[0].said()
    assert code == 14


def test_a_name_server_stores_nothing(tmp_path: Path):
    with a_world(tmp_path, stores=False) as world:
        world.lines[1].peer.send(encode(Command(code=105, opaque=9)))
        _, left, error = world.serve()
        assert error is None
        assert [index for index, *_ in left] == [1]


def test_others_come_first(world: World):
    """What is ready and not watched is reported; the round waits, without who was forgotten."""
    plain, other, gone, *_ = world.lines
    world.loop.forget(other.session)
    for n, line in enumerate(world.lines[:3]):
        line.peer.send(send(n))
    assert world.serve() == ([(1, select.EPOLLIN)], [], None)
    assert world.loop.waiting == 2
    assert world.store.queue_range("T", 0) == (0, 0)
    assert other.session.receive(other.session.fd, world.buffer, NOW, True) is None
    world.loop.forget(gone.session)
    assert world.finish() == ([], None)
    assert world.loop.waiting == 0
    assert plain.said() == [(0, 0)]
    assert opaques(other.session.release(NOW, LATER)) == [(1, 0)], "written by the round"
    assert world.store.queue_range("T", 0) == (0, 2)
    world.loop.watch(gone.session)
    assert world.serve() == ([], [], None)
    assert gone.said() == [(2, 0)]


def test_who_holds_a_round_finishes_it(world: World):
    world.lines[0].peer.send(send(1))
    assert world.serve(hold=True) == ([], [], None)
    assert world.loop.waiting == 1
    assert world.finish() == ([], None)
    assert world.lines[0].said() == [(1, 0)]


def test_a_large_frame_is_for_others(world: World):
    line = world.lines[0]
    line.peer.send(encode(Command(code=35, opaque=1, body=bytes(1 << 20)))[: 1 << 16])
    _, left, _ = world.serve()
    assert [at for at, *_ in left] == [0]
    assert line.session.large
    line.peer.send(bytes(1000))
    assert world.serve() == ([(0, select.EPOLLIN)], [], None)


def test_when_something_came_last(world: World):
    world.lines[0].peer.send(send(1))
    world.serve()
    assert [line.session.active for line in world.lines] == [7.5, 0, 0, 0, 0]


def test_lingers_for_the_next_request(world: World):
    """A peer that answers quickly is served in one call, and its end is the end of it."""
    peer = world.lines[0].peer
    peer.settimeout(30)

    def ask() -> None:
        for n in range(20):
            peer.send(send(n))
            peer.recv(1 << 16)
        peer.send(encode(Command(code=35, opaque=4)))

    thread = threading.Thread(target=ask)
    thread.start()
    assert world.serve(linger=30.0) == ([], [(0, False, None, None)], None)
    thread.join()
    assert world.loop.served > 0
    assert not world.loop.idle
    assert world.store.queue_range("T", 0) == (0, 20)


def test_nothing_comes_while_it_lingers(world: World):
    assert world.serve(linger=0.01) == ([], [], None)
    assert (world.loop.idle, world.loop.served) == (True, 0)


def test_one_thread_at_a_time(world: World):
    """While the loop serves, the sessions that it watches are out of reach."""
    line = world.lines[0]
    thread = threading.Thread(target=world.serve, kwargs={"linger": 30.0})
    thread.start()

    def refused() -> bool:
        try:
            line.session.next_command()
        except RuntimeError:
            return True
        return False

    eventually(refused, "the thread has begun")
    with pytest.raises(RuntimeError, match="one thread"):
        line.session.feed_bytes(send(1), NOW)
    with pytest.raises(RuntimeError, match="one thread"):
        line.session.next_command()
    with pytest.raises(RuntimeError, match="one thread"):
        world.loop.forget(line.session)
    with pytest.raises(RuntimeError, match="one thread"):
        world.loop.finish(0.0)
    line.session.give_up()
    line.peer.send(encode(Command(code=35, opaque=4)))
    thread.join()
    assert line.session.next_command() is not None


def test_misuse_is_an_error(world: World):
    first, second = (line.session for line in world.lines[:2])
    with pytest.raises(RuntimeError, match="watched"):
        first.fd = 5
    world.loop.watch(first)  # again: nothing
    world.loop.forget(first)
    world.loop.forget(first)
    fd = first.fd
    for bad in (-1, second.fd, 2**31 - 1):
        first.fd = bad
        with pytest.raises(ValueError, match="descriptor"):
            world.loop.watch(first)
    first.fd = fd
    with pytest.raises(ValueError, match="watched already"):
        ReadyLoop(world.epoll.fileno(), 1, 1, None, LATER).watch(second)
    with pytest.raises(TypeError):
        world.loop.watch(None)  # type: ignore[arg-type]
    world.loop.watch(first)


def test_release_refuses_misuse(world: World):
    sessions = [line.session for line in world.lines]
    with pytest.raises(ValueError, match="at most 5"):
        world.sender.release([*sessions, sessions[0]], NOW, LATER)
    with pytest.raises(RuntimeError, match="one thread"):
        world.sender.release([sessions[0], sessions[0]], NOW, LATER)
    world.loop.forget(sessions[3])
    sessions[3].fd = -1
    with pytest.raises(ValueError, match="without a socket"):
        world.sender.release(sessions, NOW, LATER)
    sessions[3].fd = world.lines[3].ours.fileno()
    for wrong in (None, 5):
        with pytest.raises(TypeError):
            world.sender.release([sessions[0], wrong], NOW, LATER)  # type: ignore[list-item]
    assert world.sender.release(sessions, NOW, LATER) == [], "nobody was left in use"
    assert world.serve() == ([], [], None), "nor watched ones"
