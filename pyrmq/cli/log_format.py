"""Log lines that nobody can forge."""

from __future__ import annotations

import logging

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
