"""The two clocks: time of day for what is stored, and one that only goes forward for waiting.

A broker of a test may go by a `Clock` that was put forward: `go_by` sets it for the task that calls
it, and for all tasks and threads that it starts from then on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Clock:
    """The machine's time of day, and how far it was put forward. For any thread."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return machine_ms() + self._ahead

    def advance(self, ms: int) -> None:
        """Puts it forward."""
        self._ahead += ms


def machine_ms() -> int:
    """Milliseconds since 1970 by the machine's clock, as other processes have it."""
    return time.time_ns() // 1_000_000


_clock: ContextVar[Clock] = ContextVar("clock", default=Clock())  # noqa: B039 - never put forward


def now_ms() -> int:
    """Milliseconds since 1970."""
    return _clock.get().now_ms()


@contextmanager
def go_by(clock: Clock) -> Iterator[None]:
    """Within it, `now_ms` is that clock's; also in what is started here, as long as it runs."""
    before = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(before)


def monotonic_us() -> int:
    """Microseconds of a clock that only goes forward: that of the engine's figures."""
    return time.monotonic_ns() // 1000


def clock_ms() -> int:
    """Milliseconds of a clock that only goes forward."""
    return time.monotonic_ns() // 1_000_000
