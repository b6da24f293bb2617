"""Progress of consumer groups: offsets, lag and rates of each queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.connections import BROADCASTING, ConsumerConnections, GroupConnections, offline
from pyrmq.admin.link import Replica
from pyrmq.admin.outcome import Outcome, Partial
from pyrmq.admin.running_info import GroupRunning, RunningInfo
from pyrmq.errors import ClientError, PyrmqError, ResponseError, TopicNotExistError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import LMQ_PREFIX, RETRY_PREFIX, retry_topic

TIMEOUT = 15.0
"""Seconds for a broker to answer. [getConsumeStats: 3 times timeoutMillis]"""
MOST_TOPICS = 64
"""Most topics of a group for which a broker is asked for the first offsets."""
WHEEL_TIMER = "rmq_sys_wheel_timer"


class BroadcastingError(ClientError):
    """A broadcasting group has no offsets at brokers. [BROADCAST_CONSUMPTION]"""


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of a group in one queue. [OffsetWrapper]"""

    queue: MessageQueue
    broker_offset: int
    """The next offset of the queue."""
    consumer_offset: int
    """The committed offset of the group."""
    pull_offset: int
    """The offset of its next expected pull."""
    last_timestamp: int
    """Store time of the last consumed message, ms since 1970; 0 if unknown."""
    min_offset: int | None = None
    """The first stored offset; None if the broker did not say."""

    @property
    def diff(self) -> int:
        """Messages that are not consumed, including those that are `gone`, as RocketMQ counts
        them."""
        return self.broker_offset - self.consumer_offset

    @property
    def gone(self) -> int | None:
        """Messages that were deleted before they were consumed; None if unknown."""
        if self.min_offset is None:
            return None
        return max(min(self.min_offset, self.broker_offset) - self.consumer_offset, 0)

    @property
    def inflight(self) -> int:
        """Messages that are pulled and not yet consumed."""
        return self.pull_offset - self.consumer_offset

    @classmethod
    def from_json(cls, queue: MessageQueue, row: Mapping[Any, Any]) -> QueueProgress:
        consumed = max(values.number(row, "consumerOffset"), 0)
        return cls(
            queue,
            values.number(row, "brokerOffset"),
            consumed,
            max(values.number(row, "pullOffset"), consumed),
            values.number(row, "lastTimestamp"),
            max(values.number(row, "minOffset"), 0) if "minOffset" in row else None,
        )


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """How far behind in time a group is in one queue. [QueueTimeSpan]"""

    queue: MessageQueue
    first: int
    """Store time of the first stored message, ms since 1970; 0 or less if there is none."""
    last: int
    """The same of the last one."""
    consumed: int
    """The same of the last one that the group has consumed."""
    behind_ms: int
    """How long ago the first message that is not consumed was stored; 0 if there is none."""

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> QueueTimes:
        return cls(
            MessageQueue.from_json(values.table(value, "messageQueue")),
            values.number(value, "minTimeStamp"),
            values.number(value, "maxTimeStamp"),
            values.number(value, "consumeTimeStamp"),
            max(values.number(value, "delayTime"), 0),
        )


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """The progress of a group in its topics. [ConsumeStats]"""

    group: str
    queues: list[QueueProgress]
    """By topic, broker and queue."""
    tps: float
    failed: list[Outcome[Any]]
    """Brokers that did not answer: their queues are missing here."""
    deleted_unread: int = 0
    """Messages of all topics that were deleted before the group consumed them, since the brokers'
    start. Apache's brokers do not count them."""

    @property
    def diff(self) -> int:
        """Messages that are not consumed, including those that are `gone`."""
        return sum(q.diff for q in self.queues)

    @property
    def gone(self) -> int:
        """Messages that were deleted before they were consumed, in the queues for which that is
        known."""
        return sum(q.gone or 0 for q in self.queues)

    @property
    def inflight(self) -> int:
        return sum(q.inflight for q in self.queues)


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group in one line. Missing values: `stats` of a group that has consumed nothing, `online`
    of one without members."""

    group: str
    stats: ConsumeStats | None
    online: ConsumerConnections | None
    failed: list[PyrmqError]
    """Servers that could not be asked."""


def group_of_retry_topic(topic: str) -> str:
    """The group in a retry topic's name; for `%RETRY%g+t`, the second form of POP's, `g`."""
    return topic[len(RETRY_PREFIX) :].partition("+")[0]


def stands_for_route(topic: str) -> bool:
    """Whether another topic's route is used for a topic."""
    return topic.startswith(LMQ_PREFIX) or topic == WHEEL_TIMER


class GroupProgress(GroupConnections, GroupRunning):
    """The part of `admin.groups` that shows the progress of groups."""

    async def consume_stats(
        self,
        group: str,
        topic: str | None = None,
        *,
        cluster: str | None = None,
        timeout: float | None = None,
    ) -> ConsumeStats:
        """How far a group is, in one topic or in all that it consumes. `cluster`: the topic whose
        route stands in for a `%LMQ%` topic's. Queues of static topics are the physical ones.
        `timeout`: seconds for a broker to answer.

        A group without offsets is CONSUMER_NOT_ONLINE if it has no members, and
        BroadcastingError if its members keep their offsets themselves. [GET_CONSUME_STATS]
        """
        brokers = await self._brokers(group, topic, cluster)
        found = await self._link.on_each(
            brokers, lambda address: self._stats_of(address, group, topic, timeout)
        )
        found.check()
        queues = sorted((q for stats in found.values for q in stats.queues), key=lambda q: q.queue)
        if not queues:
            await self._why_empty(group)
        tps = sum(stats.tps for stats in found.values)
        deleted = sum(stats.deleted_unread for stats in found.values)
        return ConsumeStats(group, queues, tps, list(found.failed), deleted)

    async def stats_of_broker(
        self, broker: str, group: str, topic: str | None = None
    ) -> ConsumeStats:
        """The progress of a group on one broker."""
        return await self._stats_of(broker, group, topic)

    async def _stats_of(
        self, address: str, group: str, topic: str | None, timeout: float | None = None
    ) -> ConsumeStats:
        answer = await self._link.ask_json(
            address,
            RequestCode.GET_CONSUME_STATS,
            {"consumerGroup": group, **({"topic": topic} if topic else {})},
            timeout=self._link.patience(TIMEOUT) if timeout is None else timeout,
        )
        rows = values.by_queue(values.table(answer, "offsetTable"))
        queues = [QueueProgress.from_json(q, row) for q, row in rows if isinstance(row, dict)]
        queues = await self._with_beginnings(address, queues)
        deleted = max(values.number(answer, "deletedUnread"), 0)
        return ConsumeStats(group, queues, values.real(answer, "consumeTps"), [], deleted)

    async def _with_beginnings(
        self, address: str, queues: list[QueueProgress]
    ) -> list[QueueProgress]:
        """The same with where queues begin, of a broker that does not say it with the progress, as
        Apache's. [GET_TOPIC_STATS_INFO]"""
        topics = sorted({q.queue.topic for q in queues if q.min_offset is None and q.diff > 0})
        begins: dict[MessageQueue, int] = {}
        for topic in topics[:MOST_TOPICS]:
            try:
                answer = await self._link.ask_json(
                    address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
                )
                for queue, row in values.by_queue(values.table(answer, "offsetTable")):
                    if isinstance(row, dict):
                        begins[queue] = max(values.number(row, "minOffset"), 0)
            except PyrmqError:  # the progress is known without it
                break
        return [replace(q, min_offset=begins.get(q.queue, q.min_offset)) for q in queues]

    async def _brokers(self, group: str, topic: str | None, cluster: str | None) -> list[Replica]:
        """The brokers of the first of these topics that has a route."""
        names = [retry_topic(group)]
        if topic:
            names += [topic, f"{retry_topic(group)}_{topic}"]
            if cluster and stands_for_route(topic):
                names.append(cluster)
        error: PyrmqError | None = None
        for name in names:
            try:
                return await self._link.brokers_of(name)
            except PyrmqError as e:
                error = e
        assert error is not None
        if isinstance(error, TopicNotExistError):
            error.hint = f"no consumer of group {group} has been here, or the name is another"
        raise error

    async def _why_empty(self, group: str) -> None:
        try:
            online = await self.connections(group)
        except PyrmqError:
            raise offline(group) from None
        if online.message_model == BROADCASTING:
            raise BroadcastingError(
                f"group {group} is broadcast to: its members keep their offsets themselves"
            )

    async def summaries(self, also: Iterable[str] = ()) -> AsyncIterator[GroupSummary]:
        """Each group with a retry topic, and the named ones, by name: its progress and its
        connected members. The first form of POP's retry topics names no group; such names are
        skipped."""
        names = await self._link.topics()
        groups = {group_of_retry_topic(t) for t in names if t.startswith(RETRY_PREFIX)}
        named = set(also)
        groups |= named
        for done, group in enumerate(sorted(groups)):
            self._link.progress("groups", done, len(groups))
            stats = online = None
            failed: list[PyrmqError] = []
            try:
                stats = await self.consume_stats(group)
                failed += [o.error for o in stats.failed if o.error is not None]
            except ResponseError:
                pass  # it has consumed nothing, or is broadcast to
            except PyrmqError as e:
                failed.append(e)
            try:
                online = await self.connections(group)
            except ResponseError:
                pass  # it is offline
            except PyrmqError as e:
                failed.append(e)
            told = stats or online or failed or group in named
            if not told and is_pop_name(group, names, groups):
                continue
            yield GroupSummary(group, stats, online, failed)

    async def times(self, group: str, topic: str) -> Partial[QueueTimes]:
        """How far behind in time a group is in each queue of a topic. Raises TopicNotExistError,
        and the error of a broker if none answered. [QUERY_CONSUME_TIME_SPAN]"""

        async def one(address: str) -> list[QueueTimes]:
            answer = await self._link.ask_json(
                address, RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group}
            )
            rows = values.objects(answer, "consumeTimeSpanSet")
            return [QueueTimes.from_json(row) for row in rows]

        asked = await self._link.on_each(await self._link.brokers_of(topic), one)
        rows = [row for rows in asked.check().values for row in rows]
        return Partial(sorted(rows, key=lambda row: row.queue), asked.failed)

    async def queue_owners(self, group: str) -> dict[MessageQueue, str]:
        """The client id of the member that has each queue, without members that do not answer."""
        found: dict[MessageQueue, str] = {}
        try:
            online = await self.connections(group)
        except PyrmqError:
            return found
        for connection in online.connections:
            try:
                info: RunningInfo = await self.running_info(group, connection.client_id)
            except PyrmqError:
                continue
            found.update((held.queue, connection.client_id) for held in info.queues)
        return found


def is_offline(error: BaseException) -> bool:
    """Whether an error says that a group has no members."""
    return isinstance(error, ResponseError) and error.code == ResponseCode.CONSUMER_NOT_ONLINE


def is_pop_name(name: str, topics: Collection[str], groups: Collection[str]) -> bool:
    """Whether a name is that of a group, `_` and that of a topic: the first form of POP's retry
    topics."""
    parts = name.split("_")
    return any(
        "_".join(parts[:at]) in groups and "_".join(parts[at:]) in topics
        for at in range(1, len(parts))
    )
