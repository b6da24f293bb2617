"""Sharing queues by consistent hashing: few queues move when a member comes or goes.
[AllocateMessageQueueConsistentHash, ConsistentHashRouter]"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import md5

from pyrmq.client.option_checks import check_whole
from pyrmq.model.message import MessageQueue

VIRTUAL_NODES = 10


class ConsistentHash:
    """CONSISTENT_HASH, as in Java's client; each member has `virtual_nodes` places on the ring. The
    Go client has another ring, so do not mix both in one group."""

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        check_whole("virtual_nodes", virtual_nodes, 1, 1000)
        self._nodes = virtual_nodes
        self._ring: tuple[tuple[str, ...], list[int], dict[int, str]] = ((), [], {})

    def __call__(
        self, queues: Sequence[MessageQueue], ids: Sequence[str], own: str
    ) -> list[MessageQueue]:
        """Empty if `own` is not among the ids."""
        if own not in ids:
            return []
        places, owners = self._ring_of(tuple(ids))
        return [q for q in queues if owners[_next(places, ring_hash(queue_text(q)))] == own]

    def _ring_of(self, ids: tuple[str, ...]) -> tuple[list[int], dict[int, str]]:
        """If hashes are equal, the last one counts."""
        if self._ring[0] != ids:
            owners = {ring_hash(f"{i}-{n}"): i for i in ids for n in range(self._nodes)}
            self._ring = ids, sorted(owners), owners
        return self._ring[1], self._ring[2]


def ring_hash(text: str) -> int:
    """A place on the ring: 32 bits of MD5."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def queue_text(queue: MessageQueue) -> str:
    """The text of a MessageQueue in Java."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _next(places: list[int], at: int) -> int:
    """The first place at or behind `at` on the ring."""
    index = bisect_left(places, at)
    return places[index] if index < len(places) else places[0]
