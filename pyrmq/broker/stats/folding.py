"""Who used how much, in bounded memory: a row for each of those who used most, one for the rest.

A `Tally` counts by name. `fold` makes a `Bucket` of it, which keeps few names. A `Ring` has the
buckets of the last minute and of the last hour, and sums them. Long work is generators: they yield
where other tasks may run.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyrmq.net.server.turns import Steps

FIGURES = ("messagesIn", "bytesIn", "messagesOut", "bytesOut", "requests")
"""What is counted. Bytes are those of records, as the log has them."""
N = len(FIGURES)
NOTHING = (0,) * N
MOST = 256
"""Names that a bucket keeps. Who has more than N/MOST (2 %) of one of the figures is kept."""
MOST_OPEN = 8_192
"""Names that are counted one by one between two samplings."""
SAMPLE_SECONDS = 10.0
SAMPLES = 6
MINUTE_SAMPLES = 6
"""Samples that make the bucket of a minute."""
MINUTES = 60
LOOK = 128
"""Rows between two places where other tasks may run."""


class Tally:
    """Figures by name. At most `most` names: what others use is counted for them together."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self.rows: dict[str, list[int]] = {}
        self.others = [0] * N
        """Of those without a row."""
        self.folded = 0
        """How many names have no row, at least."""
        self._most = most

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= self._most

    def add(self, name: str, figures: Sequence[int]) -> None:
        row = self.rows.get(name)
        if row is None:
            if self.is_full:
                row = self.others
                self.folded = max(self.folded, 1)
            else:
                row = self.rows[name] = [0] * N
        for i, amount in enumerate(figures):
            row[i] += amount

    def add_others(self, figures: Sequence[int], folded: int) -> None:
        """Adds what others used who have no row. They may be the same in each call."""
        for i, amount in enumerate(figures):
            self.others[i] += amount
        self.folded = max(self.folded, folded)

    def keep(self, most: int) -> Steps[None]:
        """Keeps the rows of those who used most: the sum of their shares of each figure counts."""
        if len(self.rows) <= most:
            return
        sums = [0] * N
        for at, row in enumerate(self.rows.values()):
            if at % LOOK == 0:
                yield
            for i, amount in enumerate(row):
                sums[i] += amount
        weights = [1 / s if s else 0.0 for s in sums]
        shares: dict[str, float] = {}
        for at, (name, row) in enumerate(self.rows.items()):
            if at % LOOK == 0:
                yield
            shares[name] = sum(w * amount for w, amount in zip(weights, row, strict=True))
        yield
        least = sorted(shares.values(), reverse=True)[most - 1]
        room = most - sum(share > least for share in shares.values())
        yield
        gone = 0
        for at, (name, share) in enumerate(shares.items()):
            if at % LOOK == 0:
                yield
            if share > least:
                continue
            if share == least and room:
                room -= 1
                continue
            gone += 1
            for i, amount in enumerate(self.rows.pop(name)):
                self.others[i] += amount
        self.folded += gone


@dataclass(frozen=True, slots=True)
class Bucket:
    """What was used in some seconds. `figures` has N numbers for each of `names`."""

    end: float
    """When it ended, of the clock that goes forward only."""
    seconds: float
    names: tuple[str, ...]
    figures: array[int]
    others: tuple[int, ...]
    """Of all who have no row."""
    folded: int
    """How many these are, at least."""

    def add_to(self, tally: Tally) -> Steps[None]:
        """Adds its rows to a tally."""
        for at, name in enumerate(self.names):
            if at % LOOK == 0:
                yield
            tally.add(name, self.figures[at * N : at * N + N])
        tally.add_others(self.others, self.folded)


def fold(tally: Tally, end: float, seconds: float, most: int = MOST) -> Steps[Bucket]:
    """The bucket of a tally, which nobody else changes."""
    yield from tally.keep(most)
    figures = array("q")
    for row in tally.rows.values():
        figures.extend(min(amount, sys.maxsize) for amount in row)
    # A name that is in many buckets is in memory once.
    names = tuple(map(sys.intern, tally.rows))
    return Bucket(end, seconds, names, figures, tuple(tally.others), tally.folded)


@dataclass(frozen=True, slots=True)
class Span:
    """What was used in a span of time, by name. `seconds`: how long it really was."""

    seconds: float
    begin: float
    end: float
    rows: dict[str, list[int]]
    others: list[int]
    folded: int


NO_SPAN = Span(0.0, 0.0, 0.0, {}, [0] * N, 0)


@dataclass(slots=True)
class Ring:
    """The buckets of the last samples, and of the last minutes."""

    most: int = MOST
    samples: deque[Bucket] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    minutes: deque[Bucket] = field(default_factory=lambda: deque(maxlen=MINUTES))
    open: list[Bucket] = field(default_factory=list)
    """The samples of the minute that is not over."""

    def sample(self, tally: Tally, end: float, seconds: float) -> Steps[None]:
        """Takes what was counted in the last `seconds`. The tally is the ring's from now on."""
        bucket = yield from fold(tally, end, seconds, self.most)
        self.samples.append(bucket)
        self.open.append(bucket)
        if len(self.open) >= MINUTE_SAMPLES:
            made, self.open = self.open, []
            whole = Tally(MINUTE_SAMPLES * self.most)
            for part in made:
                yield from part.add_to(whole)
            length = sum(part.seconds for part in made)
            minute = yield from fold(whole, made[-1].end, length, self.most)
            self.minutes.append(minute)

    def over(self, seconds: float) -> Steps[Span]:
        """What was used in the last `seconds`: of whole samples up to a minute, otherwise of whole
        minutes and the samples since."""
        if seconds <= SAMPLES * SAMPLE_SECONDS:
            count = max(round(seconds / SAMPLE_SECONDS), 1)
            chosen: Iterable[Bucket] = list(self.samples)[-count:]
        else:
            count = max(round(seconds / (MINUTE_SAMPLES * SAMPLE_SECONDS)), 1)
            chosen = [*list(self.minutes)[-count:], *self.open]
        buckets = list(chosen)
        if not buckets:
            return NO_SPAN
        tally = Tally(len(buckets) * self.most)
        for bucket in buckets:
            yield from bucket.add_to(tally)
        first, last = buckets[0], buckets[-1]
        return Span(
            sum(b.seconds for b in buckets),
            first.end - first.seconds,
            last.end,
            tally.rows,
            tally.others,
            tally.folded,
        )
