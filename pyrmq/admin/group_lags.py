"""How far all groups of a broker are: for each the sum of what the broker tells by queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyrmq.admin import values
from pyrmq.admin.consume_stats import ConsumeStats
from pyrmq.admin.link import AdminLink
from pyrmq.model.codes import RequestCode

TIMEOUT = 15.0
"""Seconds for a broker to answer."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group in all its topics. lag: messages that are not consumed, as RocketMQ counts them.
    gone: those of them that are deleted; None if a broker does not say it. tps: messages a second
    that it consumes."""

    lag: int = 0
    gone: int | None = 0
    tps: float = 0.0
    queues: int = 0
    topics: frozenset[str] = frozenset()

    def __add__(self, other: Self) -> GroupLag:
        known = self.gone is not None and other.gone is not None
        return GroupLag(
            self.lag + other.lag,
            (self.gone or 0) + (other.gone or 0) if known else None,
            self.tps + other.tps,
            self.queues + other.queues,
            self.topics | other.topics,
        )


def lag_in(parts: Iterable[ConsumeStats], topic: str | None = None) -> GroupLag:
    """One group, by what several brokers tell of it; in all topics, or in one. `queues` is 0 if it
    has no offsets there."""
    stats = list(parts)
    rows = [q for part in stats for q in part.queues if topic in (None, q.queue.topic)]
    return GroupLag(
        sum(q.diff for q in rows),
        None if any(q.gone is None for q in rows) else sum(q.gone or 0 for q in rows),
        sum(part.tps for part in stats),
        len(rows),
        frozenset(q.queue.topic for q in rows),
    )


async def lags_of(link: AdminLink, address: str) -> dict[str, GroupLag]:
    """Those of one broker. [GET_BROKER_CONSUME_STATS]"""
    answer = await link.ask_json(
        address,
        RequestCode.GET_BROKER_CONSUME_STATS,
        {"isOrder": False},
        timeout=link.patience(TIMEOUT),
    )
    return lags_from_json(answer)


def lags_from_json(answer: Mapping[Any, Any]) -> dict[str, GroupLag]:
    """The groups of a ConsumeStatsList; rows of the wrong type are left out."""
    found: dict[str, GroupLag] = {}
    for groups in values.objects(answer, "consumeStatsList"):
        for group in groups:
            for stats in values.objects(groups, group):
                one = _sum(values.table(stats, "offsetTable"), values.real(stats, "consumeTps"))
                name = str(group)
                found[name] = found[name] + one if name in found else one
    return found


def _sum(table: Mapping[Any, Any], tps: float) -> GroupLag:
    lag = queues = 0
    gone: int | None = 0
    topics = set()
    for place, row in values.by_queue(table):
        if not isinstance(row, dict):
            continue
        end, consumed = values.number(row, "brokerOffset"), values.number(row, "consumerOffset")
        consumed = max(consumed, 0)
        lag += end - consumed
        queues += 1
        topics.add(place.topic)
        if "minOffset" not in row:
            gone = None
        elif gone is not None:
            gone += max(min(values.number(row, "minOffset"), end) - consumed, 0)
    return GroupLag(lag, gone, tps, queues, frozenset(topics))
