"""Waiting until the threads of a store have caught up."""

from __future__ import annotations

from pyrmq.engine import Store
from tests.support.waiting import eventually


def settle(store: Store) -> None:
    """Until the log is on disk and the index has read all of it."""
    _reached(store, "flushedWhere", "indexedWhere")


def indexed(store: Store) -> None:
    """Until the index has read the whole log."""
    _reached(store, "indexedWhere")


def _reached(store: Store, *places: str) -> None:
    def look() -> dict[str, int]:
        stats = store.stats()
        return {name: stats["maxPhyOffset"] - stats[name] for name in places}

    eventually(look, "nothing is left to do", until=lambda left: not any(left.values()))
