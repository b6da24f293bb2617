"""Lines of the engine, whose threads cannot call Python: a thread fetches them and logs them.

Their loggers are `pyrmq.engine.store`, `pyrmq.engine.broker` and so on, after the engine's crates.
"""

from __future__ import annotations

import logging
import threading

from pyrmq.engine import keep_log_lines, take_log_lines
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.logs.levels import ENGINE

WAIT = 1000
"""ms of one wait."""
LAST = 2.0
"""Seconds that `stop` waits for the thread."""


class EngineLines:
    """From `start` to `stop`, lines of the engine are records of Python's logging."""

    def __init__(self) -> None:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pyrmq-engine-log", daemon=True)

    def start(self) -> None:
        keep_log_lines(True)
        self._thread.start()

    def stop(self) -> None:
        """From now on they go to stderr. What is there is logged before."""
        self._ends.set()
        keep_log_lines(False)
        self._thread.join(LAST)

    def _run(self) -> None:
        while not self._ends.is_set():
            self._take(WAIT)
        self._take(0)

    def _take(self, milliseconds: int) -> None:
        lines, lost = take_log_lines(milliseconds)
        for time_ms, level, target, line, text, fields in lines:
            log = logging.getLogger(logger_of(target))
            number = logging.getLevelNamesMapping()[level]
            if log.isEnabledFor(number):
                extra = about_engine(fields)
                record = log.makeRecord(
                    log.name, number, target, line, "%s", (escape(text),), None, None, extra
                )
                record.created = time_ms / 1000
                record.msecs = time_ms % 1000
                log.handle(record)
        if lost:
            logging.getLogger(ENGINE).warning("%d log lines of the engine are lost", lost)


def about_engine(fields: list[tuple[str, int | str]]) -> dict[str, str | int]:
    """What a line of the engine is about: topic, queue, group, and a file of the store."""
    found = dict(fields)
    queue = found.get("queue")
    return about(
        queue=queue if isinstance(queue, int) else None,
        topic=found.get("topic"),
        group=found.get("group"),
        path=found.get("path"),
    )


def logger_of(target: str) -> str:
    """`pyrmq_store::put` is pyrmq.engine.store."""
    crate = target.partition("::")[0].removeprefix("pyrmq_").removeprefix("_")
    return f"{ENGINE}.{crate}" if crate.isidentifier() else ENGINE
