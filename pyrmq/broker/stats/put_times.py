"""How long sends took in the last minutes, as GET_BROKER_RUNTIME_INFO tells it. [StoreStatsService]

RocketMQ counts from one minute to the next, and shows what the minute under way has so far. Here it
is the last whole minute and the one under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from pyrmq.engine import TIME_BOUNDS_US, RpcFigures, Store
from pyrmq.model.codes import RequestCode

MINUTE = 60.0
"""Seconds."""
_READS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_HEAD = 3
"""Number, sum and maximum stand before the buckets."""
DISTRIBUTION_MS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
"""Upper bounds of putMessageDistributeTime, ms; the first one stands for less than 1 ms."""
_NAMES = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s",
    "3~4s", "4~5s", "5~10s", "10s~",
)  # fmt: skip


def sends(store: Store) -> Sequence[int]:
    """The engine's histogram of sends."""
    row = store.figures()["sendLatency"]
    assert isinstance(row, list)
    return row


def longest_read_ms(figures: RpcFigures) -> int:
    """The pull that was answered most slowly, of those that did not wait for messages.
    [getMessageEntireTimeMax]"""
    rows = figures.rows()
    reads = (row[2] for code, _, parked, _, row in rows if code in _READS and not parked)
    return max(reads, default=0) // 1000


class PutTimes:
    """`row`: the engine's histogram of sends."""

    def __init__(self, row: Callable[[], Sequence[int]]) -> None:
        self._row = row
        self._since = float("-inf")
        self._before: Sequence[int] = ()
        """When the minute under way began, and when the last one did; empty: with the store."""
        self._last: Sequence[int] = ()

    def sample(self, now: float) -> None:
        """To be called often: ends a minute when it is over."""
        if now - self._since >= MINUTE:
            self._since = now
            self._before, self._last = self._last, tuple(self._row())

    @property
    def longest_ms(self) -> int:
        """Of all since the start. [putMessageEntireTimeMax]"""
        return self._row()[2] // 1000

    def buckets(self) -> list[int]:
        """Sends by time, in the buckets of TIME_BOUNDS_US."""
        now = self._row()[_HEAD:]
        before = self._before[_HEAD:] or [0] * len(now)
        return [count - was for count, was in zip(now, before, strict=True)]

    def distribution(self) -> str:
        """As RocketMQ writes it. [putMessageDistributeTime]"""
        buckets = self.buckets()
        counts, at = [], 0
        for bound in DISTRIBUTION_MS:
            end = TIME_BOUNDS_US.index(max(bound, 1) * 1000) + 1
            counts.append(sum(buckets[at:end]))
            at = end
        counts.append(sum(buckets[at:]))
        return "".join(f"[{name}]:{n} " for name, n in zip(_NAMES, counts, strict=True))

    def percentile(self, part: float) -> float:
        """ms within which this part of the sends was answered; between the bounds of a bucket it is
        estimated. 0 without any. [findPutMessageEntireTimePX]"""
        buckets = self.buckets()
        wanted = sum(buckets) * part
        if not wanted:
            return 0.0
        passed = 0
        bounds = pairwise((0, *TIME_BOUNDS_US))
        for (low, high), count in zip(bounds, buckets, strict=False):
            if count and passed + count >= wanted:
                return (low + (high - low) * (wanted - passed) / count) / 1000
            passed += count
        return TIME_BOUNDS_US[-1] / 1000
