"""Queue locks of orderly consumers. [RebalanceLockManager]"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyrmq.model.message import MessageQueue

LIFETIME = 60.0
"""Seconds that a lock lives after it was taken or renewed."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    touched: float


class QueueLocks:
    """Locks by group and queue; `now` is in seconds of a clock that only goes forward."""

    def __init__(self) -> None:
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: float
    ) -> list[MessageQueue]:
        """Takes or renews locks; returns the queues that the client has now."""
        table = self._locks.setdefault(group, {})
        granted = []
        for queue in queues:
            held = table.get(queue)
            if held is None or held.client_id == client_id or now - held.touched > LIFETIME:
                table[queue] = _Lock(client_id, now)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Gives up the locks among `queues` that are the client's."""
        table = self._locks.get(group, {})
        for queue in queues:
            held = table.get(queue)
            if held is not None and held.client_id == client_id:
                del table[queue]
        if not table:
            self._locks.pop(group, None)

    def any_live(self, group: str, now: float) -> bool:
        """Whether the group holds a lock that has not run out."""
        return any(now - h.touched <= LIFETIME for h in self._locks.get(group, {}).values())
