"""Figures of how the members of a group run, as they say themselves; and what is asked once in a
round, whoever needs it: names of topics, ends of queues.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import trio

from pyrmq.admin import values
from pyrmq.admin.connections import ConsumerConnections
from pyrmq.admin.consume_stats import group_of_retry_topic, is_offline
from pyrmq.admin.groups import Groups
from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.monitoring.metrics import Part
from pyrmq.admin.monitoring.rounds import Round
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.running_info import RunningInfo, queue_problems, subscriptions_agree
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import DLQ_PREFIX, RETRY_PREFIX


class TopicNames:
    """The topics of a round, for all who want them."""

    def __init__(self, link: AdminLink) -> None:
        self._link = link
        self._lock = trio.Lock()
        self._round = 0
        self._names: set[str] = set()

    async def of(self, round_: Round) -> set[str]:
        """PyrmqError if no name server can tell; also if it knows none, as one that has just
        started: nothing is gone because of that."""
        async with self._lock:
            if self._round != round_.number:
                names = await self._link.topics()
                if not names:
                    raise ClientError("the name server knows no topic: has it just started?")
                self._names, self._round = names, round_.number
            return self._names

    async def groups(self, round_: Round) -> set[str]:
        """The groups that have a retry topic, as far as they are watched."""
        return _groups(await self.of(round_), RETRY_PREFIX, round_)

    async def dead_letters(self, round_: Round) -> set[str]:
        """The groups that have a topic of dead letters, as far as they are watched."""
        return _groups(await self.of(round_), DLQ_PREFIX, round_)


def _groups(names: set[str], prefix: str, round_: Round) -> set[str]:
    wants = round_.settings.watched.wants
    found = set()
    for name in names:
        if name.startswith(prefix):
            plain = prefix == DLQ_PREFIX
            group = name[len(prefix) :] if plain else group_of_retry_topic(name)
            if group and wants(group):
                found.add(group)
    return found


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """The offset of the next message; when the newest was stored, ms since 1970, 0 if unknown."""

    offset: int
    updated: int


async def queue_ends(link: AdminLink, topic: str) -> Outcomes[dict[MessageQueue, QueueEnd]]:
    """Of each broker name of the topic's route. TopicNotExistError. [GET_TOPIC_STATS_INFO]"""

    async def one(address: str) -> dict[MessageQueue, QueueEnd]:
        answer = await link.ask_json(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        return {
            queue: QueueEnd(
                max(values.number(row, "maxOffset"), 0), values.number(row, "lastUpdateTimestamp")
            )
            for queue, row in values.by_queue(values.table(answer, "offsetTable"))
            if isinstance(row, dict)
        }

    return await link.on_each(await link.brokers_of(topic), one)


FIRST_VERSION = 62
"""Clients that are older say nothing about themselves. [MQVersion V3_1_8_SNAPSHOT]"""
STALLED_MS = 120_000
"""For how long a queue is not pulled from, until that counts. [ProcessQueue.PULL_MAX_IDLE_TIME]"""
AT_ONCE = 8
"""Members of one group that are asked at the same time."""
MAX_SHOWN = 3
"""Queues, members or errors that a text names."""


async def running(
    link: AdminLink, group: str, brokers: Iterable[Replica], waiting: int, round_: Round
) -> None:
    """Gives a round the figures of a group for which `waiting` messages wait."""
    groups = Groups(link)
    found = await online(groups, group, brokers)
    alone = found is None and waiting > 0
    detail = f"{waiting} {'message waits' if waiting == 1 else 'messages wait'}" if alone else ""
    round_.figure("offline", int(alone), group=group, detail=detail)
    if found is None:
        round_.seen(Part.RUNNING, group)
        return
    address, members = found
    infos, failed = await _infos(groups, members, address)
    figures(group, infos, time.time_ns() // 1_000_000, round_, partial=bool(failed))
    if failed:
        round_.problem(f"group {group}", *failed)
    else:
        round_.seen(Part.RUNNING, group)


async def online(
    groups: Groups, group: str, brokers: Iterable[Replica]
) -> tuple[str, ConsumerConnections] | None:
    """The first broker that knows members of a group, and these; None if no broker knows any.
    PyrmqError if that cannot be said, as some did not answer."""
    error: PyrmqError | None = None
    for broker in brokers:
        try:
            return broker.address, await groups.connections(group, broker=broker.address)
        except PyrmqError as e:
            if not is_offline(e):
                error = e
    if error is not None:
        raise error
    return None


async def _infos(
    groups: Groups, members: ConsumerConnections, broker: str
) -> tuple[dict[str, RunningInfo], list[str]]:
    """What the members say, and which did not."""
    infos: dict[str, RunningInfo] = {}
    failed: list[str] = []
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(client_id: str) -> None:
        async with limit:
            try:
                infos[client_id] = await groups.running_info(
                    members.group, client_id, broker=broker
                )
            except PyrmqError as e:
                failed.append(f"member {client_id}: {e}")

    async with trio.open_nursery() as nursery:
        for connection in members.connections:
            if connection.version >= FIRST_VERSION:
                nursery.start_soon(one, connection.client_id)
    return infos, sorted(failed)


def figures(
    group: str, infos: Mapping[str, RunningInfo], now: int, round_: Round, *, partial: bool = False
) -> None:
    """Gives a round what the members of a group say; `now`: ms since 1970."""
    push = [info for _, info in sorted(infos.items()) if info.is_push]
    blocked = [
        f"{_queue(p.queue)} of {p.client_id}: {p.text}"
        for info in push
        for p in queue_problems(info, now)
    ]
    stalled = [
        f"{_queue(held.queue)} of {info.client_id}: no pull for {now - held.last_pull}ms"
        for info in push
        for held in info.queues
        if not held.dropped and 0 < held.last_pull < now - STALLED_MS
    ]
    for metric, texts in (("blocked_queues", blocked), ("pull_stalled", stalled)):
        detail = "; ".join(texts[:MAX_SHOWN])
        round_.figure(metric, len(texts), group=group, detail=detail, partial=partial)
    differ = not subscriptions_agree(infos, now)
    round_.figure(
        "subscriptions", int(differ), group=group, detail=_differences(infos) if differ else "",
        partial=partial,
    )  # fmt: skip
    tps: dict[str, float] = defaultdict(float)
    hour: dict[str, int] = defaultdict(int)
    for info in infos.values():
        for rates in info.rates:
            tps[rates.topic] += rates.consume_failed_tps
            hour[rates.topic] += rates.consume_failed
    for topic in tps:
        round_.figure("failed_tps", tps[topic], group=group, topic=topic, partial=partial)
        round_.figure("failed_hour", hour[topic], group=group, topic=topic, partial=partial)


def _differences(infos: Mapping[str, RunningInfo]) -> str:
    """One member of each kind of subscription."""
    kinds: dict[str, str] = {}
    for client_id, info in sorted(infos.items()):
        text = ", ".join(f"{s.topic} {s.expression}" for s in info.subscriptions) or "nothing"
        kinds.setdefault(text, client_id)
    shown = [f"{client_id}: {text[:200]}" for text, client_id in kinds.items()]
    return "; ".join(shown[:MAX_SHOWN])


def _queue(queue: object) -> str:
    return " ".join(str(getattr(queue, n)) for n in ("topic", "broker_name", "queue_id"))
