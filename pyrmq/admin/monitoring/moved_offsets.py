"""Watches OFFSET_MOVED_EVENT: pulls from where messages are deleted already."""

from __future__ import annotations

from collections import defaultdict

from pyrmq.admin import values
from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.monitoring.metrics import Part
from pyrmq.admin.monitoring.queue_ends import queue_ends
from pyrmq.admin.monitoring.rounds import Round, causes
from pyrmq.errors import ProtocolError, TopicNotExistError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.record import ReceivedMessage, decode_records
from pyrmq.net import fastjson
from pyrmq.net.client.pull import PullStatus, pull_fields, read_pull

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
