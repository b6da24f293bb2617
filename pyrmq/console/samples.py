"""Figures of brokers over an hour, in memory that is bounded.

A sample is one row of numbers (FIGURES) with its time. A pyrmq broker keeps such rows itself
(`admin.usage.history_of`); of Apache's brokers a row is made of each answer with runtime info.
What a broker does not say is NaN.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyrmq.admin.health import disk_percent
from pyrmq.admin.runtime_info import Runtime, first_number, whole
from pyrmq.admin.usage import OwnHistory, Point

STEP_MS = 10_000
"""Between two samples."""
POINTS = 360
"""Samples of one broker: an hour."""
FIGURES = (
    "messages_in", "bytes_in", "messages_out", "bytes_out", "requests", "connections", "disk",
    "flush_behind", "confirm_behind", "index_behind", "slave_behind", "backlog", "cpu", "loop_late",
)  # fmt: skip
"""messages_in to requests: in a second. disk: percent. flush_behind to slave_behind: bytes.
backlog: messages that groups have not consumed. cpu: percent of one core. loop_late: ms that the
event loop ran late at most."""
UNKNOWN = math.nan
STALE_MS = 3 * STEP_MS
"""A row that is older than this says nothing of now."""
_COUNTED = {
    "messages_in": ("messagesIn",),
    "bytes_in": ("bytesIn",),
    "messages_out": ("messagesOut",),
    "bytes_out": ("bytesOut",),
    "requests": ("sends", "pulls", "acks", "ends", "others"),
}
"""Of a pyrmq broker's points: what was counted in the seconds of a point."""
_STATE = {
    "connections": "connections",
    "disk": "diskUsed",
    "flush_behind": "flushBehind",
    "confirm_behind": "confirmBehind",
    "index_behind": "indexBehind",
    "slave_behind": "slaveBehind",
    "backlog": "backlog",
    "loop_late": "loopLateMs",
}
_MOST = 1e18


@dataclass(frozen=True, slots=True)
class Hour:
    """Rows of the last hour, oldest first. times: ms since 1970. figures: by name, one number a
    time, NaN where it is unknown. now: when it was asked for."""

    times: Sequence[int] = ()
    figures: Mapping[str, Sequence[float]] = field(default_factory=dict)
    now: int = 0

    def of(self, name: str) -> Sequence[float]:
        """A figure; no number at all if it was never known."""
        found = self.figures.get(name, ())
        return () if all(map(math.isnan, found)) else found

    def last(self, name: str) -> float | None:
        """The number of a figure now; None if it is unknown, or was not sampled lately."""
        found = self.figures.get(name, ())
        if not found or self.now - self.times[-1] > STALE_MS or math.isnan(found[-1]):
            return None
        return found[-1]

    def series(self, name: str) -> list[tuple[int, float]]:
        """Times and numbers of a figure."""
        return list(zip(self.times, self.of(name), strict=False))


class Rows:
    """The rows of one broker: 360 at most, about 90 KiB."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=POINTS)
        self._rows: deque[array[float]] = deque(maxlen=POINTS)
        self._last_put: tuple[int, int] | None = None
        """Of Apache's: when it had stored how many bytes in all."""

    @property
    def end(self) -> int:
        """When the newest row was; 0 without any."""
        return self._times[-1] if self._times else 0

    def add_own(self, own: OwnHistory, now: int) -> None:
        """Takes what a pyrmq broker has kept and is not here yet. now: this machine's clock; a
        broker's other clock is moved to it."""
        ahead = own.now - now
        for point in own.points:
            at = point.end - ahead
            # Two answers put the same point at slightly different times.
            if self.end + STEP_MS // 2 < at <= now + STEP_MS:
                self._add(at, of_point(point))

    def add_runtime(self, runtime: Runtime, now: int) -> None:
        """Takes what a broker says of itself now."""
        total = whole(runtime, "putMessageSizeTotal")
        before, self._last_put = self._last_put, (now, total)
        row = of_runtime(runtime)
        if before is not None and total >= before[1] and now > before[0]:
            row["bytes_in"] = (total - before[1]) * 1000 / (now - before[0])
        if now > self.end:
            self._add(now, row)

    def _add(self, at: int, row: Mapping[str, float]) -> None:
        self._times.append(at)
        self._rows.append(array("d", [row.get(name, UNKNOWN) for name in FIGURES]))

    def hour(self, now: int) -> Hour:
        """The rows of the last hour."""
        rows = [
            (at, row)
            for at, row in zip(self._times, self._rows, strict=True)
            if at > now - POINTS * STEP_MS
        ]
        figures = {name: [row[i] for _, row in rows] for i, name in enumerate(FIGURES)}
        return Hour([at for at, _ in rows], figures, now)

    def newest(self, now: int) -> Hour:
        """The last row alone."""
        if not self._times:
            return Hour()
        figures = {name: [self._rows[-1][i]] for i, name in enumerate(FIGURES)}
        return Hour([self._times[-1]], figures, now)


def of_point(point: Point) -> dict[str, float]:
    """The row of a pyrmq broker's point."""
    said = point.figures
    row = {}
    if point.seconds > 0:
        for name, parts in _COUNTED.items():
            total = sum(_number(said.get(part, 0)) for part in parts)
            row[name] = min(total / point.seconds, _MOST)
        if "cpuMs" in said:
            row["cpu"] = min(_number(said["cpuMs"]) / point.seconds / 10, _MOST)
    row |= {name: _number(said[key]) for name, key in _STATE.items() if key in said}
    if row.get("disk", 0) < 0:
        del row["disk"]
    return row


def of_runtime(runtime: Runtime) -> dict[str, float]:
    """The row of any broker's runtime info."""
    row = {
        "messages_in": first_number(runtime, "putTps"),
        "messages_out": first_number(runtime, "getTransferredTps"),
        "index_behind": float(whole(runtime, "dispatchBehindBytes")),
    }
    disk = disk_percent(runtime)
    if disk is not None:
        row["disk"] = disk
    if "connections" in runtime:
        row["connections"] = float(whole(runtime, "connections"))
    return row


def _number(value: int) -> float:
    """What a peer said; numbers that nothing can have are bounded."""
    return float(max(-_MOST, min(value, _MOST)))


CLUSTER = ("messages_in", "bytes_in", "messages_out", "bytes_out", "disk", "backlog")
"""What is known of several brokers as one."""


def together(hours: Iterable[tuple[Hour, bool]], now: int) -> Hour:
    """Several brokers as one, with the figures of CLUSTER; each with whether it is a master.
    Messages that come in and what groups have not consumed count at masters only, as slaves have
    the same ones."""
    known = [(hour, master) for hour, master in hours if hour.times]
    if not known:
        return Hour()
    first = min(hour.times[0] for hour, _ in known)
    begin = max(first, now - POINTS * STEP_MS) // STEP_MS + 1
    times = [step * STEP_MS for step in range(begin, now // STEP_MS + 1)]
    figures: dict[str, list[float]] = {name: [UNKNOWN] * len(times) for name in CLUSTER}
    for hour, master in known:
        places = _places(hour.times, times)
        for name, whole_row in figures.items():
            if not master and name in ("messages_in", "bytes_in", "backlog"):
                continue
            _join(whole_row, hour.figures[name], places, added=name != "disk")
    return Hour(times, figures, now)


def _places(of: Sequence[int], times: Sequence[int]) -> list[int]:
    """For each time the newest row until then; -1 if there is none that is fresh."""
    found = []
    for at in times:
        place = bisect_right(of, at) - 1
        found.append(place if place >= 0 and at - of[place] <= STALE_MS else -1)
    return found


def _join(row: list[float], values: Sequence[float], places: Iterable[int], *, added: bool) -> None:
    for i, place in enumerate(places):
        if place < 0 or math.isnan(value := values[place]):
            continue
        known = row[i]
        if math.isnan(known):
            row[i] = value
        else:
            row[i] = known + value if added else max(known, value)
