"""Watches groups: their progress, their dead letters, pulls from where messages are deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyrmq.admin import values
from pyrmq.admin.consume_stats import QueueProgress
from pyrmq.admin.groups import Groups
from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.monitoring.metrics import METRICS, Part
from pyrmq.admin.monitoring.rounds import First, Round, causes
from pyrmq.admin.monitoring.running import QueueEnd, TopicNames, queue_ends, running
from pyrmq.errors import ClientError, ProtocolError, TopicNotExistError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import DLQ_PREFIX, retry_topic
from pyrmq.model.record import ReceivedMessage, decode_records
from pyrmq.net import fastjson
from pyrmq.net.client.requests import PullStatus, pull_fields, read_pull


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


class DeadLetterWatcher:
    """Compares where the queues of `%DLQ%` topics end with the round before. What was there when
    it began does not count; a topic that came since then counts from its first message."""

    name = "dead letters"

    def __init__(self, link: AdminLink, names: TopicNames) -> None:
        self._link = link
        self._names = names
        self._first = First()
        self._ends: dict[str, dict[MessageQueue, int]] = {}
        self._old: set[str] | None = None
        """Groups that had dead letters at the beginning, and were not asked yet."""

    async def watch(self, round_: Round) -> None:
        groups = await self._names.dead_letters(round_)
        round_.listed((Part.DEAD_LETTERS,), groups)
        if self._old is None:
            self._old = set(groups)
        for group in self._ends.keys() - groups:
            del self._ends[group]
        old = self._old

        async def one(group: str) -> None:
            await self._one(group, round_, old)

        await round_.each(groups, "dead letters of", one, self._first)

    async def _one(self, group: str, round_: Round, old: set[str]) -> None:
        asked = await queue_ends(self._link, DLQ_PREFIX + group)
        before = self._ends.setdefault(group, {})
        first = group in old
        growth = 0
        for part in asked.values:
            for queue, end in part.items():
                if queue in before or not first:
                    growth += max(end.offset - before.get(queue, 0), 0)
                before[queue] = end.offset
        partial = bool(asked.failed)
        if growth or not first:
            round_.figure("dlq_growth", growth, group=group, partial=partial)
        if asked.failed:
            round_.problem(f"dead letters of {group}", *causes(asked.failed))
            return
        old.discard(group)
        if not first:
            round_.seen(Part.DEAD_LETTERS, group)


TOPIC = "OFFSET_MOVED_EVENT"
PULL_COUNT = 32
MAX_PULLS = 100
"""Pulls of one queue in a round; what is left comes in the next."""


class MovedOffsetWatcher:
    """Reads each queue of the topic from where it ended at the first round; nothing is committed.
    [MonitorService: the push consumer of __MONITOR_CONSUMER]"""

    name = TOPIC

    def __init__(self, link: AdminLink) -> None:
        self._link = link
        self._next: dict[MessageQueue, int] = {}
        self._begun = False

    async def watch(self, round_: Round) -> None:
        try:
            brokers = {r.broker_name: r for r in await self._link.brokers_of(TOPIC)}
            asked = await queue_ends(self._link, TOPIC)
        except TopicNotExistError:  # no broker writes it
            self._begun = True
            round_.seen(Part.EVENTS, "")
            return
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        failed = causes(asked.failed)
        ends = {queue: end.offset for part in asked.values for queue, end in part.items()}
        for queue, end in sorted(ends.items()):
            # A queue that came later is read whole, unless its broker was silent so far.
            at = self._next.setdefault(queue, 0 if self._begun and not failed else end)
            if at > end:  # it was deleted, and made again
                at = 0
            if at < end and queue.broker_name in brokers:
                await self._read(brokers[queue.broker_name], queue, at, end, found)
        self._begun = self._begun or not failed
        for (group, topic), texts in found.items():
            if group and round_.settings.watched.wants(group):
                round_.figure(
                    "offset_moved", len(texts), group=group, topic=topic, detail=texts[-1],
                    partial=bool(failed),
                )  # fmt: skip
        if failed:
            round_.problem(TOPIC, *failed)
        else:
            round_.seen(Part.EVENTS, "")

    async def _read(
        self,
        broker: Replica,
        queue: MessageQueue,
        at: int,
        end: int,
        found: dict[tuple[str, str], list[str]],
    ) -> None:
        for _ in range(MAX_PULLS):
            if at >= end:
                break
            ext = pull_fields(TOPIC, queue.queue_id, at, PULL_COUNT, broker=queue.broker_name)
            pulled = read_pull(await self._link.call(broker.address, RequestCode.PULL_MESSAGE, ext))
            if pulled.status is PullStatus.NO_NEW_MESSAGE:
                at = end
            elif pulled.status is PullStatus.FOUND:
                for message in decode_records(pulled.body):
                    if at <= message.queue_offset < end:
                        group, topic, text = moved(message)
                        found[group, topic].append(text)
                at = min(pulled.next_beyond(at), end)
            else:
                at = min(max(pulled.next_offset, at + 1), end)
            self._next[queue] = at


def moved(message: ReceivedMessage) -> tuple[str, str, str]:
    """Group and topic of an event, and what happened; empty for what is no event.
    [OffsetMovedEvent]"""
    try:
        event = fastjson.loads_object(message.body)
    except ProtocolError:
        return "", "", ""
    queue = values.table(event, "messageQueue")
    text = (
        f"queue {values.text(queue, 'brokerName')} {values.number(queue, 'queueId')}: asked for "
        f"{values.number(event, 'offsetRequest')}, goes on at {values.number(event, 'offsetNew')}"
    )
    return values.text(event, "consumerGroup"), values.text(queue, "topic"), text


class GroupWatcher:
    """Each group that has a retry topic, of which one broker of each name is asked."""

    name = "groups"

    def __init__(self, link: AdminLink, names: TopicNames) -> None:
        self._link = link
        self._names = names
        self._first = First()

    async def watch(self, round_: Round) -> None:
        groups = await self._names.groups(round_)
        asks_members = any(
            round_.settings.watches(m.name) for m in METRICS.values() if m.part is Part.RUNNING
        )
        round_.listed((Part.PROGRESS, Part.RUNNING), groups)

        async def one(group: str) -> None:
            brokers = await self._link.brokers_of(retry_topic(group))
            if not brokers:
                raise ClientError("no broker has its retry topic")
            waiting = await progress(self._link, group, brokers, round_)
            if asks_members:
                await running(self._link, group, brokers, waiting, round_)

        await round_.each(groups, "group", one, self._first)
