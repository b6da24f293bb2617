"""Long work on the event loop, done in turns.

Many small steps are done by `in_turns`. Other work is a generator that yields where it may be
interrupted, often and at no other moment. A thread would be no help: what it does holds the GIL, so
that the loop waits as well, and longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import trio

T = TypeVar("T")
Steps = Generator[None, None, T]

TURN = 0.001
"""Seconds after which other tasks run."""
UNDER_WAY = 8
"""Works that are under way at a time: each may have built much of a long answer."""


def finish(steps: Steps[T]) -> T:
    """Does all of it at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


async def in_turns(items: Sequence[T], do: Callable[[T], None], look: int = 1) -> None:
    """Calls `do` with each; other tasks run in between. It looks at the clock behind every `look`
    items."""
    end = time.monotonic() + TURN
    for start in range(0, len(items), look):
        for item in items[start : start + look]:
            do(item)
        if time.monotonic() >= end:
            await trio.lowlevel.checkpoint()
            end = time.monotonic() + TURN


class Turns:
    """Does the works of one server in turns, everything else between two of them.

    Of those who asked for something each has one work under way at a time, the one that was asked
    for first, and `most` of them at a time have one; their works take turns. So who asks for much
    waits for himself, and works that wait take no memory.
    """

    def __init__(self, most: int = UNDER_WAY) -> None:
        self._turn = trio.Lock()
        self._places = trio.CapacityLimiter(most)
        self._mine: dict[object, tuple[trio.Lock, int]] = {}
        """By who asked: his works take this lock, in order; how many there are."""

    async def run(self, steps: Steps[T], of: object = None) -> T:
        """Does the work; returns and raises what it does. `of`: who asked for it; None: nobody, it
        waits for no other work."""
        if of is None:
            return await self._run(steps)
        lock, works = self._mine.get(of) or (trio.Lock(), 0)
        self._mine[of] = lock, works + 1
        try:
            async with lock, self._places:
                return await self._run(steps)
        finally:
            steps.close()
            lock, works = self._mine.pop(of)
            if works > 1:
                self._mine[of] = lock, works - 1

    async def _run(self, steps: Steps[T]) -> T:
        done: list[T] = []
        try:
            while not done:
                async with self._turn:
                    _one_turn(steps, done)
            return done[0]
        finally:
            steps.close()


def _one_turn(steps: Steps[T], done: list[T]) -> None:
    """What comes of the work is put into `done`, once there is nothing left to do."""
    end = time.monotonic() + TURN
    try:
        while True:
            next(steps)
            if time.monotonic() >= end:
                return
    except StopIteration as stop:
        done.append(stop.value)
