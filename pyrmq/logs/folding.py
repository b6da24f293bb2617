"""Repeated lines are written once, and then as a count.

Two records are repetitions if they come from the same place in the program, are about the same, and
have the same text but for its numbers; lines of the engine with its numbers. The first one is
written; a minute later one line says how often it came since. A place of the program that has too
many different lines is bounded besides. Memory is bounded: what has no room is written early, with
its count.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import replace

from pyrmq.logs.about import FIELDS
from pyrmq.logs.levels import ENGINE
from pyrmq.logs.lines import MAX_MESSAGE, Line, bounded, fields_of

SECONDS = 60
"""For which repetitions are counted before a line says how many there were."""
MAX_RUNS = 2000
"""Lines whose repetitions are counted at a time."""
LINES = 500
"""Different lines of one place in the program within PLACE_SECONDS; the others are counted."""
PLACE_SECONDS = 10.0
EACH = frozenset({"pyrmq.audit.console", "pyrmq.mcp.audit"})
"""Loggers of what people change: a value that differs in a number is another change."""
MAX_PLACES = 5000
COMPARED = 500
"""Characters of a text that are compared."""
_EACH = ("message_id", "transaction")
"""Fields that differ from line to line: they do not make another subject."""
_SUBJECT = tuple(name for name in FIELDS if name not in _EACH)
_NUMBERS = re.compile(r"(?<![\w.])(?<!\w-)-?\d+(?:\.\d+)?(?![\w-]|\.\d)")
_NEVER = object()
"""Equals no arguments."""
_Key = tuple[object, ...]
_Place = tuple[str, int, int]


class _Run:
    """Repetitions of one line."""

    __slots__ = ("args", "begun", "count", "fields", "key", "level", "logger", "msg")

    def __init__(self, key: _Key, begun: float, record: logging.LogRecord) -> None:
        self.key = key
        self.begun = begun
        self.count = 0
        # Not the record: it may hold a traceback, with all that its frames hold.
        self.level = record.levelno
        self.logger = record.name
        self.fields = fields_of(record)
        self.msg: object = ""
        self.args: object = ()
        self._keep(record)

    def again(self, record: logging.LogRecord) -> None:
        self.count += 1
        self._keep(record)
        if "connection" in self.fields:  # its port may be another one
            self.fields["connection"] = record.__dict__["connection"]

    def _keep(self, record: logging.LogRecord) -> None:
        if _is_small(record.args):
            self.msg, self.args = record.msg, record.args
        else:  # a name of a megabyte
            self.msg, self.args = record.getMessage()[:MAX_MESSAGE], ()

    def text(self) -> str:
        text = str(self.msg)
        return bounded(text % self.args if self.args else text)


class _Few:
    """The lines of a place."""

    __slots__ = ("args", "begun", "last", "left_out", "lines", "run", "values")

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.lines = 0
        self.left_out = 0
        self.args: object = None
        self.values: tuple[object, ...] = ()
        self.run: _Run | None = None
        self.last: Line | None = None


class Folding:
    """Not for several threads at a time: its user has a lock. `seconds` 0: nothing is folded."""

    def __init__(
        self, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self.folded = 0
        """Records that were not written, so far."""
        self._clock = clock
        self._runs: dict[_Key, _Run] = {}
        self._places: dict[_Place, _Few] = {}
        self._early: list[Line] = []

    def takes(self, record: logging.LogRecord) -> bool:
        """Whether the record is written now."""
        if not self.seconds:
            return True
        now = self._clock()
        place = self._place(record, now)
        if record.levelno < logging.INFO or record.name in EACH:
            return self._has_room(place, record)
        values = tuple(map(record.__dict__.get, _SUBJECT))
        run = place.run
        if (
            run is None
            or record.exc_info
            or now - run.begun >= self.seconds
            or record.args != place.args
            or values != place.values
        ):
            if place.lines >= LINES:
                return self._has_room(place, record)
            key = _key(record, values)
            run = self._runs.get(key)
            place.args = record.args if _is_small(record.args) else _NEVER
            place.values = values
            if run is None:
                self._make_room()
                place.run = self._runs[key] = _Run(key, now, record)
                return self._has_room(place, record)
            place.run = run
        run.again(record)
        self.folded += 1
        return False

    def due(self) -> list[Line]:
        """The lines that say how often others came, as far as it is time."""
        now = self._clock()
        found, self._early = self._early, []
        while self._runs:
            run = next(iter(self._runs.values()))
            if now - run.begun < self.seconds:
                break
            del self._runs[run.key]
            if run.count:
                found.append(_said(run, now))
                run.begun, run.count = now, 0
                self._runs[run.key] = run
        for at, place in list(self._places.items()):
            if now - place.begun >= PLACE_SECONDS:
                self._renew(place, now, found)
                if place.run is None or place.run.key not in self._runs:
                    del self._places[at]
        return found

    def rest(self) -> list[Line]:
        """The counts that are not said yet, for the end."""
        now = self._clock()
        found, self._early = self._early, []
        found += [_said(run, now) for run in self._runs.values() if run.count]
        for place in self._places.values():
            self._renew(place, now, found)
        self._runs.clear()
        self._places.clear()
        return found

    def _place(self, record: logging.LogRecord, now: float) -> _Few:
        at = (record.pathname, record.lineno, record.levelno)
        place = self._places.get(at)
        if place is None:
            if len(self._places) >= MAX_PLACES:
                self._renew(self._places.pop(next(iter(self._places))), now, self._early)
            place = self._places[at] = _Few(now)
        elif now - place.begun >= PLACE_SECONDS:
            self._renew(place, now, self._early)
        return place

    def _has_room(self, place: _Few, record: logging.LogRecord) -> bool:
        if place.lines < LINES:
            place.lines += 1
            return True
        if not place.left_out:
            place.last = Line.of(record)
        place.left_out += 1
        self.folded += 1
        return False

    def _renew(self, place: _Few, now: float, said: list[Line]) -> None:
        if place.left_out and place.last is not None:
            text = f"{place.last.message} (and {place.left_out} lines like this, left out)"
            said.append(replace(place.last, time=time.time(), message=text))
        place.begun, place.lines, place.left_out, place.last = now, 0, 0, None

    def _make_room(self) -> None:
        if len(self._runs) >= MAX_RUNS:
            run = self._runs.pop(next(iter(self._runs)))
            if run.count:
                self._early.append(_said(run, self._clock()))
            run.begun = -math.inf  # a place may know it: it is looked up again


def _is_small(args: object) -> bool:
    """Whether all that a text is made of may be kept."""
    return isinstance(args, tuple) and all(
        len(arg) <= COMPARED if isinstance(arg, str) else isinstance(arg, int | float)
        for arg in args
    )


def _said(run: _Run, now: float) -> Line:
    times = "once more" if run.count == 1 else f"{run.count} times"
    text = f"{run.text()} (repeated {times} in the last {max(now - run.begun, 1):.0f} s)"
    return Line(time.time(), run.level, run.logger, text, run.fields)


def _key(record: logging.LogRecord, values: tuple[object, ...]) -> _Key:
    """What two repetitions have in common. Of a connection it is the host: a peer that comes again
    has another port."""
    connection = str(values[0] or "").rpartition(":")[0]
    error = record.exc_info[1] if record.exc_info else None
    text = record.getMessage() if error is None else f"{record.getMessage()} {error!r:.200}"
    if connection:
        text = text.replace(str(values[0]), connection)
    text = text[:COMPARED]
    # A number in a line of the engine may be what it is about: a delay level, a place in the log.
    if not record.name.startswith(ENGINE):
        text = _NUMBERS.sub("#", text)
    return (record.levelno, record.name, record.lineno, connection, *values[1:], text)


assert _SUBJECT[0] == "connection"
