"""What goes wrong in a job, in one line."""

from __future__ import annotations

import re

from pyrmq.errors import PyrmqError

_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Loss\w*)): (.+)$", re.MULTILINE)
"""The last line of a Python traceback: class and text."""
_WRAPPERS = ("PythonException", "SparkException", "SparkRuntimeException", "AnalysisException")
MAX_TEXT = 2000


class JobError(PyrmqError):
    """A job cannot do what was asked; the text says what to do."""


def first_cause(text: str) -> str:
    """What a Python source or worker raised, out of the text of Spark's exception: that has the
    JVM's stack and Python's traceback around it."""
    found = [m for m in _RAISED.finditer(text) if m[1] not in _WRAPPERS]
    if found:
        return found[0][2].strip()[:MAX_TEXT]
    first = next((line for line in text.splitlines() if line.strip()), text)
    return first.strip()[:MAX_TEXT]
