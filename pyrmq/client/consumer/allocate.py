"""Sharing queues among the consumers of a group.

Each strategy takes all queues and all client ids, both sorted, and the own client id, and returns
the own queues. Every member computes the same result from the same lists.
[AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle, AllocateMessageQueueByConfig]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pyrmq.client.producer.refusals import check_kind
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import RETRY_PREFIX

Strategy = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]


def average(queues: Sequence[MessageQueue], ids: Sequence[str], own: str) -> list[MessageQueue]:
    """Gives each member consecutive queues; if they do not divide evenly, the first members get one
    more (AVG). Empty if `own` is not among the ids."""
    if own not in ids:
        return []
    share, rest = divmod(len(queues), len(ids))
    i = ids.index(own)
    start = i * share + min(i, rest)
    return list(queues[start : start + share + (i < rest)])


def average_by_circle(
    queues: Sequence[MessageQueue], ids: Sequence[str], own: str
) -> list[MessageQueue]:
    """Deals the queues out to the members one by one (AVG_BY_CIRCLE). Empty if `own` is not among
    the ids."""
    if own not in ids:
        return []
    return list(queues[ids.index(own) :: len(ids)])


class Configured:
    """The given queues, whoever else is in the group (CONFIG). The user must give each queue to
    only one member. `queues` are those of all topics; missing ones are ignored. The group's retry
    topic is shared evenly."""

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)
        for queue in self._queues:
            check_kind("one of queues", queue, (MessageQueue,), "a MessageQueue")
        self._topics = {queue.topic for queue in self._queues}

    def renamed(self, name: Callable[[str], str]) -> Configured:
        """The same queues with other topic names."""
        return Configured(replace(queue, topic=name(queue.topic)) for queue in self._queues)

    def __call__(
        self, queues: Sequence[MessageQueue], ids: Sequence[str], own: str
    ) -> list[MessageQueue]:
        topic = queues[0].topic if queues else ""
        if topic.startswith(RETRY_PREFIX) and topic not in self._topics:
            return average(queues, ids, own)
        return [queue for queue in queues if queue in self._queues]
