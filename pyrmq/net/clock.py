"""The two clocks: time of day for what is stored, and one that only goes forward for waiting."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def clock_ms() -> int:
    """Milliseconds of a clock that only goes forward."""
    return time.monotonic_ns() // 1_000_000
