"""One topic of a registration, read strictly: its numbers end up in routes. [TopicConfig]"""

from __future__ import annotations

from typing import Any

from pyrmq.errors import ProtocolError
from pyrmq.model.route import MAX_ROUTE_QUEUES
from pyrmq.namesrv.names import check_topic
from pyrmq.net import fastjson

MAX_ROW = 64 << 10
"""Longest topic of a registration, bytes."""

Queues = tuple[int, int, int, int]
"""readQueueNums, writeQueueNums, perm and topicSysFlag. Plain tuples of numbers are nothing that
Python's garbage collector looks at again and again, however many topics there are."""

_NUMBERS = (
    ("readQueueNums", 16, MAX_ROUTE_QUEUES),
    ("writeQueueNums", 16, MAX_ROUTE_QUEUES),
    ("perm", 6, 15),
    ("topicSysFlag", 0, (1 << 31) - 1),
)
"""With the value that counts where JSON has none, and the largest."""


def queues_of(name: Any, row: Any) -> Queues:
    """ProtocolError for what is no topic, InvalidParameterError for a name that none can have."""
    if not isinstance(name, str) or not isinstance(row, dict):
        raise ProtocolError("topicConfigTable: a topic is no JSON object")
    check_topic(name)
    if "$ref" in row:
        raise ProtocolError(f"topic {name!r} refers to another one")
    return checked(name, [row.get(key, default) for key, default, _ in _NUMBERS])


def checked(name: str, numbers: list[Any]) -> Queues:
    """The numbers of a topic as `Queues`. ProtocolError if one is out of bounds, or none."""
    for number, (key, _, limit) in zip(numbers, _NUMBERS, strict=True):
        if type(number) is not int or not 0 <= number <= limit:
            raise ProtocolError(f"topic {name!r}: {key} must be a number from 0 to {limit}")
    read, write, perm, flag = numbers
    return read, write, perm, flag


def topic_from_line(line: bytes) -> tuple[str, Queues]:
    """`name readNums writeNums perm filterType [attributesJson]`. [TopicConfig.encode]"""
    parts = line.decode(errors="replace").split(" ", 5)
    if len(parts) < 5:
        raise ProtocolError(f"not a topic line: {line[:80]!r}")
    name = parts[0]
    check_topic(name)
    numbers = [int(n) if n.isdecimal() and len(n) < 10 else n for n in parts[1:4]]
    if len(parts) == 6 and parts[5].strip():
        fastjson.loads_object(parts[5].encode())
    return name, checked(name, [*numbers, 0])
