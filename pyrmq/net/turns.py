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
    """Does the works of one server: of all that is under way one has a turn at a time, in order,
    and everything else runs between two turns."""

    def __init__(self) -> None:
        self._turn = trio.Lock()

    async def run(self, steps: Steps[T]) -> T:
        """Does the work; returns and raises what it does."""
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
