"""Resending dead letters: to the topic that they came from, or only to their group.

The resent message has the body, keys, tag, unique id, flag and own properties of the letter. Its
property PYRMQ_RESENT_FROM has the letter's id. So a later run finds it by its unique id and skips
the letter. The dead letter stays where it is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import trio

from pyrmq.admin.connections import GroupConnections
from pyrmq.admin.consume_stats import is_offline
from pyrmq.admin.dead_letters import (
    ALL,
    RESENT_FROM,
    UNKNOWN,
    DeadLetter,
    DeadLetterReads,
    Selection,
)
from pyrmq.admin.link import AT_ONCE
from pyrmq.admin.messages import UNIQUE_COUNT, QueueSlice
from pyrmq.admin.outcome import Outcome
from pyrmq.admin.resend_lock import ResendLock
from pyrmq.admin.resent_message import To as To
from pyrmq.admin.resent_message import message_of, unique_id
from pyrmq.admin.sending import producer_of
from pyrmq.errors import ClientError, PyrmqError, TopicNotExistError
from pyrmq.model.message import SendResult
from pyrmq.model.names import DLQ_PREFIX, retry_topic, takes_sends
from pyrmq.model.properties import SHARDING_KEY
from pyrmq.model.record import ReceivedMessage

if TYPE_CHECKING:
    # Imported where it is used: most commands send nothing.
    from pyrmq.client.producer.producer import Producer

AHEAD = 64
"""Letters that are checked at a time for whether they were resent already."""
INDEXED = 3.0
"""Seconds that are waited for the index, at most."""
LOOK = 0.05
"""Seconds between two looks."""
MOST_TOPICS = 1000
"""Most original topics that a preview tells apart."""


class ResentState(Enum):
    SENT = "sent"
    SKIPPED = "skipped"
    """It was resent before."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Resent:
    """What became of one letter. `result`: of the send. `before`: the message of an earlier run
    that it was skipped for. `error`: why it failed."""

    letter: DeadLetter
    state: ResentState
    target: str | None = None
    """The topic that it was sent to."""
    result: SendResult | None = None
    before: ReceivedMessage | None = None
    error: PyrmqError | None = None


@dataclass(frozen=True, slots=True)
class ResendRow:
    """The letters that came from one topic. `resent`: how many of them were resent before. `error`:
    why they cannot be resent. `groups`: other groups that consume the target, and get them too.
    `foreign`: the group itself does not consume the target. A sender can name any topic as the one
    that its message came from, also one that it may not send to."""

    topic: str
    """`UNKNOWN` for letters that do not name it."""
    target: str | None
    letters: int
    resent: int
    unclear: int
    """Letters of which a broker could not say whether they were resent."""
    error: PyrmqError | None
    groups: list[str]
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class ResendPlan:
    """What a resend is going to do: `rows`, by topic. `members`: how many members of the group run;
    None if unknown. Letters that come in later are not part of it."""

    group: str
    to: To
    selection: Selection
    parts: list[QueueSlice]
    rows: list[ResendRow]
    members: int | None
    failed: list[Outcome[Any]] = field(default_factory=list)
    """Brokers that did not answer: their letters are missing."""

    @property
    def letters(self) -> int:
        return sum(row.letters for row in self.rows)

    @property
    def to_send(self) -> int:
        """How many letters are going to be sent, unless those are sent again that were resent
        before."""
        return sum(r.letters - r.resent - r.unclear for r in self.rows if r.error is None)


@dataclass(slots=True)
class _Count:
    letters: int = 0
    resent: int = 0
    unclear: int = 0


class DeadLetters(DeadLetterReads):
    """`admin.dead_letters`."""

    async def resent(self, letter: DeadLetter) -> list[ReceivedMessage]:
        """The messages that earlier resends made of a letter, in its topic or the retry topic of
        its group. They are found by their unique id in the brokers' index, so as long as they are
        stored. Raises the error of a broker that could not be asked."""
        found: list[ReceivedMessage] = []
        key = unique_id(letter)
        for topic in (letter.topic, retry_topic(letter.group)):
            if not topic:
                continue
            try:
                copies = await self._messages.indexed(topic, key)
            except TopicNotExistError:
                continue
            mine = [m for m in copies if m.properties.get(RESENT_FROM) == letter.id]
            if not mine and copies.failed:
                error = copies.failed[0].error
                assert error is not None
                raise error
            if not mine and len(copies) >= UNIQUE_COUNT:
                raise ClientError(f"topic {topic} has too many messages with the id {key}")
            found += mine
        return found

    async def preview(self, group: str, to: To, selection: Selection = ALL) -> ResendPlan:
        """What `resend` would do with the selected letters, without doing it. Raises ClientError if
        the group has no dead letters, and the error of a broker if none answered."""
        parts = await self.parts(group, selection)
        if parts.failed and not parts:
            error = parts.failed[0].error
            assert error is not None
            raise error
        failed = list(parts.failed)
        counts: dict[str, _Count] = {}
        done, total = 0, sum(part.end - part.begin for part in parts)
        for part in parts:
            try:
                async with aclosing(self._checked(group, part, selection)) as letters:
                    async for letter, before in letters:
                        _count(counts, letter, before)
                        self._link.progress("dead letters", done := done + 1, total)
            except PyrmqError as e:
                failed.append(Outcome(part.queue.broker_name, error=e))
        rows = [await self._row(group, to, topic, count) for topic, count in sorted(counts.items())]
        members = await self._members(group)
        return ResendPlan(group, to, selection, list(parts), rows, members, failed)

    async def _checked(
        self, group: str, part: QueueSlice, selection: Selection, *, again: bool = False
    ) -> AsyncGenerator[tuple[DeadLetter, list[ReceivedMessage] | PyrmqError], None]:
        """Each letter with the messages that were made of it before, or why that is unknown."""
        async with aclosing(self._of_part(group, part, selection)) as letters:
            waiting: list[DeadLetter] = []
            async for letter in letters:
                waiting.append(letter)
                if len(waiting) == AHEAD:
                    for one in await self._looked_up(waiting, again):
                        yield one
                    waiting = []
            for one in await self._looked_up(waiting, again):
                yield one

    async def _looked_up(
        self, letters: list[DeadLetter], again: bool
    ) -> list[tuple[DeadLetter, list[ReceivedMessage] | PyrmqError]]:
        found: list[list[ReceivedMessage] | PyrmqError] = [[] for _ in letters]
        if again:
            return list(zip(letters, found, strict=True))
        waiting = iter(enumerate(letters))

        async def lane() -> None:
            for at, letter in waiting:
                try:
                    found[at] = await self.resent(letter)
                except PyrmqError as e:
                    found[at] = e

        async with trio.open_nursery() as nursery:
            for _ in range(min(AT_ONCE, len(letters))):
                nursery.start_soon(lane)
        return list(zip(letters, found, strict=True))

    async def _row(self, group: str, to: To, topic: str, count: _Count) -> ResendRow:
        target, groups, foreign, error = None, list[str](), False, None
        try:
            target = await self._target(group, to, topic)
            if to is To.TOPIC:
                known = await self._topics.groups(target)
                groups = [g for g in known if g != group]
                foreign = group not in known and not known.failed
        except PyrmqError as e:
            error = e
        return ResendRow(
            topic, target, count.letters, count.resent, count.unclear,
            error if target is None else None, groups, foreign,
        )  # fmt: skip

    async def _target(self, group: str, to: To, topic: str) -> str:
        """The topic that letters are sent to. Raises ClientError if that cannot be."""
        if to is To.GROUP:
            target = retry_topic(group)
            try:
                await self._link.route(target)
            except TopicNotExistError as e:
                raise ClientError(
                    f"group {group} has no topic {target}: create the group "
                    f"(pyrmq admin group create -c CLUSTER {group}) and start a member, or resend "
                    "to the topic"
                ) from e
            return target
        if topic == UNKNOWN:
            raise ClientError("the letter does not name its topic: resend it to the group")
        if not takes_sends(topic) or topic.startswith(DLQ_PREFIX):
            raise ClientError(f"it came from {topic}, which takes no messages of clients")
        try:
            await self._link.route(topic)
        except TopicNotExistError as e:
            missing = f" ({e.hint})" if "missing" in e.hint else ""
            raise ClientError(
                f"topic {topic} does not exist{missing}: create it (pyrmq admin topic create "
                f"{topic} -c CLUSTER), or resend to the group"
            ) from e
        return topic

    async def _members(self, group: str) -> int | None:
        try:
            return len((await GroupConnections(self._link).connections(group)).connections)
        except PyrmqError as e:
            return 0 if is_offline(e) or isinstance(e, TopicNotExistError) else None

    async def resend(
        self, plan: ResendPlan, *, again: bool = False
    ) -> AsyncGenerator[Resent, None]:
        """Resends the letters of a plan, queue by queue in their order, and says of each what
        became of it. A letter that cannot be sent does not stop the others. Letters that were
        resent before are skipped, unless `again`. Each is sent once, without retries: a
        RequestTimeoutError means that the broker may have it, and the next run looks. A queue whose
        letters another run resends raises ClientError, behind the letters of the others.

        After the letters of the other brokers it raises the error of one whose letters could not be
        read. Close it if you stop before the end (`contextlib.aclosing`)."""
        error: PyrmqError | None = None
        targets: dict[str, str | PyrmqError] = {}
        async with producer_of(self._link, retry_times=0) as producer:
            for part in plan.parts:
                lock = ResendLock(self._link, part.queue)
                last: Resent | None = None
                try:
                    async with (
                        lock.held(),
                        aclosing(
                            self._checked(plan.group, part, plan.selection, again=again)
                        ) as found,
                    ):
                        async for letter, before in found:
                            topic = letter.topic or UNKNOWN
                            if topic not in targets and len(targets) < MOST_TOPICS:
                                targets[topic] = await self._known_target(plan, topic)
                            target = targets.get(topic) or await self._known_target(plan, topic)
                            await lock.keep()
                            one = await self._one(producer, plan, letter, target, before)
                            last = one if one.state is ResentState.SENT else last
                            yield one
                        if last is not None:
                            await self._indexed(last.letter)
                except PyrmqError as e:
                    error = error or e
        if error is not None:
            raise error

    async def _indexed(self, letter: DeadLetter) -> None:
        """Waits until the index has a letter that was sent: it is a moment behind, and the next run
        looks there. Not for long, as a broker may index nothing."""
        with trio.move_on_after(INDEXED):
            while True:
                with suppress(PyrmqError):
                    if await self.resent(letter):
                        return
                await trio.sleep(LOOK)

    async def _known_target(self, plan: ResendPlan, topic: str) -> str | PyrmqError:
        try:
            return await self._target(plan.group, plan.to, topic)
        except PyrmqError as e:
            return e

    async def _one(
        self,
        producer: Producer,
        plan: ResendPlan,
        letter: DeadLetter,
        target: str | PyrmqError,
        before: list[ReceivedMessage] | PyrmqError,
    ) -> Resent:
        if isinstance(before, PyrmqError):
            error = ClientError(f"it is not known whether it was resent already: {before}")
            return Resent(letter, ResentState.FAILED, error=error)
        if before:
            return Resent(letter, ResentState.SKIPPED, before[-1].topic, before=before[-1])
        if isinstance(target, PyrmqError):
            return Resent(letter, ResentState.FAILED, error=target)
        try:
            message = message_of(letter, target, plan.to)
            sharding_key = message.properties.pop(SHARDING_KEY, None)
            result = await producer.send(message, sharding_key=sharding_key)
            if plan.to is To.GROUP:
                await self._check_alive(letter, result)
        except PyrmqError as e:
            return Resent(letter, ResentState.FAILED, target, error=e)
        return Resent(letter, ResentState.SENT, target, result)

    async def _check_alive(self, letter: DeadLetter, result: SendResult) -> None:
        """Raises ClientError if the broker made a resent message a dead letter at once, as it does
        for groups that hold locks of queues. [SendMessageProcessor.handleRetryAndDLQ]"""
        try:
            stored = await self._messages.by_offset_id(result.offset_msg_id)
        except PyrmqError:
            return
        if stored.topic.startswith(DLQ_PREFIX):
            raise ClientError(
                f"the broker made it a dead letter again ({result.offset_msg_id}): members of "
                f"group {letter.group} consume in order; resend it to the topic"
            )


def _count(
    counts: dict[str, _Count], letter: DeadLetter, before: list[ReceivedMessage] | PyrmqError
) -> None:
    topic = letter.topic or UNKNOWN
    if topic not in counts and len(counts) >= MOST_TOPICS:
        raise ClientError(f"letters of more than {MOST_TOPICS} topics: select some of them")
    count = counts.setdefault(topic, _Count())
    count.letters += 1
    if isinstance(before, PyrmqError):
        count.unclear += 1
    elif before:
        count.resent += 1
