"""A thread that writes the log, so that nobody who logs waits for a disk or a pipe.

What does not fit into its queue is lost, counted and said. The text of a line is made where it is
logged, as its values may change; times, JSON and files are work of the thread.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from pyrmq.logs.files import Outlet
from pyrmq.logs.folding import Folding
from pyrmq.logs.lines import Line

MAX_LINES = 10_000
MAX_CHARACTERS = 16 << 20
"""Of lines that wait."""
BATCH = 200
"""Lines that are written together, at most."""
TICK = 1.0
"""Seconds between two looks at repetitions and moved files."""
SOON = 0.5
"""Seconds that `flush` waits for it."""
LAST = 2.0
"""Seconds that the end waits for a slow disk or pipe."""
OWN = "pyrmq.logs"
Form = Callable[[Line], str]


class LogWriter(logging.Handler):
    """A handler. Until `start` it keeps what is logged, so that a configuration is read first;
    `stderr` gets that where there is no start, and that a file cannot be written."""

    def __init__(self, folding: Folding, stderr: Outlet, form: Form) -> None:
        super().__init__()
        self.folding = folding
        self.dropped = 0
        """Lines that did not fit into the queue, so far."""
        self.stderr = stderr
        self._form = form
        self._outlets: Mapping[str, Outlet] = {"": stderr}
        self._of: dict[str, Outlet] = {}
        self._queue: queue.SimpleQueue[Line | threading.Event | None] = queue.SimpleQueue()
        self._put = self._taken = self._told = 0
        self._thread: threading.Thread | None = None
        self._ends = False

    @property
    def lost(self) -> int:
        """Lines that are written nowhere: they did not fit, or a disk or pipe did not take them."""
        return self.dropped + sum(outlet.all_lost for outlet in self._outlets.values())

    def filter(self, record: logging.LogRecord) -> bool:
        if not super().filter(record):
            return False
        self.acquire()
        try:
            return self.folding.takes(record)
        except Exception:
            return True  # its text cannot be made: `emit` says so
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Never waits."""
        try:
            line = Line.of(record)
        except Exception as e:
            text = f"a line cannot be made of {str(record.msg)[:200]!r}: {type(e).__name__}"
            line = Line(record.created, record.levelno, record.name, text, {})
        waiting = self._put - self._taken
        if self._ends or self._queue.qsize() >= MAX_LINES or waiting > MAX_CHARACTERS:
            self.dropped += 1
            return
        self._put += _size(line)
        self._queue.put(line)

    def start(self, form: Form, outlets: Mapping[str, Outlet]) -> None:
        """`outlets`: by the first words of loggers' names; "" takes the others."""
        self._form, self._outlets = form, outlets
        self._begin()

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._run, name="pyrmq-log", daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Waits a moment, until what is logged is written."""
        if self._thread is not None and not self._ends:
            written = threading.Event()
            self._queue.put(written)
            written.wait(SOON)

    def close(self) -> None:
        """Writes what waits, but for a disk or pipe that takes nothing for LAST seconds."""
        self.acquire()
        try:
            if self._ends:
                return
            self._ends = True
            rest = self.folding.rest()
        finally:
            self.release()
        for line in rest:
            self._queue.put(line)
        self._queue.put(None)
        if self._thread is None:
            self._begin()
        assert self._thread is not None
        self._thread.join(LAST)
        for outlet in {*self._outlets.values(), self.stderr}:
            outlet.close()
        super().close()

    def _run(self) -> None:
        next_tick = time.monotonic() + TICK
        ends = False
        while not ends:
            lines = self._next()
            self._write([line for line in lines if isinstance(line, Line)])
            for item in lines:
                if isinstance(item, threading.Event):
                    item.set()
            ends = None in lines
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + TICK
                self._tick()

    def _next(self) -> list[Line | threading.Event | None]:
        found: list[Line | threading.Event | None] = []
        try:
            found.append(self._queue.get(timeout=TICK))
            while len(found) < BATCH and found[-1] is not None:
                found.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return found

    def _tick(self) -> None:
        self.acquire()
        try:
            due = self.folding.due()
        finally:
            self.release()
        for outlet in self._outlets.values():
            outlet.look()
        self._write(due, waited=False)

    def _write(self, lines: Iterable[Line], *, waited: bool = True) -> None:
        by_outlet: dict[Outlet, list[Line]] = {}
        for line in lines:
            by_outlet.setdefault(self._outlet(line.logger), []).append(line)
            self._taken += _size(line) if waited else 0
        if self.dropped > self._told:
            more, self._told = self.dropped - self._told, self.dropped
            text = f"{more} log lines are lost: more came than could be written"
            by_outlet.setdefault(self._outlet(OWN), []).append(_own(text))
        for outlet, some in by_outlet.items():
            self._write_to(outlet, some)

    def _write_to(self, outlet: Outlet, lines: list[Line]) -> None:
        lost, had_trouble = outlet.lost, outlet.lost > 0
        said = _own(f"{lost} log lines are lost here: {outlet.why}") if lost else None
        data = "".join(f"{self._form(line)}\n" for line in ([said] if said else []) + lines)
        if outlet.write(data.encode(outlet.encoding, "backslashreplace"), len(lines)):
            outlet.lost -= lost
        elif not had_trouble and outlet is not self.stderr:
            text = f"the log {outlet.name} cannot be written: {outlet.why}; its lines are lost"
            line = self._form(_own(text, logging.ERROR)) + "\n"
            self.stderr.write(line.encode(self.stderr.encoding, "backslashreplace"), 0)

    def _outlet(self, logger: str) -> Outlet:
        found = self._of.get(logger)
        if found is None:
            name = logger
            while name and name not in self._outlets:
                name = name.rpartition(".")[0]
            found = self._of[logger] = self._outlets[name]
        return found


def _size(line: Line) -> int:
    return len(line.message) + len(line.exception) + 100


def _own(text: str, level: int = logging.WARNING) -> Line:
    return Line(time.time(), level, OWN, text, {})
