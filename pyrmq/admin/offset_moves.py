"""Resets of offsets with a preview: what each queue moves from and to, and whether members run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.connections import BROADCASTING
from pyrmq.admin.consume_stats import GroupProgress, is_offline
from pyrmq.admin.link import Replica
from pyrmq.admin.offsets import END, OffsetRequests, QueueReset
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.errors import ClientError, PyrmqError, TopicNotExistError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import check_group
from pyrmq.net.client.protocol import Ext

START = 0
"""As a time: the first stored message of the queue."""


@dataclass(frozen=True, slots=True)
class ResetPreview:
    """What a reset is going to do, queue by queue. `members`: the client ids of the members that
    run; None if unknown. `time_ms`: if all queues of the topic move to a time."""

    group: str
    topic: str
    queues: list[QueueReset]
    members: list[str] | None
    time_ms: int | None = None
    failed: list[Outcome[Any]] = field(default_factory=list)
    """Brokers that did not answer: their queues are missing, and do not move."""

    @property
    def skipped(self) -> int:
        return sum(q.skipped for q in self.queues)

    @property
    def repeated(self) -> int:
        return sum(q.repeated for q in self.queues)


class Offsets(OffsetRequests):
    """`admin.offsets`."""

    async def preview(
        self,
        group: str,
        topic: str,
        *,
        time_ms: int | None = None,
        offset: int | None = None,
        broker_name: str | None = None,
        queue_id: int | None = None,
    ) -> ResetPreview:
        """What `move` would do, without doing it: all queues of a topic, those of a broker name, or
        the queue of a number (on each broker, or on one), to a time (`START`, `END`) or to an
        offset. An offset outside of the queue becomes its first or next one.

        Raises ClientError if no broker has the group or no queue is meant, and if its members keep
        their offsets themselves (broadcasting); and the error of a broker if none answered."""
        check_group(group)
        if (time_ms is None) == (offset is None):
            raise ClientError("give either time_ms or offset")
        members = await self._members(group)
        await self._check_known(group)
        route = await self._link.route(topic)
        readable = {q.broker_name: q.read_queue_nums for q in route.queues}
        brokers = await self._link.brokers_of(topic)
        if broker_name is not None:
            brokers = [b for b in brokers if b.broker_name == broker_name]
            if not brokers:
                names = ", ".join(sorted(readable)) or "none"
                raise ClientError(f"topic {topic} is not on broker {broker_name}: it is on {names}")

        async def one(address: str) -> list[QueueReset]:
            name = _name_of(brokers, address)
            found = await self._queues(address, group, topic)
            numbers = [
                queue
                for queue in sorted(found)
                if queue_id in (None, queue) and queue < readable.get(name, queue + 1)
            ]
            return [
                await self._goal(address, MessageQueue(topic, name, n), *found[n], time_ms, offset)
                for n in numbers
            ]

        outcomes = await self._link.on_each(brokers, one)
        queues = [queue for part in outcomes.check().values for queue in part]
        if not queues and not outcomes.failed:
            which = "queue that can be read" if queue_id is None else f"queue {queue_id}"
            raise ClientError(f"topic {topic} has no {which}")
        whole = time_ms if broker_name is None and queue_id is None else None
        return ResetPreview(group, topic, queues, members, whole, list(outcomes.failed))

    async def move(self, plan: ResetPreview) -> Outcomes[list[QueueReset]]:
        """Moves the queues of a preview, on each broker. Members go on at the new offsets within a
        pull. Brokers that move offsets by notifying members (before 5.0, or with
        useServerSideResetOffset=false) move a group that is connected only in all queues and to a
        time; otherwise this is their ClientError."""
        names = sorted({row.queue.broker_name for row in plan.queues})
        replicas = [r for r in await self._link.brokers_of(plan.topic) if r.broker_name in names]

        async def one(address: str) -> list[QueueReset]:
            name = _name_of(replicas, address)
            rows = [row for row in plan.queues if row.queue.broker_name == name]
            if plan.time_ms is not None and not await self._moves_offsets(address):
                try:
                    await self._tell_members(address, plan)
                    return rows
                except PyrmqError as e:
                    if not is_offline(e):
                        raise
            for done, row in enumerate(rows):
                try:
                    at = (address, plan.group, plan.topic, row.queue.queue_id, row.offset)
                    await self.reset_queue(*at)
                except PyrmqError as e:
                    if not done:
                        raise
                    raise ClientError(f"{done} of {len(rows)} queues were moved: {e}") from e
            return rows

        return await self._link.on_each(replicas, one)

    async def _tell_members(self, address: str, plan: ResetPreview) -> None:
        ext: Ext = {
            "topic": plan.topic, "group": plan.group, "timestamp": plan.time_ms or START,
            "isForce": True, "queueId": -1, "offset": -1,
        }  # fmt: skip
        await self._link.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)

    async def _members(self, group: str) -> list[str] | None:
        try:
            online = await GroupProgress(self._link).connections(group)
        except PyrmqError as e:
            return [] if is_offline(e) or isinstance(e, TopicNotExistError) else None
        if online.message_model == BROADCASTING:
            raise ClientError(
                f"group {group} is broadcast to: its members keep their offsets themselves, "
                "a reset would do nothing"
            )
        return sorted(c.client_id for c in online.connections)

    async def _queues(
        self, address: str, group: str, topic: str
    ) -> dict[int, tuple[int, int, int | None]]:
        """First offset, next offset, and the group's offset of each queue on a broker."""
        answer = await self._link.ask_json(
            address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
        )
        bounds: dict[int, Mapping[Any, Any]] = {
            queue.queue_id: row
            for queue, row in values.by_queue(values.table(answer, "offsetTable"))
            if isinstance(row, dict) and queue.topic == topic
        }
        stats = await GroupProgress(self._link).stats_of_broker(address, group, topic)
        had = {q.queue.queue_id: q.consumer_offset for q in stats.queues if q.queue.topic == topic}
        return {
            queue: (
                max(values.number(row, "minOffset"), 0),
                max(values.number(row, "maxOffset"), 0),
                had.get(queue),
            )
            for queue, row in bounds.items()
        }

    async def _goal(
        self,
        address: str,
        queue: MessageQueue,
        first: int,
        end: int,
        had: int | None,
        time_ms: int | None,
        offset: int | None,
    ) -> QueueReset:
        if offset is not None:
            found = offset
        elif time_ms == START:
            found = first
        elif time_ms == END:
            found = end
        else:
            assert time_ms is not None
            found = await self.search(address, queue, time_ms)
        return QueueReset(queue, min(max(found, first), end), end, had, found, first)


def _name_of(replicas: list[Replica], address: str) -> str:
    return next(r.broker_name for r in replicas if r.address == address)
