"""Members of JSON objects that servers and clients answered, as the types that are expected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pyrmq.errors import ProtocolError
from pyrmq.model.message import MessageQueue
from pyrmq.model.topic import as_int

_MOST = 1 << 63


def text(value: Mapping[Any, Any], name: str) -> str:
    """A text; empty for what is absent."""
    found = value.get(name)
    return "" if found is None else str(found)


def number(value: Mapping[Any, Any], name: str) -> int:
    """A whole number of 64 bits; 0 for what is none. JSON has longer ones, which are not even
    numbers to calculate with: no float can hold them."""
    found = as_int(value.get(name), 0)
    return found if -_MOST <= found < _MOST else 0


def real(row: Mapping[Any, Any], name: str) -> float:
    """A number; 0 for what is none, or not finite."""
    found = row.get(name)
    if not isinstance(found, int | float):
        return 0.0
    try:
        value = float(found)
    except OverflowError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def truth(value: Mapping[Any, Any], name: str) -> bool:
    return value.get(name) is True


def table(value: Mapping[Any, Any], name: str) -> dict[Any, Any]:
    """An object; empty for what is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def objects(value: Mapping[Any, Any], name: str) -> list[dict[Any, Any]]:
    """The objects in a list."""
    found = value.get(name)
    return [o for o in found if isinstance(o, dict)] if isinstance(found, list) else []


def by_queue(found: Mapping[Any, Any]) -> Iterator[tuple[MessageQueue, Any]]:
    """The members of an object whose keys are queues. ProtocolError for other keys."""
    for key, value in found.items():
        if not isinstance(key, tuple):
            raise ProtocolError("a table by queue has a key that is no queue")
        yield MessageQueue.from_json(dict(key)), value
