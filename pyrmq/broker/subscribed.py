"""How much the subscriptions of consumers take: of each connection, and of all.

A client states them with every heartbeat, and each of its groups may be in a heartbeat of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrmq.errors import InvalidParameterError, SystemBusyError
from pyrmq.net.connection import Connection

MAX_BYTES_PER_CONNECTION = 8 << 20
"""Bytes that the subscriptions of a connection take at most, about."""
MAX_BYTES = 512 << 20
"""The same of all connections."""
MAX_TAGS = 16_384
"""Most tags, and most codes of tags, that a heartbeat states."""
SUBSCRIPTION = 512
"""Bytes of one, about, without its texts."""
TAG = 80
"""Bytes of a tag, about, beside its text; and of a code."""


def cost(consumer: Mapping[Any, Any]) -> tuple[int, int]:
    """How many tags and codes a ConsumerData states, and the bytes that its subscriptions take."""
    subscriptions = consumer.get("subscriptionDataSet")
    count = size = 0
    for sub in subscriptions if isinstance(subscriptions, list) else ():
        if not isinstance(sub, dict):
            continue
        size += SUBSCRIPTION
        size += sum(len(sub[k]) for k in ("topic", "subString") if isinstance(sub.get(k), str))
        for key in ("tagsSet", "codeSet"):
            if isinstance(stated := sub.get(key), list):
                count += len(stated)
                size += sum(TAG + (len(t) if isinstance(t, str) else 0) for t in stated)
    return count, size


class Subscribed:
    """By connection and group, what was taken."""

    def __init__(self) -> None:
        self._taken: dict[Connection, dict[str, int]] = {}
        self._total = 0

    def check(self, connection: Connection, sizes: Mapping[str, int]) -> None:
        """Whether these groups may take so much: InvalidParameterError, SystemBusyError."""
        had = self._taken.get(connection, {})
        more = sum(size - had.get(group, 0) for group, size in sizes.items())
        if more > 0:
            mine = sum(had.values()) + more
            if mine > MAX_BYTES_PER_CONNECTION:
                raise InvalidParameterError(
                    f"the subscriptions of a connection would take {mine} bytes: at most "
                    f"{MAX_BYTES_PER_CONNECTION}"
                )
            if self._total + more > MAX_BYTES:
                raise SystemBusyError(
                    f"[OVERLOAD]the subscriptions of all clients take {self._total} bytes already"
                )

    def take(self, connection: Connection, group: str, size: int) -> None:
        """A group takes so much from now on, until `forget`."""
        mine = self._taken.setdefault(connection, {})
        self._total += size - mine.get(group, 0)
        mine[group] = size

    def forget(self, connection: Connection, group: str) -> None:
        """The connection has left the group."""
        mine = self._taken.get(connection, {})
        self._total -= mine.pop(group, 0)
        if not mine:
            self._taken.pop(connection, None)
