"""A record as a line: text, or a JSON object.

All of it is escaped: what is logged may come from the network, texts of exceptions too. A line is
one line, whatever is in it; in text a traceback follows in lines that are indented.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from pyrmq.escape import escape, json_line
from pyrmq.logs.about import FIELDS, TRACE_FIELDS

MAX_MESSAGE = 8192
"""Characters of a message; requests may state names and values of a megabyte."""
MAX_TRACE = 32_768
"""Characters of a traceback: its end."""
Fields = dict[str, str | int]
_SHOWN = (*FIELDS, *TRACE_FIELDS)
_plain = logging.Formatter()


@dataclass(frozen=True, slots=True)
class Line:
    """What is left of a record when it waits to be written: texts, no objects of the program."""

    time: float
    level: int
    logger: str
    message: str
    fields: Fields
    exception: str = ""

    @classmethod
    def of(cls, record: logging.LogRecord) -> Line:
        return cls(
            record.created,
            record.levelno,
            record.name,
            bounded(record.getMessage()),
            fields_of(record),
            _exception(record),
        )


def fields_of(record: logging.LogRecord) -> Fields:
    """What the record is about."""
    values = record.__dict__
    return {name: values[name] for name in _SHOWN if values.get(name) not in (None, "")}


def bounded(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}… ({len(text)} characters)"


def _exception(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(_plain.formatException(record.exc_info))
    elif record.exc_text:
        parts.append(record.exc_text)
    if record.stack_info:
        parts.append(record.stack_info)
    text = "\n".join(parts)
    return text if len(text) <= MAX_TRACE else f"…{text[-MAX_TRACE:]}"


class TextLines:
    """Lines for people: time, level, logger, message. What the line is about follows in brackets,
    as far as the message does not have it. `of`: the server, where several write to one place."""

    def __init__(self, of: str = "") -> None:
        self._mark = f"[{escape(of)}] " if of else ""

    def __call__(self, line: Line) -> str:
        level = logging.getLevelName(line.level)
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.time))
        text = f"{at},{int(line.time % 1 * 1000):03d} {level} {self._mark}{line.logger}: "
        text += line.message
        more = " ".join(
            f"{name}={value}"
            for name, value in line.fields.items()
            if not _has(line.message, value)
        )
        text = escape(f"{text} [{more}]" if more else text)
        return "\n".join([text, *indented(line.exception)])


def _has(message: str, value: object) -> bool:
    """Whether the message has the value as a word of its own."""
    text = str(value)
    if text not in message:
        return False
    return re.search(rf"(?<![\w.-]){re.escape(text)}(?![\w-]|\.\w)", message) is not None


def indented(text: str) -> list[str]:
    return [f"    {escape(line)}" for line in text.split("\n")] if text else []


class JsonLines:
    """Lines for programs: an object each. Its times are UTC, as in RFC 3339."""

    def __init__(self, of: str = "") -> None:
        self._of = of

    def __call__(self, line: Line) -> str:
        at = datetime.fromtimestamp(line.time, UTC).isoformat(timespec="milliseconds")
        found: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": logging.getLevelName(line.level),
            "logger": line.logger,
            "message": line.message,
        }
        if self._of:
            found["server"] = self._of
        found |= line.fields
        if line.exception:
            found["exception"] = line.exception
        return json_line(found)


class LineFormatter(logging.Formatter):
    """For handlers of the standard library: the text of a command's warnings."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = bounded(record.getMessage())
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        return "\n".join([escape(self.formatMessage(record)), *indented(_exception(record))])
