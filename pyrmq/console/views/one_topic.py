"""One topic: its queues, where it is, who consumes it, who may send to it, its settings."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.connections import ProducerInstance
from pyrmq.admin.group_lags import lag_in
from pyrmq.admin.link import Replica
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.shrinking import config_before
from pyrmq.admin.topics import QueueState
from pyrmq.console.views.asking import ask_each, together
from pyrmq.console.views.topics import rates_of, usage_of
from pyrmq.errors import PyrmqError, ResponseError
from pyrmq.model.route import TopicRoute
from pyrmq.model.topic import TopicConfig

MOST_GROUPS = 100
"""Most groups of a topic that are asked how far they are."""
MOST_PRODUCERS = 200
SECONDS = 3.0
"""For how long the groups are asked. What is not known by then stays unknown."""


@dataclass(frozen=True, slots=True)
class Consuming:
    """A group that consumes the topic, and how far it is in it. None: unknown."""

    group: str
    lag: int | None = None
    gone: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class TopicAt:
    """A topic on one broker. config: None if the broker did not say it."""

    replica: Replica
    config: TopicConfig | None


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """`groups`: the first of them; `group_count`: how many there are."""

    name: str
    route: TopicRoute
    queues: list[QueueState]
    put_tps: float
    rate_out: float | None
    groups: list[Consuming]
    group_count: int
    at: list[TopicAt]
    failed: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """Messages that are stored."""
        return sum(max(q.end - q.first, 0) for q in self.queues)

    @property
    def newest(self) -> int:
        """Store time of the newest message, ms since 1970; 0 if there is none."""
        return max((q.updated for q in self.queues), default=0)

    @property
    def own_names(self) -> set[str]:
        """The names of its brokers and clusters, for `kind_of`."""
        return {name for b in self.route.brokers for name in (b.broker_name, b.cluster)}

    @property
    def clusters(self) -> list[str]:
        return sorted({b.cluster for b in self.route.brokers})


async def topic_details(admin: Admin, name: str) -> TopicDetails:
    """Raises TopicNotExistError. Brokers that do not answer are in `failed`."""
    route = await admin.topics.route(name)
    brokers = await admin.link.brokers_of(name)
    failed: list[str] = []
    queues: list[QueueState] = []
    groups: list[str] = []
    configs: Outcomes[TopicConfig | None] = Outcomes()
    used: dict[str, tuple[float, float]] = {}
    put_tps = 0.0

    async def configured() -> None:
        configs.extend(await ask_each(admin, brokers, lambda a: config_before(admin.link, a, name)))
        failed.extend(o.problem for o in configs.failed)

    async def stored() -> None:
        nonlocal put_tps
        try:
            status = await admin.topics.status(name)
        except PyrmqError as e:
            failed.append(str(e))
            return
        queues.extend(status.queues)
        put_tps = status.put_tps
        failed.extend(o.problem for o in status.failed)

    async def busy() -> None:
        used.update(rates_of((await usage_of(admin, brokers)).values))

    async def consumed() -> None:
        try:
            asked = await admin.topics.groups(name)
        except PyrmqError as e:
            failed.append(str(e))
            return
        groups.extend(asked)
        failed.extend(o.problem for o in asked.failed)

    await together(configured, stored, busy, consumed)
    return TopicDetails(
        name,
        route,
        queues,
        put_tps,
        used[name][1] if name in used else None,
        await consuming(admin, name, groups[:MOST_GROUPS], brokers),
        len(groups),
        [TopicAt(r, o.value) for r, o in zip(brokers, configs, strict=True)],
        list(dict.fromkeys(failed)),
    )


async def consuming(
    admin: Admin, topic: str, groups: list[str], brokers: list[Replica]
) -> list[Consuming]:
    """How far groups are in a topic, those that are most behind first."""
    found = {group: Consuming(group) for group in groups}
    limit = trio.CapacityLimiter(8)

    async def one(group: str) -> None:
        async with limit:
            asked = await admin.link.on_each(
                brokers, lambda a: admin.groups.stats_of_broker(a, group, topic)
            )
        stats = asked.values
        # A broker without offsets of the group has nothing to add; one that is away has.
        if not stats or any(not isinstance(o.error, ResponseError) for o in asked.failed):
            return
        lag = lag_in(stats, topic)
        if lag.queues:
            found[group] = Consuming(group, lag.lag, lag.gone, lag.tps)

    with trio.move_on_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for group in groups:
                nursery.start_soon(one, group)
    return sorted(found.values(), key=lambda c: (-(c.lag if c.lag is not None else -1), c.group))


@dataclass(frozen=True, slots=True)
class Producing:
    """A producer that is connected to a broker."""

    group: str
    broker: str
    """The broker's name."""
    instance: ProducerInstance


@dataclass(frozen=True, slots=True)
class Producers:
    rows: list[Producing]
    count: int
    failed: list[str]


async def producers_of(admin: Admin, topic: str) -> Producers:
    """The producers that are connected to the brokers of a topic, the latest heartbeat first. Which
    topics they send to no broker knows."""
    brokers = await admin.link.brokers_of(topic)
    names = {r.address: r.broker_name for r in brokers}
    asked = await ask_each(admin, brokers, admin.producers.all)
    rows = [
        Producing(group, names[o.target], instance)
        for o in asked.done
        for group, instances in (o.value or {}).items()
        for instance in instances
    ]
    rows.sort(key=lambda p: (-p.instance.last_update, p.group, p.instance.client_id, p.broker))
    return Producers(rows[:MOST_PRODUCERS], len(rows), [o.problem for o in asked.failed])
