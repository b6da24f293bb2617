"""Waiting for the next request and for the event loop at once."""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import trio
import trio.testing

from pyrmq.net.server import patience
from pyrmq.net.server.patience import Patience, watcher_of

LONG = 60.0
"""Seconds; a wait that lasts so long has failed."""


class World:
    """A reader's epoll with one connection, and another socket that a task may wait on."""

    def __init__(self, stack: ExitStack) -> None:
        self.epoll = stack.enter_context(select.epoll())
        self.ours, self.peer = (stack.enter_context(one) for one in socket.socketpair())
        self.other, self.other_peer = (stack.enter_context(one) for one in socket.socketpair())
        self.epoll.register(self.ours, select.EPOLLIN)
        self.patience = Patience(self.epoll)
        stack.callback(self.patience.close)

    async def begin(self) -> None:
        """As the reader does: once trio has waited on the epoll."""
        self.peer.send(b"x")
        await trio.lowlevel.wait_readable(self.epoll.fileno())
        self.ours.recv(1)
        self.patience.begin()

    def wait(self) -> bool:
        return self.patience.wait(time.monotonic() + LONG)


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


async def test_a_request_that_comes_while_it_waits(world: World) -> None:
    await world.begin()
    peer = threading.Timer(0, world.peer.send, [b"x"])
    peer.start()
    assert world.wait()
    peer.join()


async def test_it_does_not_wait_where_another_task_can_run(world: World) -> None:
    await world.begin()
    world.peer.send(b"x")
    assert world.wait()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.lowlevel.checkpoint)
        assert not world.wait()


async def test_it_does_not_wait_where_a_task_can_read(world: World) -> None:
    await world.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.lowlevel.wait_readable, world.other)
        await trio.testing.wait_all_tasks_blocked()
        world.peer.send(b"x")
        assert world.wait(), "trio waits for that socket, and nothing has come"
        world.other_peer.send(b"x")
        assert not world.wait()


async def test_a_socket_that_a_task_reads_ends_the_wait(world: World) -> None:
    """Else the request, which comes behind it, would."""
    await world.begin()
    both_came = threading.Event()

    def peers() -> None:
        world.other_peer.send(b"x")
        both_came.wait(LONG)
        world.peer.send(b"x")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.lowlevel.wait_readable, world.other)
        await trio.testing.wait_all_tasks_blocked()
        thread = threading.Thread(target=peers)
        thread.start()
        assert not world.wait()
        assert not world.epoll.poll(0), "no request has come yet"
        both_came.set()
        thread.join()


async def test_a_call_from_another_thread_ends_the_wait(world: World) -> None:
    await world.begin()
    called = trio.Event()
    trio.lowlevel.current_trio_token().run_sync_soon(called.set)
    world.peer.send(b"x")
    assert not world.wait()
    await called.wait()


async def test_a_deadline_ends_the_wait(world: World) -> None:
    await world.begin()
    world.peer.send(b"x")
    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.deadline = trio.current_time()
        assert not world.wait()
        nursery.cancel_scope.deadline = math.inf
        assert world.wait()


async def test_it_does_not_wait_beyond_its_end(world: World) -> None:
    await world.begin()
    assert not world.patience.wait(time.monotonic() + 2 * patience.SHORTEST)
    world.peer.send(b"x")
    assert not world.patience.wait(time.monotonic())


async def test_without_the_epoll_of_the_loop_it_never_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "watcher_of", lambda fd: None)
    await world.begin()
    world.peer.send(b"x")
    assert not world.wait()


def test_who_watches_an_epoll() -> None:
    with select.epoll() as watched, select.epoll() as first, select.epoll() as second:
        assert watcher_of(watched.fileno()) is None
        first.register(watched, select.EPOLLIN)
        assert watcher_of(watched.fileno()) == first.fileno()
        first.modify(watched, 0)
        assert watcher_of(watched.fileno()) == first.fileno(), "also where it waits for nothing now"
        second.register(watched, select.EPOLLIN)
        assert watcher_of(watched.fileno()) is None, "which one is not known"


def test_without_proc_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> list[str]:
        raise FileNotFoundError(path)

    with select.epoll() as watched, select.epoll() as first:
        first.register(watched, select.EPOLLIN)
        monkeypatch.setattr(patience.os, "listdir", missing)
        assert watcher_of(watched.fileno()) is None
