"""Time limits of calls that take several requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from pyrmq.client.option_checks import check_seconds
from pyrmq.errors import RequestTimeoutError


@contextmanager
def within(seconds: float, what: str, why: Callable[[], str] = str) -> Iterator[None]:
    """Raises RequestTimeoutError with these texts if the block does not end in time, and
    ClientError for an invalid number of seconds."""
    check_seconds("timeout", seconds, 0)
    with trio.move_on_after(seconds) as limit:
        yield
    if limit.cancelled_caught:
        raise RequestTimeoutError(f"{what} in {seconds:g} s{why()}")
