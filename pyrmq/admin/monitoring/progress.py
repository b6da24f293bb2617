"""Figures of how far a group is: what it has not consumed, and how old that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyrmq.admin.consume_stats import QueueProgress
from pyrmq.admin.groups import Groups
from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.monitoring.metrics import Part
from pyrmq.admin.monitoring.queue_ends import QueueEnd, queue_ends
from pyrmq.admin.monitoring.rounds import Round, causes
from pyrmq.errors import TopicNotExistError
from pyrmq.model.message import MessageQueue


@dataclass(slots=True)
class Undone:
    """What a group has not consumed of a topic. [UndoneMsgs]"""

    total: int = 0
    most: int = 0
    """Of the queue that has the most."""
    queue: MessageQueue | None = None
    """That queue."""
    gone: int = 0
    """Messages of it that are deleted."""
    delay: float = 0.0
    """Seconds."""
    late: MessageQueue | None = None
    """The queue where it is most."""


def undone(rows: Iterable[QueueProgress]) -> dict[str, Undone]:
    """By topic. An offset beyond a queue's end takes nothing away from the others."""
    found: dict[str, Undone] = {}
    for row in rows:
        topic = found.setdefault(row.queue.topic, Undone())
        diff = max(row.diff, 0)
        topic.total += diff
        topic.gone += row.gone or 0
        if diff > topic.most:
            topic.most, topic.queue = diff, row.queue
    return found


def add_delays(
    found: Mapping[str, Undone],
    rows: Iterable[QueueProgress],
    ends: Mapping[MessageQueue, QueueEnd],
) -> None:
    """Takes over how much older the last consumed message of a queue is than its newest one."""
    for row in rows:
        end = ends.get(row.queue)
        if end is None or not waits(row) or end.updated <= 0:
            continue
        delay = (end.updated - row.last_timestamp) / 1000
        topic = found[row.queue.topic]
        if delay > topic.delay:
            topic.delay, topic.late = delay, row.queue


def waits(row: QueueProgress) -> bool:
    """Whether something waits in a queue, and it is known when the last message before was."""
    return row.diff > 0 and row.last_timestamp > 0


async def progress(link: AdminLink, group: str, brokers: Iterable[Replica], round_: Round) -> int:
    """Gives a round the figures of a group; returns how many messages wait for it."""
    groups = Groups(link)
    asked = await link.on_each(brokers, lambda address: groups.stats_of_broker(address, group))
    asked.check()
    rows = [row for stats in asked.values for row in stats.queues]
    found = undone(rows)
    failed = causes(asked.failed)
    partial = bool(failed)
    for name, topic in found.items():
        round_.figure("lag", topic.total, group=group, topic=name, partial=partial)
        round_.figure(
            "queue_lag", topic.most, group=group, topic=name, detail=_text(topic.queue),
            partial=partial,
        )  # fmt: skip
        round_.figure("gone", topic.gone, group=group, topic=name, partial=partial)
    if round_.settings.watches("delay"):
        for name in {row.queue.topic for row in rows if waits(row)}:
            failed += await _delays(link, name, rows, found)
    for name, topic in found.items():
        round_.figure(
            "delay", topic.delay, group=group, topic=name, detail=_text(topic.late),
            partial=bool(failed),
        )  # fmt: skip
    if failed:
        round_.problem(f"group {group}", *failed)
    else:
        round_.seen(Part.PROGRESS, group)
    return sum(topic.total for topic in found.values())


async def _delays(
    link: AdminLink, topic: str, rows: Iterable[QueueProgress], found: Mapping[str, Undone]
) -> list[BaseException | str]:
    """What of it failed."""
    try:
        ends = await queue_ends(link, topic)
    except TopicNotExistError:  # it was deleted; the group's offsets are there still
        return []
    for part in ends.values:
        add_delays(found, [row for row in rows if row.queue.topic == topic], part)
    return causes(ends.failed)


def _text(queue: MessageQueue | None) -> str:
    return f"queue {queue.broker_name} {queue.queue_id}" if queue else ""
