"""How the log of a server looks, and how large its files become."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pyrmq.escape import escape

MAX_MESSAGE = 8192
"""Characters of a message; requests may state names and values of a megabyte."""


class LineFormatter(logging.Formatter):
    """One line for each record; a traceback follows in lines that are indented. All of it is
    escaped: what is logged may come from the network, texts of exceptions too."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        if len(record.message) > MAX_MESSAGE:
            length = len(record.message)
            record.message = f"{record.message[:MAX_MESSAGE]}… ({length} characters)"
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        lines = [escape(self.formatMessage(record))]
        if record.exc_info:
            lines += _indented(self.formatException(record.exc_info))
        elif record.exc_text:
            lines += _indented(record.exc_text)
        if record.stack_info:
            lines += _indented(self.formatStack(record.stack_info))
        return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"    {escape(line)}" for line in text.split("\n")]


LINES = 500
"""Lines of one place in the program within SECONDS; what comes behind is counted only."""
SECONDS = 10.0


class _Place:
    __slots__ = ("begun", "left_out", "lines")

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.lines = 0
        self.left_out = 0


class FewerLines(logging.Filter):
    """A filter of a handler. The first line of a place after some were left out says how many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, key = self._clock(), (record.pathname, record.lineno)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(now)
        if now - place.begun >= SECONDS:
            if place.left_out:
                record.msg = (
                    f"{record.getMessage()} (and {place.left_out} lines like this, left out)"
                )
                record.args = None
            place.begun, place.lines, place.left_out = now, 0, 0
        place.lines += 1
        if place.lines > LINES:
            place.left_out += 1
            return False
        return True
