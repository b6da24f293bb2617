"""One broker for all tests of a file, and an end for programs that hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

import pyrmq.testing

SECONDS = 300.0
"""Longest that a page or a program may take; most need well under a second."""


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    """Its name server; the broker takes SQL92 and recalls, and asks soon what became of a
    transaction."""
    with pyrmq.testing.broker(
        enable_property_filter=True,
        recall_message_enable=True,
        transaction_time_out=500,
        transaction_check_interval=500,
    ) as running:
        yield running.namesrv


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """Raises in the main thread, whatever runs there: trio, asyncio or a loop that blocks."""

    def late(*_: object) -> None:
        raise TimeoutError(f"it took more than {SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
