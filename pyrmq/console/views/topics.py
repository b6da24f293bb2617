"""Topics in a list: what all brokers have configured, and how busy they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from pyrmq.admin.api import Admin
from pyrmq.admin.broker_tables import all_topics
from pyrmq.admin.link import Replica
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.usage import MAX_ROWS, BrokerUsage
from pyrmq.console.views.asking import ask_each, together
from pyrmq.console.views.cache import kept
from pyrmq.model.names import DLQ_PREFIX, LMQ_PREFIX, RETRY_PREFIX, is_system_topic
from pyrmq.model.topic import TopicConfig

KINDS = ("user", "retry", "dead letter", "lmq", "system")
REPLY = "_REPLY_TOPIC"
"""Ends the topic of a cluster for the answers to requests."""
RATE_SECONDS = 60
"""The span that rates are averages of."""
SYSTEM_PREFIX = "RMQ_SYS_"
"""Begins names of topics of Apache's brokers, besides those that model.names knows."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in one line. A missing number (None) is unknown: no broker that was asked has a
    configuration of the topic, or none counts."""

    name: str
    kind: str
    """One of KINDS."""
    brokers: tuple[str, ...] = ()
    read_queues: int | None = None
    """Of all brokers together."""
    write_queues: int | None = None
    perm: int | None = None
    """None also if brokers differ."""
    message_type: str = ""
    order: bool = False
    differs: bool = False
    """Whether brokers have different configurations of the topic."""
    rate_in: float | None = None
    """Messages a second."""
    rate_out: float | None = None


@dataclass(frozen=True, slots=True)
class TopicList:
    """All topics, by name. `failed`: texts about brokers that did not answer. `rated`: whether
    there are rates: Apache's brokers do not tell them of all topics at once."""

    rows: list[TopicRow]
    failed: list[str]
    rated: bool


def kind_of(topic: str, own: Collection[str] = ()) -> str:
    """Which of KINDS a topic is, by its name. own: names of clusters and brokers, which are topics
    of the system as well."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dead letter"
    if topic.startswith(LMQ_PREFIX):
        return "lmq"
    system = is_system_topic(topic) or topic.startswith(SYSTEM_PREFIX) or topic in own
    return "system" if system or topic.removesuffix(REPLY) in own else "user"


async def topic_list(admin: Admin) -> TopicList:
    """All topics of all brokers and name servers, as of a few seconds ago. Raises the error of the
    name servers if none answers."""
    return await kept(admin, "topics", partial(_ask, admin))


async def _ask(admin: Admin) -> TopicList:
    link = admin.link
    named = await link.topics()
    brokers = await link.one_of_each()
    names = {r.address: r.broker_name for r in brokers}
    tables: Outcomes[dict[str, TopicConfig]] = Outcomes()
    used: Outcomes[BrokerUsage] = Outcomes()

    async def configured() -> None:
        tables.extend(await ask_each(admin, brokers, partial(all_topics, link)))

    async def busy() -> None:
        used.extend(await usage_of(admin, brokers))

    await together(configured, busy)
    by_topic: dict[str, list[tuple[str, TopicConfig]]] = {name: [] for name in named}
    for outcome in tables.done:
        for topic, config in (outcome.value or {}).items():
            by_topic.setdefault(topic, []).append((names[outcome.target], config))
    rates = rates_of(used.values)
    own = {name for r in brokers for name in (r.broker_name, r.cluster) if name}
    rows = [
        topic_row(name, found, rates.get(name, (0.0, 0.0)) if used.done else None, own)
        for name, found in sorted(by_topic.items())
    ]
    return TopicList(rows, [o.problem for o in tables.failed], bool(used.done))


async def usage_of(admin: Admin, brokers: Iterable[Replica]) -> Outcomes[BrokerUsage]:
    """How busy topics are, of the brokers that count it: pyrmq's."""

    async def one(address: str) -> BrokerUsage:
        return await admin.usage.top_of(
            address, "topic", seconds=RATE_SECONDS, sort="messages", limit=MAX_ROWS
        )

    return await ask_each(admin, brokers, one)


def rates_of(used: Iterable[BrokerUsage]) -> dict[str, tuple[float, float]]:
    """Messages a second by topic, in and out. A topic without a row had no messages."""
    found: dict[str, tuple[float, float]] = {}
    for part in used:
        for name, _, figures in part.rows:
            second = figures.in_a_second(part.seconds)
            had = found.get(name, (0.0, 0.0))
            found[name] = had[0] + second.messages_in, had[1] + second.messages_out
    return found


def topic_row(
    name: str,
    found: Iterable[tuple[str, TopicConfig]],
    rates: tuple[float, float] | None = None,
    own: Collection[str] = (),
) -> TopicRow:
    """The line of a topic. found: each broker that has it, and its configuration there. `own` as of
    `kind_of`."""
    at = sorted(found, key=lambda item: item[0])
    rate_in, rate_out = rates or (None, None)
    kind = kind_of(name, own)
    if not at:
        return TopicRow(name, kind, rate_in=rate_in, rate_out=rate_out)
    configs = [config for _, config in at]
    perms = {c.perm for c in configs}
    return TopicRow(
        name,
        kind,
        tuple(broker for broker, _ in at),
        sum(c.read_queue_nums for c in configs),
        sum(c.write_queue_nums for c in configs),
        configs[0].perm if len(perms) == 1 else None,
        configs[0].message_type,
        any(c.order for c in configs),
        differ(configs),
        rate_in,
        rate_out,
    )


def differ(configs: Iterable[TopicConfig]) -> bool:
    """Whether brokers have different configurations of one topic. Numbers of queues may differ:
    each broker has its own."""
    seen = {(c.perm, c.order, c.message_type, _text(c.attributes)) for c in configs}
    return len(seen) > 1


def _text(attributes: Mapping[str, str]) -> str:
    return repr(sorted((str(k), str(v)) for k, v in attributes.items()))


def perm_text(perm: int | None) -> str:
    """A permission as RocketMQ writes it: `RW`, `R-`, `-W`, `--`."""
    if perm is None:
        return "differs"
    return ("R" if perm & 4 else "-") + ("W" if perm & 2 else "-")
