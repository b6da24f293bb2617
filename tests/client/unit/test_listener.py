"""Functions of listeners in all their shapes: where they run and what they come to."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
import trio

from pyrmq.client.transaction.listener import Outcome, outcome_of
from pyrmq.model.transaction import TransactionState

COMMIT = TransactionState.COMMIT
ran_in: list[int] = []


def plain(*args: Any) -> TransactionState:
    ran_in.append(threading.get_ident())
    return COMMIT


async def coroutine(*args: Any) -> TransactionState:
    await trio.lowlevel.checkpoint()
    return plain()


class Plain:
    def __call__(self, *args: Any) -> TransactionState:
        return plain()

    def method(self, *args: Any) -> TransactionState:
        return plain()


class Coroutine:
    async def __call__(self, *args: Any) -> TransactionState:
        return await coroutine()

    async def method(self, *args: Any) -> TransactionState:
        return await coroutine()


@pytest.mark.parametrize(
    ("function", "thread"),
    [
        (plain, True),
        (partial(plain, 1), True),
        (Plain(), True),
        (Plain().method, True),
        (coroutine, False),
        (partial(coroutine, 1), False),
        (Coroutine(), False),
        (Coroutine().method, False),
        (lambda x: coroutine(x), False),
    ],
)
async def test_where_it_runs(function: Any, thread: bool) -> None:
    ran_in.clear()
    outcome = await outcome_of(function, 1, threads=trio.CapacityLimiter(1))
    assert outcome == Outcome(COMMIT)
    assert [ident != threading.get_ident() for ident in ran_in] == [thread]


async def test_threads_are_bounded() -> None:
    limiter = trio.CapacityLimiter(2)
    running, most = 0, 0
    lock, both = threading.Lock(), threading.Barrier(2, timeout=20)

    def count() -> TransactionState:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait()
        with lock:
            running -= 1
        return COMMIT

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(partial(outcome_of, count, threads=limiter))
    assert most == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_is_not_an_outcome(error: type[BaseException]) -> None:
    def interrupted() -> TransactionState:
        raise error

    with pytest.raises(error):
        await outcome_of(interrupted, threads=trio.CapacityLimiter(1))
