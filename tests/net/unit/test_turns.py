"""Long work in turns: others run in between, one of several works has its turn at a time."""

from __future__ import annotations

import pytest
import trio

from pyrmq.net.server import turns
from pyrmq.net.server.turns import Steps, Turns, finish


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is one step."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0)


def work(steps: int, seen: list[int], name: int = 0, fault: Exception | None = None) -> Steps[str]:
    for _ in range(steps):
        seen.append(name)
        yield
    if fault is not None:
        raise fault
    return f"done {name}"


def test_at_once() -> None:
    seen: list[int] = []
    assert finish(work(3, seen)) == "done 0"
    assert seen == [0, 0, 0]
    with pytest.raises(ValueError, match="no"):
        finish(work(1, seen, fault=ValueError("no")))


async def test_others_run_between_two_turns(short_turns: None) -> None:
    seen: list[int] = []
    most_in_a_row = 0

    async def other() -> None:
        nonlocal most_in_a_row
        last = 0
        while len(seen) < 50:
            most_in_a_row = max(most_in_a_row, len(seen) - last)
            last = len(seen)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        assert await Turns().run(work(50, seen)) == "done 0"
    assert 1 <= most_in_a_row <= 2


async def test_works_take_turns(short_turns: None) -> None:
    """A short one does not wait for a long one."""
    seen: list[int] = []
    together = Turns()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together.run, work(100, seen, 1))
        await trio.lowlevel.checkpoint()
        assert await together.run(work(3, seen, 2)) == "done 2"
        assert seen.count(1) < 20
    assert (seen.count(1), seen.count(2)) == (100, 3)


async def test_a_short_work_is_one_turn() -> None:
    assert await Turns().run(work(0, [])) == "done 0"
    assert await Turns().run(work(5, [])) == "done 0"


async def test_a_fault_ends_one_work_only(short_turns: None) -> None:
    together = Turns()
    with pytest.raises(ValueError, match="no"):
        await together.run(work(3, [], fault=ValueError("no")))
    assert await together.run(work(3, [])) == "done 0"


async def test_cancelled_work_is_closed(short_turns: None) -> None:
    closed = False

    def endless() -> Steps[None]:
        nonlocal closed
        try:
            while True:
                yield
        finally:
            closed = True

    together = Turns()
    with trio.move_on_after(0.01):
        await together.run(endless())
    assert closed
    assert await together.run(work(1, [])) == "done 0"


async def test_each_has_one_work_under_way(short_turns: None) -> None:
    """Who asks for much waits for himself, in order; so many at a time have one."""
    seen: list[int] = []
    together = Turns(2)
    async with trio.open_nursery() as nursery:
        for name in range(100):
            nursery.start_soon(together.run, work(20, seen, name), "greedy")
            await trio.lowlevel.checkpoint()
        before = len(seen)
        assert await together.run(work(3, seen, 1000), "modest") == "done 1000"
        assert len(seen) - before < 20
        for name in (2000, 3000):
            nursery.start_soon(together.run, work(3, seen, name), name)
    assert seen.count(1000) == 3
    greedy = [n for n in seen if n < 1000]
    assert greedy == sorted(greedy)  # never two of them
    assert together._mine == {}


async def test_cancelled_works_that_wait(short_turns: None) -> None:
    together = Turns(1)
    async with trio.open_nursery() as nursery:
        for of in (1, 1, 2, 2):
            nursery.start_soon(together.run, work(10_000, []), of)
        await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert together._mine == {}
    assert await together.run(work(1, []), 1) == "done 0"
