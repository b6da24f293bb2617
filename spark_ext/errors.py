"""Errors of the Spark side that a program may want to tell apart."""

from __future__ import annotations

from pyrmq.errors import PyrmqError


class SparkSetupError(PyrmqError):
    """Spark cannot run the source as it is set up: no Java, a Python without the package, a session
    that was stopped. The text says what to do."""
