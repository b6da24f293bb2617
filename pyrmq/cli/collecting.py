"""Keeps full garbage collections of a server short: they leave out what its tables hold.

A full collection passes over all objects and holds the event loop meanwhile: 1.2 s with 100,000
groups. Objects of tables are freed by their reference counts, so it finds nothing there. It leaves
out what is frozen (`gc.freeze`): at the start, and again whenever the tables have grown.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

STEP = 1000
"""Rows by which tables grow before what is there is frozen: some 10,000 objects, or 5 ms."""
FULL = 2
"""The generation of a full collection."""


class Collecting:
    """`with Collecting(rows):` has full collections leave out what tables hold. `rows`: how many
    rows they have now; it is called in any thread, and has to be quick."""

    def __init__(self, rows: Callable[[], int]) -> None:
        self._rows = rows
        self._frozen = 0
        """Rows as they were when objects were frozen last, or fewer since."""

    def __enter__(self) -> None:
        gc.unfreeze()  # of an earlier role
        gc.collect()
        gc.freeze()
        self._frozen = self._rows()
        gc.callbacks.append(self._look)

    def __exit__(self, *error: object) -> None:
        gc.callbacks.remove(self._look)

    def _look(self, phase: str, info: Mapping[str, int]) -> None:
        """Freezes just before a full collection, which then finds nothing to pass over. That is
        rare: cyclic garbage that is frozen with the rest stays until the server ends."""
        if phase != "start" or info["generation"] != FULL:
            return
        rows = self._rows()
        if rows >= self._frozen + STEP:
            gc.freeze()
            self._frozen = rows
        self._frozen = min(self._frozen, rows)
