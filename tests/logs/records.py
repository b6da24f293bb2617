"""Records as loggers make them, for tests of what becomes of them."""

from __future__ import annotations

import logging
import sys
from typing import Any

from pyrmq.logs.about import about


def record(text: str, *args: object, line: int = 1, level: int = logging.WARNING, **of: Any) -> Any:
    """`of`: what it is about."""
    made = logging.LogRecord("own.x", level, "x.py", line, text, args, None)
    made.__dict__.update(about(**of))
    return made


def failed(error: Exception, text: str = "it failed") -> Any:
    """With the traceback of an exception."""
    try:
        raise error
    except Exception:
        return logging.LogRecord("own.x", logging.ERROR, "x.py", 1, text, (), sys.exc_info())
