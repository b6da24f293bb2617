"""How much the groups of clients and their subscriptions take: of each connection, and of all.

A client states them with every heartbeat, and each of its groups may be in a heartbeat of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrmq.errors import InvalidParameterError, SystemBusyError
from pyrmq.model.subscription import TAG as BY_TAG
from pyrmq.net.server.connection import Connection

MAX_BYTES_PER_CONNECTION = 8 << 20
"""Bytes that the groups and subscriptions of a connection take at most, about."""
MAX_BYTES = 512 << 20
"""The same of all connections."""
MAX_TAGS = 16_384
"""Most tags, and most codes of tags, that a heartbeat states."""
MEMBER = 320
"""Bytes of a member of a group, about, beside the group's name."""
SUBSCRIPTION = 512
"""Bytes of one, about, without its texts."""
TAG = 80
"""Bytes of a tag, about, beside its text; and of a code."""
PRODUCING, CONSUMING = "producing", "consuming"
SubscribedBy = tuple[str, str]
"""PRODUCING or CONSUMING, and the group's name."""


def cost_of_member(group: str) -> int:
    """Bytes that a member takes, without its subscriptions."""
    return MEMBER + len(group)


def cost(consumer: Mapping[Any, Any]) -> tuple[int, int]:
    """How many tags and codes a ConsumerData states, and the bytes that it takes."""
    subscriptions = consumer.get("subscriptionDataSet")
    count, size = 0, cost_of_member(consumer["groupName"])
    for sub in subscriptions if isinstance(subscriptions, list) else ():
        if not isinstance(sub, dict):
            continue
        size += SUBSCRIPTION
        size += sum(len(sub[k]) for k in ("topic", "subString") if isinstance(sub.get(k), str))
        for key in ("tagsSet", "codeSet"):
            if isinstance(stated := sub.get(key), list):
                count += len(stated)
                size += sum(TAG + (len(t) if isinstance(t, str) else 0) for t in stated)
        if not sub.get("codeSet") and (sub.get("expressionType") or BY_TAG) == BY_TAG:
            text = sub.get("subString")  # this broker makes tags and codes of it
            made = text.count("||") + 1 if isinstance(text, str) else 0
            count += made
            size += 2 * TAG * made
    return count, size


class Subscribed:
    """By connection and group, what was taken."""

    def __init__(self) -> None:
        self._taken: dict[Connection, dict[SubscribedBy, int]] = {}
        self._total = 0

    def check(self, connection: Connection, sizes: Mapping[SubscribedBy, int]) -> None:
        """Whether these groups may take so much: InvalidParameterError, SystemBusyError."""
        had = self._taken.get(connection, {})
        more = sum(size - had.get(group, 0) for group, size in sizes.items())
        if more > 0:
            mine = sum(had.values()) + more
            if mine > MAX_BYTES_PER_CONNECTION:
                raise InvalidParameterError(
                    f"groups and subscriptions of a connection would take {mine} bytes: at most "
                    f"{MAX_BYTES_PER_CONNECTION}"
                )
            if self._total + more > MAX_BYTES:
                raise SystemBusyError(
                    f"[OVERLOAD]groups and subscriptions of all clients take {self._total} "
                    "bytes already"
                )

    def take(self, connection: Connection, group: SubscribedBy, size: int) -> None:
        """A group takes so much from now on, until `forget`."""
        mine = self._taken.setdefault(connection, {})
        self._total += size - mine.get(group, 0)
        mine[group] = size

    def forget(self, connection: Connection, group: SubscribedBy) -> None:
        """The connection has left the group."""
        mine = self._taken.get(connection, {})
        self._total -= mine.pop(group, 0)
        if not mine:
            self._taken.pop(connection, None)
