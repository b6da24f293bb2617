"""Warnings of pyrmq in Spark's Python processes, where nobody configures logging: damage and what
was left out must be seen in the logs of drivers and executors."""

from __future__ import annotations

import logging


class ToStderr(logging.Handler):
    """Prints warnings as Python does for a logger without handlers, unless the process has
    configured logging."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers and logging.lastResort is not None:
            logging.lastResort.handle(record)


def show() -> None:
    """Once in a process."""
    log = logging.getLogger("pyrmq")
    if not any(isinstance(handler, ToStderr) for handler in log.handlers):
        log.addHandler(ToStderr())
