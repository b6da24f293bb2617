"""Log lines that nobody can forge."""

from __future__ import annotations

import logging
from types import TracebackType

from pyrmq.escape import escape

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LineFormatter(logging.Formatter):
    """One line for each record; a traceback follows in lines that are indented. All of it is
    escaped: what is logged may come from the network, texts of exceptions too."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escape(super().formatMessage(record))

    def formatException(self, ei: _ExcInfo) -> str:
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {escape(line)}" for line in text.split("\n"))
