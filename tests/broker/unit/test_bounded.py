"""Requests that may take long: so many at a time, so many that wait."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq.broker.bounds import Bounded
from pyrmq.errors import SystemBusyError
from pyrmq.net.command import Response
from tests.support.waiting import eventually_trio


class Slow:
    """Calls that last until `go` is set."""

    def __init__(self, bounded: Bounded) -> None:
        self.bounded = bounded
        self.go = threading.Event()
        self.running = 0
        self.most = 0
        self.lock = threading.Lock()

    def call(self) -> int:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        assert self.go.wait(20)
        with self.lock:
            self.running -= 1
        return 7

    async def answer(self) -> Response:
        return Response(await self.bounded.run(self.call))


async def test_bounds() -> None:
    bounded = Bounded("slow things", 2, 3)
    slow = Slow(bounded)
    answers = []

    async def wait(elsewhere: object) -> None:
        answers.append(await elsewhere.answer)  # type: ignore[attr-defined]

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(wait, bounded.begin(slow.answer()))
        await eventually_trio(lambda: slow.running, "two are under way", until=lambda n: n == 2)
        for _ in range(3):
            with pytest.raises(
                SystemBusyError, match=r"\[OVERLOAD\]2 slow things are under way and 3 wait"
            ):
                bounded.begin(slow.answer())
        assert answers == []
        slow.go.set()
    assert answers == [Response(7)] * 5
    assert slow.most == 2
    # There is room again, also behind requests that fail.
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            await bounded.begin(fails()).answer
    assert await bounded.begin(slow.answer()).answer == Response(7)


async def test_how_long_the_first_one_waits(mock_clock: MockClock) -> None:
    """Of those that wait for a thread; a request that has one waits for nothing."""
    bounded = Bounded("things", 1, 5)
    go = threading.Event()
    started = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def hold() -> None:
        trio.from_thread.run_sync(started.set, trio_token=token)
        assert go.wait(20)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bounded.run, hold)
        await started.wait()
        assert bounded.head_wait_ms() == 0
        nursery.start_soon(bounded.run, int)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(2.5)
        assert bounded.head_wait_ms() == 2500
        with trio.move_on_after(0):
            await bounded.run(int)
        assert bounded.head_wait_ms() == 2500, "who gave up stands in nobody's way"
        go.set()
    assert bounded.head_wait_ms() == 0


async def fails() -> Response:
    raise ZeroDivisionError


async def test_a_cancelled_request_makes_room() -> None:
    bounded = Bounded("things", 1, 0)

    async def for_ever() -> Response:
        await trio.sleep_forever()
        raise AssertionError

    with trio.move_on_after(0):
        await bounded.begin(for_ever()).answer
    with trio.move_on_after(0) as scope:
        await bounded.begin(for_ever()).answer
    assert scope.cancelled_caught
