"""Dead letters: which groups have them, and what they are. [%DLQ% topics]

A message becomes a dead letter of a group when the group has not consumed it. `resend.py` brings
dead letters back.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field

from pyrmq.admin.link import AdminLink, Part
from pyrmq.admin.messages import Messages, QueueSlice
from pyrmq.admin.outcome import Outcome, Partial
from pyrmq.admin.topics import QueueState, Topics
from pyrmq.errors import ClientError, NoPermissionError, PyrmqError, TopicNotExistError
from pyrmq.model.names import DLQ_PREFIX, check_group
from pyrmq.model.record import ReceivedMessage

RESENT_FROM = "PYRMQ_RESENT_FROM"
"""Property of a message that was resent: the offset id of its dead letter. It says on later runs
that the letter was resent already."""
SAMPLE = 64
"""Newest dead letters of each queue that are read for the original topics of a group."""
_ORIGINS = ("DLQ_ORIGIN_TOPIC", "RETRY_TOPIC")
_ORIGIN_IDS = ("DLQ_ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_ID")
UNKNOWN = ""
"""The original topic of letters that do not name it."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter of a group. `message` is the letter as it is stored in the %DLQ% topic."""

    group: str
    message: ReceivedMessage

    @property
    def id(self) -> str:
        """The offset id of the letter. No other message has it."""
        return self.message.offset_msg_id

    @property
    def topic(self) -> str | None:
        """The topic that the message was sent to; None if the letter does not name it."""
        return self._first(_ORIGINS)

    @property
    def origin_id(self) -> str | None:
        """The id of the first message: its offset id, or its unique id from an orderly consumer."""
        return self._first(_ORIGIN_IDS)

    @property
    def resent_from(self) -> str | None:
        """The id of an older dead letter, if this one is a resent message that died again."""
        return self.message.properties.get(RESENT_FROM)

    def _first(self, names: Iterable[str]) -> str | None:
        found = (self.message.properties.get(name) for name in names)
        return next((value for value in found if value), None)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters are meant. Each value that is given must hold; without any, all are meant.

    begin, end: they became dead letters from this time on, before that time; ms since 1970.
    key: they have this key. topic: they came from this topic. ids: any of the ids of the letter or
    of its original message.
    """

    begin: int | None = None
    end: int | None = None
    key: str | None = None
    topic: str | None = None
    ids: frozenset[str] = frozenset()

    @property
    def filters(self) -> bool:
        """Whether letters have to be read to know if they are meant."""
        return bool(self.key or self.topic or self.ids)

    @property
    def is_all(self) -> bool:
        return not self.filters and self.begin is None and self.end is None

    def wants(self, letter: DeadLetter) -> bool:
        """Whether a letter is meant, as far as its store time is in the range."""
        message = letter.message
        own = {message.msg_id.upper(), letter.id.upper(), (letter.origin_id or "").upper()}
        return (
            (self.key is None or self.key in message.keys)
            and (self.topic is None or self.topic == letter.topic)
            and (not self.ids or any(name.upper() in own for name in self.ids))
        )


ALL = Selection()


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """The dead letters of one group. Times are store times in ms since 1970; 0 if unknown.

    topics: how many of the letters that were read came from each topic (`UNKNOWN`: not named).
    sampled: how many were read: all, or the newest of each queue.
    """

    group: str
    count: int
    oldest: int
    newest: int
    topics: dict[str, int]
    sampled: int
    brokers: list[str]
    failed: list[PyrmqError] = field(default_factory=list)
    """Brokers that did not answer: their part is missing here."""


class DeadLetterReads(Part):
    """The part of `admin.dead_letters` that finds letters."""

    def __init__(self, link: AdminLink) -> None:
        super().__init__(link)
        self._messages = Messages(link)
        self._topics = Topics(link)

    async def groups(
        self, group: str | None = None, *, sample: int = SAMPLE
    ) -> AsyncGenerator[DeadLetterGroup, None]:
        """Each group that has dead letters, by name, or one group. `sample`: how many letters of
        each queue are read, the newest, for their original topics."""
        names = sorted(t for t in await self._link.topics() if t.startswith(DLQ_PREFIX))
        if group is not None:
            check_group(group)
            names = [name for name in names if name == DLQ_PREFIX + group]
        for done, name in enumerate(names):
            self._link.progress("groups", done, len(names))
            found = await self._group(name, sample)
            if found is not None:
                yield found

    async def _group(self, topic: str, sample: int) -> DeadLetterGroup | None:
        group = topic[len(DLQ_PREFIX) :]
        try:
            status = await self._topics.status(topic)
        except TopicNotExistError:  # it may go while it is looked at
            return None
        except PyrmqError as e:
            return DeadLetterGroup(group, 0, 0, 0, {}, 0, [], [e])
        queues = [q for q in status.queues if q.end > q.first]
        failed = [o.error for o in status.failed if o.error is not None]
        if not queues and not failed:
            return None
        topics: Counter[str] = Counter()
        oldest: list[int] = []
        for state in queues:
            try:
                if (first := await self._first(state)) is not None:
                    oldest.append(first.store_timestamp)
                part = QueueSlice(state.queue, max(state.end - sample, state.first), state.end)
                async with aclosing(self._messages.read(part)) as found:
                    async for message in found:
                        topics[DeadLetter(group, message).topic or UNKNOWN] += 1
            except PyrmqError as e:
                failed.append(_explained(e, topic))
        return DeadLetterGroup(
            group,
            sum(q.end - q.first for q in queues),
            min(oldest, default=0),
            max((q.updated for q in queues), default=0),
            dict(topics.most_common()),
            topics.total(),
            sorted({q.queue.broker_name for q in queues}),
            failed,
        )

    async def _first(self, state: QueueState) -> ReceivedMessage | None:
        part = QueueSlice(state.queue, state.first, state.first + 1)
        async with aclosing(self._messages.read(part)) as found:
            async for message in found:
                return message
        return None

    async def find(
        self, group: str, selection: Selection = ALL, *, limit: int = 32, newest: bool = True
    ) -> Partial[DeadLetter]:
        """The `newest` dead letters of a group that are selected, or the oldest, by store time; at
        most `limit` of each queue are kept. Raises ClientError if the group has no dead letters,
        and the error of a broker if none answered."""
        parts = await self.parts(group, selection)
        failed = list(parts.failed)
        found: list[DeadLetter] = []
        for part in parts:
            begin = part.begin
            if newest and not selection.filters:
                begin = max(begin, part.end - limit)
            kept: deque[DeadLetter] = deque(maxlen=limit)
            try:
                part = QueueSlice(part.queue, begin, part.end)
                async with aclosing(self._of_part(group, part, selection)) as letters:
                    async for letter in letters:
                        kept.append(letter)
                        if not newest and len(kept) == limit:
                            break
            except PyrmqError as e:
                failed.append(Outcome(part.queue.broker_name, error=e))
            found += kept
        if failed and not found and len(failed) >= len(parts) + len(parts.failed):
            error = failed[0].error
            assert error is not None
            raise error
        found.sort(key=lambda one: (one.message.store_timestamp, one.id))
        return Partial(found[-limit:] if newest else found[:limit], failed)

    async def read(
        self, group: str, selection: Selection = ALL
    ) -> AsyncGenerator[DeadLetter, None]:
        """All dead letters of a group that are selected, queue by queue. What comes in later is not
        among them. After the letters of the other brokers it raises the error of one that did not
        answer. Close it if you stop before the end (`contextlib.aclosing`)."""
        parts = await self.parts(group, selection)
        error = parts.failed[0].error if parts.failed else None
        for part in parts:
            try:
                async with aclosing(self._of_part(group, part, selection)) as letters:
                    async for letter in letters:
                        yield letter
            except PyrmqError as e:
                error = error or e
        if error is not None:
            raise error

    async def parts(self, group: str, selection: Selection = ALL) -> Partial[QueueSlice]:
        """The parts of the queues that can have the selected letters, as of now. Raises ClientError
        if the group has no dead letters."""
        check_group(group)
        topic = DLQ_PREFIX + group
        try:
            status = await self._topics.status(topic)
        except TopicNotExistError as e:
            error = ClientError(f"group {group} has no dead letters: there is no topic {topic}")
            error.hint = e.hint if "missing" in e.hint else ""
            raise error from e
        found: list[QueueSlice] = []
        failed: list[Outcome[object]] = [*status.failed]
        for state in status.queues:
            if state.end <= state.first:
                continue
            begin, end = state.first, state.end
            try:
                if selection.begin is not None or selection.end is not None:
                    within = await self._messages.slice(
                        state.queue, begin=selection.begin, end=selection.end
                    )
                    begin, end = max(begin, within.begin), min(end, within.end)
            except PyrmqError as e:
                failed.append(Outcome(state.queue.broker_name, error=e))
                continue
            if begin < end:
                found.append(QueueSlice(state.queue, begin, end))
        return Partial(found, failed)

    async def _of_part(
        self, group: str, part: QueueSlice, selection: Selection
    ) -> AsyncGenerator[DeadLetter, None]:
        try:
            async with aclosing(self._messages.read(part)) as found:
                async for message in found:
                    letter = DeadLetter(group, message)
                    if selection.wants(letter):
                        yield letter
        except PyrmqError as e:
            raise _explained(e, part.queue.topic) from e


def _explained(error: PyrmqError, topic: str) -> PyrmqError:
    """The error of a read; it says what to do about a topic that nobody may read."""
    if not isinstance(error, NoPermissionError):
        return error
    return ClientError(
        f"topic {topic} cannot be read: {error}; if it is write-only, as older brokers make it: "
        f"pyrmq admin topic set-perm -c CLUSTER {topic} 6"
    )
