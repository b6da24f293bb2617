"""Consumer groups in a list: all names and how far each is; members only of the rows shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.connections import BROADCASTING, ConsumerConnections
from pyrmq.admin.consume_stats import group_of_retry_topic, is_offline, is_pop_name
from pyrmq.admin.group_lags import GroupLag, lag_in, lags_of
from pyrmq.admin.outcome import Outcomes
from pyrmq.console.views.asking import ask_each, together
from pyrmq.console.views.cache import kept
from pyrmq.errors import NotFoundError, PyrmqError, ResponseError
from pyrmq.model.codes import version_name
from pyrmq.model.names import RETRY_PREFIX, is_system_group

SECONDS = 2.0
"""For how long the rows of a page are asked for their members. What is unknown by then stays so."""
AT_ONCE = 8
MOST_UNTOUCHED = 8
FULL_LISTS = 20_000
"""Up to so many groups the brokers are asked how far all are. Beyond, only those of the page."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in one line. None: unknown. `lag`: messages that it has not consumed; None also of a
    group that has no offsets."""

    name: str
    system: bool = False
    paused: bool = False
    """Whether a broker does not let it consume."""
    lag: int | None = None
    gone: int | None = None
    rate: float | None = None
    topics: frozenset[str] = frozenset()
    members: int | None = None
    consume_type: str = ""
    message_model: str = ""
    lowest_version: str = ""
    differ: bool = False
    """Whether members subscribe differently, as far as the broker says it: pyrmq's does."""


@dataclass(frozen=True, slots=True)
class GroupList:
    """All groups, by name. `no_lags`: why the brokers did not tell how far all groups are, so that
    the list cannot be sorted by it; empty if they did. `failed`: texts about brokers that did not
    answer."""

    rows: list[GroupRow]
    no_lags: str = ""
    failed: list[str] = field(default_factory=list)


async def group_list(admin: Admin) -> GroupList:
    """All groups that have a configuration or a retry topic, as of a few seconds ago. Raises the
    error of the name servers if none answers."""
    return await kept(admin, "groups", partial(_ask, admin))


async def group_names(admin: Admin) -> list[str]:
    """The names of all groups, as of a few seconds ago."""
    return [row.name for row in (await group_list(admin)).rows]


async def _ask(admin: Admin) -> GroupList:
    topics = await admin.link.topics()
    told: Outcomes[dict[str, bool]] = Outcomes()
    lags: Outcomes[dict[str, GroupLag]] = Outcomes()
    brokers = await admin.link.one_of_each()

    async def configured() -> None:
        told.extend(await ask_each(admin, brokers, admin.groups.enabled_at))

    crowded = sum(t.startswith(RETRY_PREFIX) for t in topics) > FULL_LISTS

    async def behind() -> None:
        if not crowded:
            lags.extend(await ask_each(admin, brokers, partial(lags_of, admin.link)))

    await together(configured, behind)
    names = {name for table in told.values for name in table}
    paused = {name for table in told.values for name, may in table.items() if not may}
    refused = [o for o in lags.failed if isinstance(o.error, ResponseError)]
    failed = [o.problem for o in told.failed]
    failed += [o.problem for o in lags.failed if o not in refused]
    rows = rows_of(named(topics, names), paused, added(lags.values))
    why = ""
    if refused:
        why = refused[0].problem
    elif crowded:
        why = f"there are more than {FULL_LISTS} groups"
    elif not lags.done:
        why = "no broker answered"
    return GroupList(rows, why, list(dict.fromkeys(failed)))


def named(topics: Iterable[str], configured: Iterable[str]) -> list[str]:
    """The names of groups: those of retry topics, and those that have a configuration. The first
    form of POP's retry topics names no group."""
    all_topics, known = set(topics), set(configured)
    guessed = {group_of_retry_topic(t) for t in all_topics if t.startswith(RETRY_PREFIX)}
    groups = guessed | known
    return sorted(g for g in groups if g and (g in known or not is_pop_name(g, all_topics, groups)))


def rows_of(
    names: Iterable[str], paused: Collection[str], lags: Mapping[str, GroupLag]
) -> list[GroupRow]:
    def row(name: str) -> GroupRow:
        at = GroupRow(name, is_system_group(name), name in paused)
        return with_lag(at, lags[name]) if name in lags else at

    return [row(name) for name in names]


def with_lag(row: GroupRow, lag: GroupLag) -> GroupRow:
    return replace(row, lag=lag.lag, gone=lag.gone, rate=lag.tps, topics=lag.topics)


def added(parts: Iterable[Mapping[str, GroupLag]]) -> dict[str, GroupLag]:
    """The groups of several brokers."""
    found: dict[str, GroupLag] = {}
    for part in parts:
        for group, lag in part.items():
            found[group] = found[group] + lag if group in found else lag
    return found


async def with_members(admin: Admin, rows: Iterable[GroupRow], *, lags: bool) -> list[GroupRow]:
    """Rows with what only a request for each group tells: its members and, with `lags`, how far it
    is."""
    found = list(rows)
    limit = trio.CapacityLimiter(AT_ONCE)
    brokers = [r.address for r in await admin.link.one_of_each()]

    async def one(at: int, row: GroupRow) -> None:
        async with limit:
            if lags:
                with suppress(PyrmqError):
                    found[at] = row = with_lag(row, await lag_of(admin, brokers, row.name))
            online, told = await members_at(admin, brokers, row.name)
            if online is None:
                found[at] = replace(row, members=0 if told else None)
                return
            found[at] = row = replace(
                row,
                members=len(online.connections),
                consume_type=online.consume_type,
                message_model=online.message_model,
                lowest_version=version_name(online.lowest_version),
                differ=any(c.subscriptions is not None for c in online.connections),
            )
            for topic in untouched(online, row.topics):
                with suppress(PyrmqError):
                    more = await lag_of(admin, brokers, row.name, topic)
                    found[at] = row = with_lag(row, _lag_of_row(row) + more)

    with trio.move_on_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for at, row in enumerate(found):
                nursery.start_soon(one, at, row)
    return found


async def members_at(
    admin: Admin, brokers: Iterable[str], group: str
) -> tuple[ConsumerConnections | None, bool]:
    """The members of a group from the first broker that has any; and whether it is known: without
    members, whether all brokers answered."""
    told = True
    for address in brokers:
        try:
            found = await admin.groups.connections(group, broker=address)
        except PyrmqError as e:
            told = told and is_offline(e)
            continue
        if found.connections:
            return found, True
    return None, told


def untouched(online: ConsumerConnections, topics: Collection[str]) -> list[str]:
    """The topics that members want and in which the group has no offsets yet: those that tell of
    all its topics leave them out. The first of them."""
    if online.message_model == BROADCASTING:
        return []
    wanted = (s.topic for s in online.subscriptions)
    return [t for t in wanted if t not in topics and not t.startswith(RETRY_PREFIX)][
        :MOST_UNTOUCHED
    ]


def _lag_of_row(row: GroupRow) -> GroupLag:
    return GroupLag(row.lag or 0, row.gone, row.rate or 0.0, 0, row.topics)


async def lag_of(
    admin: Admin, brokers: Iterable[str], group: str, topic: str | None = None
) -> GroupLag:
    """How far one group is, in all topics in which it has offsets, or in one. Raises the error of a
    broker if none answered, and NotFoundError if there are no queues."""
    asked = await admin.link.on_each(
        list(brokers), lambda address: admin.groups.stats_of_broker(address, group, topic)
    )
    found = lag_in(asked.check().values)
    if not found.queues:
        raise NotFoundError(f"group {group} has no offsets")
    return found
