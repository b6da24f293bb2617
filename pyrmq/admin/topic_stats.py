"""How busy topics are, and how consumers would share their queues."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field

from pyrmq.admin import values
from pyrmq.admin.consume_stats import GroupProgress
from pyrmq.admin.link import Part, Replica
from pyrmq.admin.outcome import Partial
from pyrmq.errors import ConfigError, PyrmqError, ResponseError, TopicNotExistError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX
from pyrmq.model.route import MASTER_ID
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
