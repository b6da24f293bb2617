"""Long work on the event loop, done in turns: other tasks run between two turns.

`in_turns` does many small steps. Other work is a generator: it yields wherever it may be
interrupted, which has to be often. A thread would not help, as it holds the GIL: the loop would
wait as well, and longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import trio

T = TypeVar("T")
Steps = Generator[None, None, T]

TURN_SECONDS = 0.001
"""Length of a turn: how long one work runs before other tasks do."""
UNDER_WAY = 8
"""Works that are under way at a time. Each may hold much of a long answer."""


def finish(steps: Steps[T]) -> T:
    """Does the whole work at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


async def in_turns(items: Sequence[T], do: Callable[[T], None], look: int = 1) -> None:
    """Calls `do` with each item; other tasks run in between. Looks at the clock behind every `look`
    items."""
    end = time.monotonic() + TURN_SECONDS
    for start in range(0, len(items), look):
        for item in items[start : start + look]:
            do(item)
        if time.monotonic() >= end:
            await trio.lowlevel.checkpoint()
            end = time.monotonic() + TURN_SECONDS


class Turns:
    """Does the works of one server in turns.

    Each client has one work under way at a time, the one that it asked for first. At most `most`
    clients have one under way; their works take turns. So a client that asks for much waits for
    itself, and works that wait take no memory.
    """

    def __init__(self, most: int = UNDER_WAY) -> None:
        self._turn = trio.Lock()
        self._places = trio.CapacityLimiter(most)
        self._mine: dict[object, tuple[trio.Lock, int]] = {}
        """By client: the lock that its works take in order, and how many works there are."""

    def has_work(self, of: object) -> bool:
        """Whether a work of this client is under way, or waits."""
        return of in self._mine

    async def run(self, steps: Steps[T], of: object = None) -> T:
        """Does the work; returns and raises what the work does. `of`: the client that asked for it;
        None: it waits for no other work."""
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
    """Works for one turn. Puts the result of the work into `done` once the work has ended."""
    end = time.monotonic() + TURN_SECONDS
    try:
        while True:
            next(steps)
            if time.monotonic() >= end:
                return
    except StopIteration as stop:
        done.append(stop.value)
