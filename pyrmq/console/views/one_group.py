"""One group: how far it is by topic and queue, its members, its settings at each broker."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.connections import Connection, ConsumerConnections
from pyrmq.admin.consume_stats import (
    BroadcastingError,
    ConsumeStats,
    QueueProgress,
    QueueTimes,
    is_offline,
)
from pyrmq.admin.groups import GroupAt
from pyrmq.console.views.asking import SECONDS, ask_each, together
from pyrmq.console.views.groups import group_names, untouched
from pyrmq.errors import ClientError, NotFoundError, PyrmqError, TopicNotExistError
from pyrmq.model.message import MessageQueue
from pyrmq.model.names import RETRY_PREFIX, check_group

MOST_TIMED = 16
"""Most topics of a group for which brokers are asked how far behind in time it is."""
MOST_QUEUES = 2000
"""Most queues on a page."""


@dataclass(frozen=True, slots=True)
class QueueLag:
    """A group in one queue. behind_ms: how long ago the first message that it has not consumed was
    stored; 0 if there is none, None if unknown."""

    progress: QueueProgress
    behind_ms: int | None = None


def _longest(times: Iterable[int | None]) -> int | None:
    """0 if nothing is behind; None if nothing of what is behind is known."""
    every = list(times)
    return max((t for t in every if t is not None), default=None) if every else 0


@dataclass(frozen=True, slots=True)
class TopicLag:
    """A group in one topic."""

    topic: str
    queues: list[QueueLag]

    @property
    def lag(self) -> int:
        return sum(q.progress.diff for q in self.queues)

    @property
    def gone(self) -> int:
        return sum(q.progress.gone or 0 for q in self.queues)

    @property
    def inflight(self) -> int:
        return sum(q.progress.inflight for q in self.queues)

    @property
    def behind_ms(self) -> int | None:
        """Of the queue that is most behind; None if it is unknown of all that have a lag."""
        return _longest(q.behind_ms for q in self.queues if q.progress.diff > 0)

    @property
    def retried(self) -> bool:
        return self.topic.startswith(RETRY_PREFIX)


@dataclass(frozen=True, slots=True)
class GroupNow:
    """How far a group is. `why_empty`: why there are no topics, if there are none. `online`: the
    members; None if there are none. `members_known`: whether that is known."""

    name: str
    topics: list[TopicLag]
    rate: float
    deleted_unread: int
    why_empty: str
    online: ConsumerConnections | None
    members_known: bool
    failed: list[str] = field(default_factory=list)

    @property
    def lag(self) -> int:
        return sum(t.lag for t in self.topics)

    @property
    def gone(self) -> int:
        return sum(t.gone for t in self.topics)

    @property
    def behind_ms(self) -> int | None:
        return _longest(t.behind_ms for t in self.topics if t.lag > 0)

    @property
    def connections(self) -> list[Connection]:
        return self.online.connections if self.online else []

    @property
    def differences(self) -> list[Difference]:
        """The topics that members want differently, as far as the broker says it: pyrmq's does."""
        stated = {c.client_id: c.subscriptions for c in self.connections if c.subscriptions}
        return differences(stated)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The configuration of a group at each broker that has it."""

    at: list[GroupAt]
    failed: list[str] = field(default_factory=list)

    @property
    def clusters(self) -> list[str]:
        return sorted({at.cluster for at in self.at})

    @property
    def paused(self) -> bool:
        """Whether no broker lets the group consume."""
        return bool(self.at) and not any(at.config.consume_enable for at in self.at)

    @property
    def partly_paused(self) -> bool:
        """Whether only some brokers let it."""
        return len({at.config.consume_enable for at in self.at}) > 1

    @property
    def rows(self) -> list[tuple[str, list[str], bool]]:
        """The settings by their names in JSON: the value at each broker, and whether they
        differ."""
        every = [at.config.members() for at in self.at]
        found = []
        for name in every[0] if every else ():
            shown = [_shown(members[name]) for members in every]
            found.append((name, shown, len(set(shown)) > 1))
        return found


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return str(value)


@dataclass(frozen=True, slots=True)
class Difference:
    """A topic that members want differently. `wanted`: the members by what they want; an empty
    expression: they do not want the topic."""

    topic: str
    wanted: dict[str, list[str]]


async def group_now(admin: Admin, name: str) -> GroupNow:
    """How far a group is, and its members. What cannot be told is in `failed`."""
    check_group(name)
    failed: list[str] = []
    queues: list[QueueProgress] = []
    connected: list[ConsumerConnections] = []
    members_known = True
    rate, deleted, why = 0.0, 0, ""

    async def members() -> None:
        nonlocal members_known
        try:
            connected.append(await admin.groups.connections(name))
        except PyrmqError as e:
            if not _is_unknown(e):
                members_known = False
                failed.append(str(e))

    async def progress() -> None:
        nonlocal rate, deleted, why
        try:
            stats = await _stats(admin, name)
        except BroadcastingError as e:
            why = str(e)
        except PyrmqError as e:
            if not _is_unknown(e):
                failed.append(str(e))
        else:
            failed.extend(o.problem for o in stats.failed)
            rate, deleted = stats.tps, stats.deleted_unread
            queues.extend(stats.queues)

    await together(members, progress)
    online = connected[0] if connected else None
    if online is not None:
        for topic in untouched(online, {q.queue.topic for q in queues}):
            with suppress(PyrmqError):
                more = await admin.groups.consume_stats(name, topic, timeout=SECONDS)
                queues.extend(more.queues)
    topics = by_topic(queues, await times_of(admin, name, queues))
    if not topics and not why:
        why = "The group has no offsets at brokers: it has consumed nothing yet."
        if failed:
            why = "How far the group is, is not known: see above."
    once = list(dict.fromkeys(failed))
    return GroupNow(name, topics, rate, deleted, why, online, members_known, once)


async def _stats(admin: Admin, name: str) -> ConsumeStats:
    """How far a group is. All brokers are asked about one without a retry topic: an operator may
    have given it offsets before it had a member."""
    try:
        return await admin.groups.consume_stats(name, timeout=SECONDS)
    except TopicNotExistError:
        brokers = await admin.link.one_of_each()
    asked = await ask_each(admin, brokers, lambda a: admin.groups.stats_of_broker(a, name))
    found = asked.check().values
    return ConsumeStats(
        name,
        sorted((q for stats in found for q in stats.queues), key=lambda q: q.queue),
        sum(stats.tps for stats in found),
        asked.failed,
        sum(stats.deleted_unread for stats in found),
    )


async def group_page(admin: Admin, name: str) -> tuple[GroupNow, GroupSettings]:
    """Both of a group that is there. Raises NotFoundError, and InvalidParameterError for a name
    that no group can have."""
    check_group(name)
    found: list[GroupNow] = []
    settings: list[GroupSettings] = []

    async def now() -> None:
        found.append(await group_now(admin, name))

    async def configured() -> None:
        settings.append(await group_settings(admin, name))

    await together(now, configured)
    await check_known(admin, found[0], settings[0])
    return found[0], settings[0]


async def group_settings(admin: Admin, name: str) -> GroupSettings:
    try:
        outcomes = await admin.groups.configs(name)
    except PyrmqError as e:
        return GroupSettings([], [str(e)])
    found = [at for at in outcomes.values if at is not None]
    return GroupSettings(
        sorted(found, key=lambda at: at.broker_name), [o.problem for o in outcomes.failed]
    )


async def check_known(admin: Admin, now: GroupNow, settings: GroupSettings) -> None:
    """Raises NotFoundError if nobody knows the group, and ClientError if no broker could tell."""
    if settings.at or now.online is not None or now.topics:
        return
    if now.name in await group_names(admin):
        return
    failed = [*now.failed, *settings.failed]
    if failed:
        raise ClientError("; ".join(dict.fromkeys(failed)))
    raise NotFoundError(f"no broker has group {now.name}")


def _is_unknown(error: PyrmqError) -> bool:
    """Whether it says that the group has no members, or no offsets, or has never been there."""
    return is_offline(error) or isinstance(error, TopicNotExistError)


async def times_of(
    admin: Admin, group: str, queues: Iterable[QueueProgress]
) -> dict[MessageQueue, QueueTimes]:
    """How far behind in time a group is, in the topics in which it is behind at all. Brokers that
    cannot tell are left out."""
    late: dict[str, int] = {}
    for row in queues:
        if row.diff > 0:
            late[row.queue.topic] = late.get(row.queue.topic, 0) + row.diff
    first = sorted(late, key=lambda topic: -late[topic])[:MOST_TIMED]
    found: dict[MessageQueue, QueueTimes] = {}
    limit = trio.CapacityLimiter(4)

    async def one(topic: str) -> None:
        async with limit:
            try:
                rows = await admin.groups.times(group, topic)
            except PyrmqError:
                return
            found.update((row.queue, row) for row in rows)

    with trio.move_on_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for topic in first:
                nursery.start_soon(one, topic)
    return found


def by_topic(
    queues: Iterable[QueueProgress], times: Mapping[MessageQueue, QueueTimes]
) -> list[TopicLag]:
    """The queues by topic: the topics with the largest lag first, the group's retry topic last."""
    found: dict[str, list[QueueLag]] = defaultdict(list)
    for row in queues:
        behind: int | None = 0
        if row.diff > 0:
            behind = times[row.queue].behind_ms if row.queue in times else None
        found[row.queue.topic].append(QueueLag(row, behind))
    topics = [TopicLag(topic, rows) for topic, rows in found.items()]
    return sorted(topics, key=lambda t: (t.retried, -t.lag, t.topic))


def differences(members: Mapping[str, Mapping[str, str]]) -> list[Difference]:
    """The topics that members want differently. members: the expressions of each client id, by
    topic."""
    found = []
    for topic in sorted({topic for wanted in members.values() for topic in wanted}):
        by_wish: dict[str, list[str]] = defaultdict(list)
        for client in sorted(members):
            by_wish[members[client].get(topic, "")].append(client)
        if len(by_wish) > 1:
            found.append(Difference(topic, dict(sorted(by_wish.items()))))
    return found
