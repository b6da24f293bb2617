"""Waiting for what must come: one loop for tests with trio, one for tests without.

Nothing waits longer than it has to, and what fails says what was seen last:

    end = eventually(lambda: client.max_offset("T", 0), "all are stored", until=lambda n: n >= 40)
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds; only a fault reaches them, however slow the machine is."""
POLL = 0.01
"""Seconds between two looks."""


def _late(what: str, seconds: float, last: object) -> AssertionError:
    return AssertionError(f"not within {seconds:g} s: {what}; last seen: {last!r}")


def eventually(
    look: Callable[[], T],
    what: str,
    seconds: float = PATIENCE,
    *,
    until: Callable[[T], object] = bool,
) -> T:
    """Calls `look` until `until` holds of its value (it is true, if nothing is said), returns that.

    AssertionError with `what` and the last value after `seconds`. What `look` raises is raised.
    """
    end = time.monotonic() + seconds
    while not until(value := look()):
        if time.monotonic() > end:
            raise _late(what, seconds, value)
        time.sleep(POLL)
    return value


async def eventually_trio(
    look: Callable[[], T],
    what: str,
    seconds: float = PATIENCE,
    *,
    until: Callable[[T], object] = bool,
) -> T:
    """The same for tests that run in trio; the other tasks go on meanwhile."""
    end = trio.current_time() + seconds
    while not until(value := look()):
        if trio.current_time() > end:
            raise _late(what, seconds, value)
        await trio.sleep(POLL)
    return value


async def until(look: Callable[[], Awaitable[T]], what: str) -> T:
    """As `eventually_trio`, for what has to be awaited."""
    with trio.move_on_after(PATIENCE):
        while not (value := await look()):  # noqa: ASYNC110
            await trio.sleep(POLL)
        return value
    raise AssertionError(f"not within {PATIENCE:g} s: {what}")
