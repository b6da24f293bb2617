"""Time limits of calls that take several requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from pyrmq.client.checks import check_seconds
from pyrmq.errors import RequestTimeoutError


@contextmanager
def within(seconds: float, what: str, why: Callable[[], str] = str) -> Iterator[None]:
    """RequestTimeoutError with these texts unless the block comes to its end in time. ClientError
    for what is no number of seconds."""
    check_seconds("timeout", seconds, 0)
    with trio.move_on_after(seconds) as limit:
        yield
    if limit.cancelled_caught:
        raise RequestTimeoutError(f"{what} in {seconds:g} s{why()}")
