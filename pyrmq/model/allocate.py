"""Sharing queues evenly: what consumers do among themselves, and brokers that assign queues.
[AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle]"""

from __future__ import annotations

from collections.abc import Sequence

from pyrmq.model.message import MessageQueue


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
