"""What groups made of a message: copies in retry topics and dead letters, and their offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import trio

from pyrmq.admin.connections import ConsumerConnections
from pyrmq.admin.consume_stats import BroadcastingError, GroupProgress, QueueProgress, is_offline
from pyrmq.admin.life_facts import Fact, What
from pyrmq.admin.link import AdminLink, Part
from pyrmq.admin.messages import Messages
from pyrmq.admin.outcome import Outcome
from pyrmq.admin.topics import TopicStats
from pyrmq.errors import PyrmqError, TopicNotExistError
from pyrmq.model.names import DLQ_PREFIX, is_system_topic, retry_topic
from pyrmq.model.pop import retry_topic_v1, retry_topic_v2
from pyrmq.model.record import ReceivedMessage

MOST_TOPICS = 2000
"""Most topics that are searched for a message whose topic is not said."""
MOST_GROUPS = 128
"""Most groups that are asked about a message."""
LANES = 4
"""Topics or groups that are asked about at the same time."""
CONSUMED = (What.CONSUMED, What.FAILED)
T = TypeVar("T")


@dataclass(slots=True)
class Life:
    """What is known of one message.

    trace_topic: the topic whose traces were read. facts: by time; those that have no time last.
    unknown: what cannot be known, and why. failed: brokers that did not answer: their facts are
    missing.
    """

    message_id: str
    topic: str | None
    trace_topic: str
    facts: list[Fact] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    failed: list[Outcome[Any]] = field(default_factory=list)

    def fail(self, more: Iterable[Outcome[Any]]) -> None:
        """Notes brokers that did not answer, each once."""
        known = {o.problem for o in self.failed}
        for outcome in more:
            if outcome.problem not in known:
                known.add(outcome.problem)
                self.failed.append(outcome)


@dataclass(slots=True)
class _Reach:
    """How far a group is in the queue of a message."""

    queue: QueueProgress | None = None
    online: ConsumerConnections | None = None
    why: str = ""
    """Why its offset is unknown."""


class GroupLives(Part):
    """The part of `admin.lives` that asks about groups."""

    def __init__(self, link: AdminLink) -> None:
        super().__init__(link)
        self._messages = Messages(link)
        self._topics = TopicStats(link)

    async def _query(
        self, life: Life, topic: str, key: str, *, unique: bool = True
    ) -> list[ReceivedMessage]:
        try:
            found = await self._messages.indexed(topic, key, unique=unique)
        except TopicNotExistError:
            return []
        except PyrmqError as e:
            life.fail([Outcome("", error=e)])
            return []
        life.fail(found.failed)
        return list(found)

    async def _each(self, items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
        waiting = iter(items)

        async def lane() -> None:
            for item in waiting:
                await work(item)

        async with trio.open_nursery() as nursery:
            for _ in range(LANES):
                nursery.start_soon(lane)

    async def _groups(self, life: Life) -> list[str]:
        """The groups that may have got it."""
        traced = {str(f.detail.get("group")) for f in life.facts if f.what in CONSUMED}
        found = {group for group in traced if group and group != "None"}
        if life.topic is not None and not is_system_topic(life.topic):
            try:
                known = await self._topics.groups(life.topic)
                found |= set(known)
                life.fail(known.failed)
            except TopicNotExistError:
                life.unknown.append(f"which groups consume topic {life.topic}: it does not exist")
            except PyrmqError as e:
                life.fail([Outcome("", error=e)])
        if len(found) > MOST_GROUPS:
            life.unknown.append(f"what {len(found) - MOST_GROUPS} more groups made of it")
        return sorted(found)[:MOST_GROUPS]

    async def _brought_back(
        self, life: Life, message_id: str, groups: list[str]
    ) -> list[tuple[str, ReceivedMessage]]:
        """The copies in retry topics and dead letters of groups, also of those that consume the
        topic no more."""
        names = await self._link.topics()
        wanted = {
            name: group
            for group in groups
            for name in (
                retry_topic(group),
                retry_topic_v1(life.topic or "", group),
                retry_topic_v2(life.topic or "", group),
            )
            if name in names
        }
        dead = sorted(t for t in names if t.startswith(DLQ_PREFIX))
        if len(dead) > MOST_TOPICS:
            dead = [DLQ_PREFIX + g for g in groups if DLQ_PREFIX + g in names]
            life.unknown.append("whether it is a dead letter of a group that has left the topic")
        wanted |= {name: name[len(DLQ_PREFIX) :] for name in dead}
        found: list[tuple[str, ReceivedMessage]] = []

        async def look(item: tuple[str, str]) -> None:
            name, group = item
            found.extend((group, m) for m in await self._query(life, name, message_id))

        await self._each(wanted.items(), look)
        for group in {group for group, m in found if m.topic.startswith(DLQ_PREFIX)}:
            name = retry_topic(group)
            if name in names and name not in wanted:
                await look((name, group))
        return found

    async def _reached(
        self,
        life: Life,
        groups: list[str],
        home: list[ReceivedMessage],
        back: list[tuple[str, ReceivedMessage]],
    ) -> None:
        """Whether the offsets of groups are beyond it, and beyond its last retries."""
        rows: dict[str, list[_Reach]] = {}
        retries = {
            group: max(
                (m for g, m in back if g == group and m.topic == retry_topic(group)),
                key=lambda m: (m.reconsume_times, m.store_timestamp),
                default=None,
            )
            for group in {group for group, _ in back}
        }

        async def look(group: str) -> None:
            rows[group] = await self._reach(group, home) if home else []
            if (last := retries.get(group)) is not None:
                rows[group] += await self._reach(group, [last])

        await self._each(sorted({*groups, *retries}), look)
        came_back = Counter(group for group, m in back if m.reconsume_times)
        for group, reaches in sorted(rows.items()):
            for message, reach in zip(home, reaches, strict=False):
                if reach.queue is None:
                    life.unknown.append(f"whether group {group} has consumed it: {reach.why}")
                    break
                life.facts.append(
                    _offset_fact(group, message, reach, len(home) > 1, came_back[group])
                )
            last = retries.get(group)
            dead = any(g == group and m.topic.startswith(DLQ_PREFIX) for g, m in back)
            if last is not None and not dead and reaches[-1].queue is not None:
                life.facts.append(_retry_fact(group, last, reaches[-1].queue))
        if home and not groups:
            life.unknown.append("who consumed it: no group has offsets in its topic")

    async def _reach(self, group: str, home: list[ReceivedMessage]) -> list[_Reach]:
        progress = GroupProgress(self._link)
        online: ConsumerConnections | None = None
        with suppress(PyrmqError):  # its offsets say more
            online = await progress.connections(group)
        try:
            stats = await progress.consume_stats(group, home[0].topic)
        except BroadcastingError:
            why = "its members keep their offsets themselves (broadcasting)"
            return [_Reach(why=why)] * len(home)
        except PyrmqError as e:
            why = "it has no offsets, and no members run" if is_offline(e) else str(e)
            return [_Reach(why=why)] * len(home)
        at = {(q.queue.broker_name, q.queue.queue_id): q for q in stats.queues}
        missing = next((f"{o.target} does not answer" for o in stats.failed), "")
        why = missing or "it has no offset in its queue"
        return [_Reach(at.get((m.broker_name, m.queue_id)), online, why) for m in home]


def _retry_fact(group: str, last: ReceivedMessage, queue: QueueProgress) -> Fact:
    """What became of the last retry."""
    beyond = queue.consumer_offset > last.queue_offset
    which = f"retry {last.reconsume_times}" if last.reconsume_times else "what was resent to it"
    text = f"group {group} " + (
        f"is beyond {which} (consumed or skipped), and it did not come back since"
        if beyond
        else f"has not reached {which}"
    )
    detail = {
        "group": group,
        "retry": last.reconsume_times,
        "offset": queue.consumer_offset,
        "beyond": beyond,
    }
    source = f"offsets of group {group} in {last.topic}"
    return Fact(What.OFFSET, 0, text, source, detail)


def _offset_fact(
    group: str, message: ReceivedMessage, reach: _Reach, several: bool, came_back: int
) -> Fact:
    queue = reach.queue
    assert queue is not None
    beyond = queue.consumer_offset > message.queue_offset
    wanted = True
    for subscribed in reach.online.subscriptions if reach.online else ():
        if subscribed.topic == message.topic and subscribed.tags:
            wanted = bool(subscribed.tags & {"*", message.tags})
    if beyond:
        became = "consumed or skipped" if wanted else "filtered out by its tag"
        if came_back:
            became = "it came back once" if came_back == 1 else f"it came back {came_back} times"
        text = f"group {group} is beyond it ({became}): it continues at {queue.consumer_offset}"
    else:
        before = message.queue_offset - queue.consumer_offset
        many = f"{before} messages are" if before > 1 else "1 message is"
        text = f"group {group} has not reached it: " + (
            f"{many} before it" if before else "it is the next one"
        )
    if several:
        text += f"; queue {message.queue_id}, offset {message.queue_offset}"
    members = len(reach.online.connections) if reach.online else 0
    running = {0: "no member runs", 1: "1 member runs"}
    text += f"; {running.get(members, f'{members} members run')}"
    detail = {
        "group": group,
        "offset": queue.consumer_offset,
        "beyond": beyond,
        "wanted": wanted,
        "cameBack": came_back,
        "members": members,
    }
    return Fact(What.OFFSET, 0, text, f"offsets of group {group}", detail)
