"""Checks of a consumer's options: an error gives the option, its value and the allowed values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyrmq.errors import ClientError


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raises ClientError unless `value` is a whole number in a range."""
    if type(value) is not int or not low <= value <= high:
        raise ClientError(f"{name} is {value!r:.80}; it must be at least {low} and at most {high}")


def check_seconds(name: str, value: object, low: float, high: float = float("inf")) -> None:
    """Raises ClientError unless `value` is a number of seconds in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        most = "" if high == float("inf") else f" and at most {high:g}"
        raise ClientError(f"{name} is {value!r:.80}; seconds are needed, at least {low:g}{most}")


def check_function(name: str, value: object, wanted: str) -> Callable[..., Any]:
    """Raises ClientError unless `value` is callable."""
    if not callable(value):
        raise ClientError(f"{name} is {value!r:.80}; it must be {wanted}")
    return value
