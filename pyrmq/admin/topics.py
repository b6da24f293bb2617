"""Topics: names, routes, sizes, how busy they are, how consumers would share their queues."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.consume_stats import GroupProgress
from pyrmq.admin.link import Part, Replica
from pyrmq.admin.outcome import Outcome, Partial
from pyrmq.admin.topic_changes import TopicChanges
from pyrmq.errors import ConfigError, PyrmqError, ResponseError, TopicNotExistError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from pyrmq.model.route import MASTER_ID, TopicRoute
from pyrmq.model.topic import as_int
from pyrmq.net import fastjson

PUT_NUMS = "TOPIC_PUT_NUMS"
GET_NUMS = "GROUP_GET_NUMS"


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages a second in the last minute, and messages of a day, as far as brokers count them."""

    tps: float = 0.0
    day: int = 0


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """A topic and one of the groups that consume it; `group` is None if there is none."""

    topic: str
    group: str | None
    put: Flow
    got: Flow = Flow()
    accumulation: int = 0
    """Messages that the group has not consumed."""
    failed: builtins.list[PyrmqError] = field(default_factory=list)
    """Servers that did not answer: their part is missing here."""
    answered: bool = True
    """Whether any server answered."""

    @property
    def active(self) -> bool:
        """Whether there were messages today."""
        return self.put.day > 0 or self.got.day > 0


def allocate(
    queues: Sequence[MessageQueue], consumers: Sequence[str]
) -> dict[str, builtins.list[MessageQueue]]:
    """Shares queues among consumers, in the given order of these: evenly, with consecutive
    queues. Raises ConfigError without a consumer, or if one is named twice.
    [AllocateMessageQueueAveragely]"""
    if not consumers or not all(consumers):
        raise ConfigError("at least one consumer is needed, and none without a name")
    for n, name in enumerate(consumers):
        if name in consumers[:n]:
            raise ConfigError(f"consumer {name} is named twice")
    ordered = sorted(queues, key=lambda q: (q.topic, q.broker_name, q.queue_id))
    share, more = divmod(len(ordered), len(consumers))
    found = {}
    start = 0
    for n, name in enumerate(consumers):
        end = start + share + (n < more)
        found[name] = ordered[start:end]
        start = end
    return found


def _each_once(errors: Iterable[PyrmqError]) -> builtins.list[PyrmqError]:
    """Of errors with the same text the first."""
    return builtins.list({str(e): e for e in errors}.values())


class TopicStats(Part):
    """The part of `admin.topics` that shows consumers of topics and their rates."""

    async def groups(self, topic: str) -> Partial[str]:
        """The groups that consume a topic, or have offsets in it, by name. Raises the error of a
        broker if none answered. [QUERY_TOPIC_CONSUME_BY_WHO]"""
        brokers = await self._link.brokers_of(topic)
        asked = (await self._link.on_each(brokers, lambda a: self._groups_at(a, topic))).check()
        return Partial(sorted(set().union(*asked.values)), asked.failed)

    async def _groups_at(self, address: str, topic: str) -> set[str]:
        answer = await self._link.ask(
            address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}
        )
        groups = fastjson.loads_object(answer.body).get("groupList")
        return {str(g) for g in groups} if isinstance(groups, builtins.list) else set()

    async def allocation(
        self, topic: str, consumers: Sequence[str]
    ) -> dict[str, builtins.list[MessageQueue]]:
        """How consumers would share the readable queues of a topic. Raises TopicNotExistError, and
        ConfigError as `allocate`."""
        route = await self._link.route(topic)
        return allocate(route.subscribe_queues(topic), consumers)

    async def flows(self, topic: str | None = None) -> AsyncIterator[TopicFlow]:
        """Each topic with each of its groups, without retry and dead-letter topics, by name; or one
        topic. Raises TopicNotExistError if it does not exist. [VIEW_BROKER_STATS_DATA]"""
        if topic is not None:
            for row in await self._flows_of(topic):
                yield row
            return
        topics = sorted(await self._link.topics())
        for done, name in enumerate(topics):
            self._link.progress("topics", done, len(topics))
            if name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                continue
            try:
                rows = await self._flows_of(name)
            except TopicNotExistError:  # no broker has it any more
                continue
            for row in rows:
                yield row

    async def _flows_of(self, topic: str) -> builtins.list[TopicFlow]:
        brokers = await self._link.brokers_of(topic)
        masters = [r for r in brokers if r.broker_id == MASTER_ID]
        failed: builtins.list[PyrmqError] = []
        put = await self._flow(masters, PUT_NUMS, topic, failed)
        asked = await self._link.on_each(brokers, lambda a: self._groups_at(a, topic))
        failed += [o.error for o in asked.failed if o.error is not None]
        groups: set[str] = set().union(*asked.values)
        answered = bool(asked.done) or not brokers
        if not groups:
            return [TopicFlow(topic, None, put, failed=_each_once(failed), answered=answered)]
        rows = []
        for group in sorted(groups):
            missing = builtins.list(failed)
            got = await self._flow(masters, GET_NUMS, f"{topic}@{group}", missing)
            behind = await self._accumulation(brokers, group, topic, missing)
            rows.append(TopicFlow(topic, group, put, got, behind, _each_once(missing)))
        return rows

    async def _flow(
        self,
        masters: Sequence[Replica],
        name: str,
        key: str,
        failed: builtins.list[PyrmqError],
    ) -> Flow:
        async def one(address: str) -> Flow:
            try:
                stats = await self._link.ask_json(
                    address,
                    RequestCode.VIEW_BROKER_STATS_DATA,
                    {"statsName": name, "statsKey": key},
                )
            except ResponseError:  # nothing came yet
                return Flow()
            windows = [values.table(stats, f"stats{w}") for w in ("Day", "Hour", "Minute")]
            sums = [values.number(w, "sum") for w in windows]
            return Flow(values.real(windows[-1], "tps"), next((s for s in sums if s), 0))

        found = await self._link.on_each(masters, one)
        failed += [o.error for o in found.failed if o.error is not None]
        return Flow(sum(f.tps for f in found.values), sum(f.day for f in found.values))

    async def _accumulation(
        self,
        brokers: Sequence[Replica],
        group: str,
        topic: str,
        failed: builtins.list[PyrmqError],
    ) -> int:
        progress = GroupProgress(self._link)

        async def one(address: str) -> int:
            try:
                return (await progress.stats_of_broker(address, group, topic)).diff
            except ResponseError:  # the broker does not know the group
                return 0

        found = await self._link.on_each(brokers, one)
        failed += [o.error for o in found.failed if o.error is not None]
        return max(sum(found.values), 0)


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """A topic, its cluster, and the groups that have consumed it."""

    cluster: str
    topic: str
    groups: list[str]
    failed: list[PyrmqError] = field(default_factory=list)
    """Servers that did not answer: groups that only they know are missing."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The offsets of a queue, from `first` to before `end`. `updated`: the store time of its newest
    message, ms since 1970; 0 if there is none."""

    queue: MessageQueue
    first: int
    end: int
    updated: int


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """The queues of a topic, by broker and number. `put_tps`: messages a second, as brokers count
    them (0 if they do not)."""

    queues: builtins.list[QueueState]
    put_tps: float
    failed: builtins.list[Outcome[Any]] = field(default_factory=list)
    """Brokers that did not answer: their queues are missing."""


class Topics(TopicChanges, TopicStats):
    """`admin.topics`."""

    async def list(self) -> builtins.list[str]:
        """The names of all topics, sorted, including retry and system topics."""
        return sorted(await self._link.topics())

    async def system(self) -> set[str]:
        """The topics of brokers and name servers themselves: those that a name server reports, and
        those known by name. [GET_SYSTEM_TOPIC_LIST_FROM_NS]"""
        answer = await self._link.ask_name_server(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        found = fastjson.loads_object(answer.body).get("topicList")
        told = {str(t) for t in found} if isinstance(found, builtins.list) else set()
        return told | {t for t in await self._link.topics() if is_system_topic(t)}

    async def with_groups(self) -> AsyncIterator[TopicGroups]:
        """Each topic with its groups, without retry and dead-letter topics, by cluster and name."""
        topics = await self.list()
        for done, topic in enumerate(topics):
            self._link.progress("topics", done, len(topics))
            if topic.startswith(("%RETRY%", "%DLQ%")):
                continue
            cluster = ""
            groups: builtins.list[str] = []
            failed: builtins.list[PyrmqError] = []
            try:
                brokers = await self._link.brokers_of(topic)
                if brokers:
                    cluster = brokers[0].cluster
                    groups = found = await self.groups(topic)
                    failed = [o.error for o in found.failed if o.error is not None]
            except ResponseError:  # a topic may go while it is looked at
                pass
            except PyrmqError as e:
                failed = [e]
            yield TopicGroups(cluster, topic, groups, failed)

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic. Raises TopicNotExistError."""
        return await self._link.route(topic)

    async def clusters(self, topic: str) -> builtins.list[str]:
        """The clusters of a topic. Raises TopicNotExistError."""
        return sorted({b.cluster for b in (await self._link.route(topic)).brokers})

    async def status(self, topic: str) -> TopicStatus:
        """The offsets of the queues of a topic, on all its brokers. Raises TopicNotExistError, and
        the error of a broker if none answered."""
        found: builtins.list[QueueState] = []
        tps = 0.0

        async def ask(address: str) -> dict[Any, Any]:
            return await self._link.ask_json(
                address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
            )

        outcomes = await self._link.on_each(await self._link.brokers_of(topic), ask)
        for answer in outcomes.check().values:
            rate = answer.get("topicPutTps")
            tps += rate if isinstance(rate, int | float) else 0.0
            table = answer.get("offsetTable")
            for key, value in table.items() if isinstance(table, dict) else ():
                place = dict(key) if isinstance(key, tuple) else key
                if isinstance(place, dict) and isinstance(value, dict):
                    found.append(
                        QueueState(
                            MessageQueue.from_json(place),
                            max(as_int(value.get("minOffset"), 0), 0),
                            max(as_int(value.get("maxOffset"), 0), 0),
                            as_int(value.get("lastUpdateTimestamp"), 0),
                        )
                    )
        found.sort(key=lambda s: (s.queue.topic, s.queue.broker_name, s.queue.queue_id))
        return TopicStatus(found, tps, outcomes.failed)
