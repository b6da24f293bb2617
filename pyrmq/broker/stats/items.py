"""Statistics by key over a minute, an hour and a day. [StatsItem, StatsItemSet]"""

from __future__ import annotations

import logging
from array import array
from collections import deque
from dataclasses import dataclass

from pyrmq.escape import escape
from pyrmq.logs.about import about

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Window:
    """A view over the last `points` samples, of which one is taken every `every` samplings."""

    every: int
    points: int


MINUTE = Window(1, 7)
HOUR = Window(60, 7)
DAY = Window(360, 25)
WINDOWS = (MINUTE, HOUR, DAY)


@dataclass(frozen=True, slots=True)
class Figures:
    """What came in a window: all, a second, and at a time. [StatsSnapshot]"""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0

    def to_json(self) -> dict[str, float]:
        return {"avgpt": self.avgpt, "sum": self.sum, "tps": self.tps}


NOTHING = Figures()


@dataclass(frozen=True, slots=True)
class _Sample:
    number: int
    time: float
    counters: tuple[array[int], ...]


class StatsItemSet:
    """Items with some counters each, and what these were at the last samplings.

    Counter n of all items is one array, so a sample is a copy of few arrays and costs nothing for
    each item. At most `most` items are kept; others are left out, which is logged. `period`:
    seconds between two samplings.
    """

    def __init__(self, name: str, counters: int, most: int, period: float) -> None:
        self._name = name
        self._most = most
        self._period = period
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._counters = tuple(array("q") for _ in range(counters))
        self._born = array("q")
        """Number of the last sampling before an item came."""
        self._number = 0
        self._samples: dict[Window, deque[_Sample]] = {w: deque(maxlen=w.points) for w in WINDOWS}
        self._full_logged = False

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def keys(self) -> list[str]:
        return list(self._places)

    def add(self, key: str, *amounts: int) -> None:
        """Adds to the counters of an item, which is made if it is new."""
        place = self._places.get(key)
        if place is None:
            place = self._make(key)
            if place is None:
                return
        for counter, amount in zip(self._counters, amounts, strict=True):
            counter[place] += amount

    def _make(self, key: str) -> int | None:
        if len(self._places) >= self._most:
            if not self._full_logged:
                self._full_logged = True
                log.warning(
                    "statistics of %d %s are kept, which is the most: %s and others that are new "
                    "are not counted one by one until some have been silent for a day",
                    self._most,
                    self._name,
                    escape(key),
                    extra=about(key=key),
                )
            return None
        if self._free:
            place = self._free.pop()
            for counter in self._counters:
                counter[place] = 0
            self._born[place] = self._number
        else:
            place = len(self._born)
            for counter in self._counters:
                counter.append(0)
            self._born.append(self._number)
        self._places[key] = place
        return place

    def discard(self, key: str) -> None:
        """Forgets an item."""
        place = self._places.pop(key, None)
        if place is not None:
            self._free.append(place)
            self._full_logged = False

    def is_silent(self, key: str) -> bool:
        """Whether nothing was counted for an item in a whole day."""
        place, samples = self._places[key], self._samples[DAY]
        if len(samples) < DAY.points or samples[0].number <= self._born[place]:
            return False
        then = samples[0].counters
        return all(now[place] == old[place] for now, old in zip(self._counters, then, strict=True))

    def sample(self, now: float) -> None:
        """Samples all items: to be called every `period` seconds."""
        sample = _Sample(self._number + 1, now, tuple(c[:] for c in self._counters))
        for window, samples in self._samples.items():
            if self._number % window.every == 0:
                samples.append(sample)
        self._number = sample.number

    def total(self, key: str, counter: int) -> int:
        """All that was ever counted for an item."""
        place = self._places.get(key)
        return 0 if place is None else self._counters[counter][place]

    def first_two(self, key: str) -> tuple[int, int]:
        """All that was ever counted for an item, by its first two counters."""
        place = self._places.get(key)
        if place is None:
            return 0, 0
        return self._counters[0][place], self._counters[1][place]

    def figures(self, key: str, window: Window, counter: int, times: int | None) -> Figures:
        """A counter over a window. `times`: the counter that it is divided by for the average; None
        where RocketMQ has no average."""
        place = self._places.get(key)
        if place is None:
            return NOTHING
        samples = self._samples[window]
        born = self._born[place]
        known = [sample for sample in samples if sample.number > born]
        if not known:
            return NOTHING
        last = known[-1]
        if len(known) == window.points:
            base, begin = known[0], known[0].time
        elif len(known) < len(samples):
            base, begin = None, samples[-len(known) - 1].time
        else:  # as if one had been taken before it came
            base, begin = None, known[0].time - window.every * self._period

        def grown(n: int) -> int:
            before = 0 if base is None else base.counters[n][place]
            return last.counters[n][place] - before

        came, seconds = grown(counter), last.time - begin
        how_often = 0 if times is None else grown(times)
        return Figures(
            came,
            came / seconds if seconds > 0 else 0.0,
            came / how_often if how_often > 0 else 0.0,
        )
