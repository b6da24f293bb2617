"""Waiting until the threads of a store have caught up."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyrmq.engine import Store

LIMIT = 30.0
"""Seconds; only a fault reaches it."""


def until(condition: Callable[[], object], what: str = "condition") -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {LIMIT} s"
        time.sleep(0.002)


def settle(store: Store) -> None:
    """Until the log is on disk and the index has read all of it."""

    def done() -> bool:
        stats = store.stats()
        return stats["flushedWhere"] == stats["indexedWhere"] == stats["maxPhyOffset"]

    until(done, "flushed and indexed")


def indexed(store: Store) -> None:
    """Until the index has read the whole log."""
    until(lambda: store.stats()["indexedWhere"] == store.stats()["maxPhyOffset"], "indexed")
