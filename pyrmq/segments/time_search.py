"""Where inside of segments a time is: bisected at records that queues know."""

from __future__ import annotations

import struct

from pyrmq.segments.record_starts import RecordStarts
from pyrmq.segments.store import SegmentStore

STEP = 1 << 20
"""Bytes within which it is not looked for more closely."""
SAMPLES = 16
"""Parts at whose borders records are looked at first."""
MARGIN = 2000
"""Milliseconds by which a later record may be older. Store times of our broker go back only where
the clock is set back by more than a second; more than this is noticed at the records looked at."""
_SYS_FLAG, _BORN_V6, _STORE_TIME = 36, 1 << 4, 56
_IPV6_MORE = 12
_HEAD = _STORE_TIME + _IPV6_MORE + 8


class TimeSearch:
    """Record starts of a log by time; where no queue knows any, nothing is found."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store
        self._starts = RecordStarts(store)

    def around(self, low: int, high: int, time: int) -> tuple[int, int]:
        """Two record starts between `low` and `high`, which are some as well, or these: before the
        first all is older than `time`, from the second on nothing is. Store times that contradict
        each other by more than MARGIN give `low` and `high`."""
        found = [(low, -(1 << 63)), *self._sampled(low, high), (high, 1 << 63)]
        highest = found[0][1]
        for _, stamp in found:
            if stamp < highest - MARGIN:
                return low, high
            highest = max(highest, stamp)
        number = next(n for n, (_, stamp) in enumerate(found) if stamp >= time)
        return self._halved(found[number - 1], found[number], time)

    def _sampled(self, low: int, high: int) -> list[tuple[int, int]]:
        """Some records along a part of the log, and their times."""
        out = dict.fromkeys(
            self._starts.behind(low + (high - low) * number // SAMPLES, high)
            for number in range(1, SAMPLES)
        )
        timed = [(at, self._time_at(at)) for at in out if at is not None]
        return [(at, stamp) for at, stamp in timed if stamp is not None]

    def _halved(
        self, before: tuple[int, int], behind: tuple[int, int], time: int
    ) -> tuple[int, int]:
        """The same between two records and their times, more closely."""
        low, high = before, behind
        top = behind[0]
        while top - low[0] > STEP:
            middle = (low[0] + top) // 2
            at = self._starts.behind(middle, top)
            stamp = None if at is None else self._time_at(at)
            if at is None or stamp is None:
                top = middle
            elif not low[1] - MARGIN <= stamp <= high[1] + MARGIN:
                return before[0], behind[0]
            elif stamp < time:
                low = at, stamp
            else:
                high, top = (at, stamp), middle
        return low[0], high[0]

    def _time_at(self, phys: int) -> int | None:
        """Store time of the record at a physical offset."""
        for base, length, path in self._store.files:
            if base <= phys < base + length:
                with self._store.place.open(path) as file:
                    file.seek(phys - base)
                    head = bytes(file.read(_HEAD))
                if len(head) < _HEAD:
                    return None
                (flag,) = struct.unpack_from(">i", head, _SYS_FLAG)
                more = _IPV6_MORE if flag & _BORN_V6 else 0
                return int(struct.unpack_from(">q", head, _STORE_TIME + more)[0])
        return None
