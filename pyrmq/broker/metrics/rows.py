"""Rows by names that clients choose: topics, groups, versions. Those that are largest, or have most
activity, have rows of their own, the others share one (`pyrmq.metrics.folding`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import trio

from pyrmq.metrics.families import OTHERS, Family, Kind, label_text
from pyrmq.metrics.folding import Folding
from pyrmq.metrics.page import Page
from pyrmq.net.server.turns import in_turns

LOOK = 16
"""Topics, or pairs, between two looks at the clock."""
CHOOSE_EVERY = 60.0
"""Seconds between two choices of who has rows."""

Names = tuple[str, ...]
"""Values of the labels of a family, in its order."""


class Choices:
    """Has rows chosen again now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    async def look(self, rows: Folding[Any]) -> None:
        now = trio.current_time()
        if now >= self._next:
            self._next = now + CHOOSE_EVERY
            await rows.choose()


class Labels:
    """The labels of a family's rows. `fixed`: those that all rows have."""

    def __init__(self, family: Family, fixed: Mapping[str, str] | None) -> None:
        self._fixed = fixed or {}
        self._names = [name for name in family.labels if name not in self._fixed]

    def of(self, key: Names) -> str:
        """`key`: the values of the labels that are not fixed, in the order of the family."""
        return label_text({**dict(zip(self._names, key, strict=True)), **self._fixed})

    def of_others(self) -> str:
        """Of the row that stands for the others."""
        return label_text({**dict.fromkeys(self._names, OTHERS), **self._fixed})


class GaugeRows:
    """A gauge: the largest have rows."""

    def __init__(self, family: Family, most: int, fixed: Mapping[str, str] | None = None) -> None:
        """`fixed`: labels that all rows have."""
        self._family = family
        self._labels = Labels(family, fixed)
        self._rows: Folding[Names] = Folding(most, 1)
        self._choices = Choices()

    async def write(self, page: Page, values: Iterable[tuple[Names, int]]) -> None:
        """`values`: of the labels' values, in the order of the family and without the fixed ones,
        how much."""
        rows, labels = self._rows, self._labels
        add_row = page.rows(self._family).add
        rows.begin()
        shared = 0

        def add(row: tuple[Names, int]) -> None:
            nonlocal shared
            item = rows.see(row[0], (0,))
            item.weight = row[1]
            if item.kept:
                item.labels = item.labels or labels.of(row[0])
                add_row(item.labels, row[1])
            else:
                shared += row[1]

        await in_turns(list(values), add, LOOK)
        await rows.end()
        if rows.folded:
            add_row(labels.of_others(), shared)
        await self._choices.look(rows)


class TotalRows:
    """Counters and histograms that have the same labels: those with most activity have rows.

    The totals of a key are numbers that only grow. `shown`: families, and which number is theirs: a
    counter's own; of a histogram the count, behind which its buckets and the sum stand. Whatever
    changes, the first or the last number changes.
    """

    def __init__(
        self,
        shown: Mapping[Family, int],
        numbers: int,
        most: int,
        fixed: Mapping[str, str] | None = None,
    ) -> None:
        """`numbers`: totals of each key; `fixed`: labels that all rows have."""
        self._shown = shown
        (family, *_) = shown
        self._labels = Labels(family, fixed)
        self._rows: Folding[Names] = Folding(most, numbers)
        self._choices = Choices()

    def begin(self) -> None:
        self._rows.begin()

    def add(self, page: Page, key: Names, totals: tuple[int, ...]) -> None:
        """A key: the values of the labels that are not fixed."""
        item = self._rows.see(key, totals)
        if item.kept:
            item.labels = item.labels or self._labels.of(key)
            self._write(page, item.labels, item.counters)

    async def end(self, page: Page) -> None:
        """All keys were added."""
        rows = self._rows
        await rows.end()
        if rows.has_shared:
            self._write(page, self._labels.of_others(), rows.shared)
        await self._choices.look(rows)

    async def write(self, page: Page, values: Iterable[tuple[Names, tuple[int, ...]]]) -> None:
        """All of them, in turns."""
        self.begin()
        await in_turns(list(values), lambda row: self.add(page, *row), LOOK)
        await self.end(page)

    def _write(self, page: Page, labels: str, totals: list[int]) -> None:
        for family, at in self._shown.items():
            if family.kind is Kind.HISTOGRAM:
                end = at + len(family.bounds) + 2
                page.rows(family).add_histogram(labels, totals[at + 1 : end], totals[end])
            else:
                page.rows(family).add(labels, totals[at])
