"""Keeps full garbage collections of a server short: each object is passed over once.

A full collection passes over all objects and holds the event loop meanwhile: 1.2 s with 100,000
groups. Objects of tables are freed by their reference counts, so it finds nothing there. While
tables are large, what a full collection has left is frozen (`gc.freeze`): the next one leaves it
out, and passes over what came since.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

MANY = 2000
"""Rows from which on tables are large: some 20,000 objects, or 10 ms."""
OFTEN = 2
"""Collections of the middle generation between two full ones, which then are short."""
FULL = 2
"""The generation of a full collection."""


class Collecting:
    """`with Collecting(rows):` keeps full collections short. `rows`: how many rows the tables have
    now; it is called in any thread, and has to be quick."""

    def __init__(self, rows: Callable[[], int]) -> None:
        self._rows = rows
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        gc.unfreeze()  # of an earlier role
        gc.collect()
        gc.freeze()
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:2], OFTEN)
        gc.callbacks.append(self._collected)

    def __exit__(self, *error: object) -> None:
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._thresholds)

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == FULL and self._rows() >= MANY:
            gc.freeze()
