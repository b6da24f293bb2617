"""Bounds how many rows a family has: keys beyond that share one row.

The keys with most activity have rows of their own. Which they are is chosen again and again; a key
keeps its row unless others have at least about twice its activity. What is counted for a key
goes into its own row while it has one, and into the shared row else. So a counter never goes back,
except that of a key that gets its row again: it begins at 0.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Generic, TypeVar

from pyrmq.net.server.turns import in_turns

K = TypeVar("K", bound=Hashable)

LOOK = 64
"""Keys between two looks at the clock."""
_BITS = 65


class Item:
    """One key. `labels`: those of its row, "" while it has none; `counters`: what its row shows."""

    __slots__ = ("activity", "before", "counters", "kept", "labels", "round", "weight")

    def __init__(self, counters: int) -> None:
        self.kept = False
        self.labels = ""
        self.counters = [0] * counters
        self.before = [0] * counters
        """The totals as they were last."""
        self.activity = 0
        self.weight = 0
        """What counts besides activity, now: how far a group is behind."""
        self.round = 0


class Folding(Generic[K]):
    """Which keys have rows. `most`: rows at a time; `counters`: totals that each key has, of which
    the first is its activity."""

    def __init__(self, most: int, counters: int) -> None:
        self._most = most
        self._size = counters
        self._items: dict[K, Item] = {}
        self._kept = 0
        self._round = 0
        self._seen = 0
        """Keys seen since `begin`."""
        self.shared = [0] * counters
        """The counters of the shared row."""

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, key: K) -> Item:
        return self._items[key]

    @property
    def folded(self) -> int:
        """How many keys have no row of their own."""
        return len(self._items) - self._kept

    @property
    def has_shared(self) -> bool:
        """Whether there is a shared row: it has, or had, something."""
        return self.folded > 0 or any(self.shared)

    def begin(self) -> None:
        """A new look at all keys begins; `end` forgets those that were not seen in it."""
        self._round += 1
        self._seen = 0

    def see(self, key: K, totals: tuple[int, ...]) -> Item:
        """A key and its totals. Totals that went back are those of a key made anew."""
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = Item(self._size)
            if self._kept < self._most:
                item.kept = True
                self._kept += 1
        if item.round != self._round:
            item.round = self._round
            self._seen += 1
        before = item.before
        if totals[0] != before[0] or totals[-1] != before[-1]:
            item.before = list(totals)
            if totals[0] < before[0]:
                before = [0] * self._size
            counters = item.counters if item.kept else self.shared
            for n, total in enumerate(totals):
                counters[n] += total - before[n]
            item.activity += totals[0] - before[0]
        return item

    async def end(self) -> None:
        """Forgets the keys that were not seen."""
        if self._seen == len(self._items):
            return
        gone: list[K] = []

        def look(key: K) -> None:
            if self._items[key].round != self._round:
                gone.append(key)

        await in_turns(list(self._items), look, LOOK)
        for key in gone:
            self._kept -= self._items.pop(key).kept

    async def choose(self) -> None:
        """Chooses again who has rows, and halves all activity. Keys are compared by the number of
        bits of their activity: that takes no sorting, and rows do not change for little."""
        rows = list(self._items.values())
        if self.folded:
            sizes = [0] * _BITS
            await in_turns(rows, partial(_measure, sizes), LOOK)
            await self._change(rows, *self._cut(sizes))
        await in_turns(rows, _age, LOOK)

    def _cut(self, sizes: list[int]) -> tuple[int, int]:
        """Items of this size and above get rows; and how many of the size below."""
        left = self._most
        for size in range(_BITS - 1, -1, -1):
            if sizes[size] > left:
                return size + 1, left
            left -= sizes[size]
        return 0, left

    async def _change(self, rows: list[Item], cut: int, left: int) -> None:
        others: list[Item] = []

        def keep(item: Item) -> None:
            nonlocal left
            size = _size(item)
            if size >= cut:
                self._keep(item)
            elif size == cut - 1 and item.kept and left:
                left -= 1
            else:
                if item.kept:
                    self._fold(item)
                if size == cut - 1:
                    others.append(item)

        await in_turns(rows, keep, LOOK)
        for item in others[:left]:
            self._keep(item)

    def _keep(self, item: Item) -> None:
        if not item.kept:
            item.kept = True
            item.counters = [0] * self._size
            self._kept += 1

    def _fold(self, item: Item) -> None:
        item.kept = False
        item.labels = ""
        self._kept -= 1


def _size(item: Item) -> int:
    return min((item.activity + item.weight).bit_length(), _BITS - 1)


def _measure(sizes: list[int], item: Item) -> None:
    sizes[_size(item)] += 1


def _age(item: Item) -> None:
    item.activity >>= 1
    item.labels = ""  # they are made again: what they say may have changed
