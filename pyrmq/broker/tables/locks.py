"""Queue locks of orderly consumers. [RebalanceLockManager]

With lockInStrictMode RocketMQ's brokers ask the members of their set, and a majority has to grant.
A broker without replicas is that majority by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyrmq.model.message import MessageQueue

LIFETIME = 60.0
"""Seconds that a lock lives after it was taken or renewed. [REBALANCE_LOCK_MAX_LIVE_TIME]"""
MAX_LOCKS = 1 << 19
"""Most locks of all groups."""

Key = tuple[str, int]
"""Topic and queue id. All queues are of this broker, whatever name a client has for it."""


def _key(queue: MessageQueue) -> Key:
    return queue.topic, queue.queue_id


@dataclass(slots=True)
class _Lock:
    client_id: str
    touched: float


class QueueLocks:
    """Locks by group and queue; `now` is in seconds of a clock that only goes forward."""

    def __init__(self) -> None:
        self._locks: dict[str, dict[Key, _Lock]] = {}
        self._next_look = 0.0
        self._count = 0
        """Locks of all groups, also those that have run out."""

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: float
    ) -> list[MessageQueue]:
        """Takes or renews locks; returns the queues that the client has now. With MAX_LOCKS of them
        no other queue is locked."""
        self._forget_expired(now)
        table = self._locks.setdefault(group, {})
        granted = []
        for queue in queues:
            key = _key(queue)
            current = table.get(key)
            if (
                current is None
                or current.client_id == client_id
                or now - current.touched > LIFETIME
            ):
                if current is None:
                    if self._count >= MAX_LOCKS:
                        continue
                    self._count += 1
                table[key] = _Lock(client_id, now)
                granted.append(queue)
        if not table:
            del self._locks[group]
        return granted

    def _forget_expired(self, now: float) -> None:
        """Once in a lifetime checks all groups, so that names do not pile up."""
        if now < self._next_look:
            return
        self._next_look = now + LIFETIME
        for group, table in list(self._locks.items()):
            for key in [key for key, h in table.items() if now - h.touched > LIFETIME]:
                del table[key]
                self._count -= 1
            if not table:
                del self._locks[group]

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Gives up the locks among `queues` that are the client's."""
        table = self._locks.get(group, {})
        for queue in queues:
            current = table.get(_key(queue))
            if current is not None and current.client_id == client_id:
                del table[_key(queue)]
                self._count -= 1
        if not table:
            self._locks.pop(group, None)

    def any_live(self, group: str, now: float) -> bool:
        """Whether the group holds a lock that has not run out."""
        return any(now - h.touched <= LIFETIME for h in self._locks.get(group, {}).values())
