"""Sharing queues among the consumers of a group: pure functions.

Each takes all queues and all client ids, both sorted, and the own client id, and returns the own
queues. Every member computes the same split from the same lists.
[AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrmq.model.message import MessageQueue

Strategy = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]


def average(queues: Sequence[MessageQueue], ids: Sequence[str], own: str) -> list[MessageQueue]:
    """Consecutive runs, the first ones a queue longer where it does not divide (AVG). Empty if
    `own` is not among the ids."""
    if own not in ids:
        return []
    share, rest = divmod(len(queues), len(ids))
    i = ids.index(own)
    start = i * share + min(i, rest)
    return list(queues[start : start + share + (i < rest)])


def average_by_circle(
    queues: Sequence[MessageQueue], ids: Sequence[str], own: str
) -> list[MessageQueue]:
    """One after the other around the circle (AVG_BY_CIRCLE). Empty if `own` is not among the
    ids."""
    if own not in ids:
        return []
    return list(queues[ids.index(own) :: len(ids)])
