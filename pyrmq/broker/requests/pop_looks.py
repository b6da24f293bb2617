"""Looks at what may be popped, without popping it: PEEK_MESSAGE, NOTIFICATION, POLLING_INFO.
[PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor]"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import partial

import trio

from pyrmq.broker.pop.popping import MIN, Place, Popping
from pyrmq.broker.pop.waits import Done, Key, Waits
from pyrmq.broker.requests import fields
from pyrmq.broker.requests.pop import EARLY, filter_of
from pyrmq.broker.requests.pop_checks import PopChecks, Reader, attempt_of, born_and_poll_time
from pyrmq.broker.tables.filter_data import sql_filter
from pyrmq.engine import Command, Popped, PullGrants, Slice
from pyrmq.errors import InvalidParameterError
from pyrmq.model import pop
from pyrmq.model.codes import ResponseCode
from pyrmq.model.subscription import SQL92
from pyrmq.net.clock import machine_ms, now_ms
from pyrmq.net.command import ReplyTo, Response
from pyrmq.net.server.answers import Elsewhere, Keep
from pyrmq.net.server.connection import Connection

READERS = 4
FILTERED = 64
"""Messages that wait below which a notification looks at their tags.
[maxMessageFilterNumForNotification]"""
NOTIFICATION_BYTES = 1024
"""Bytes of a notification that waits, about."""


class Looks:
    """`pops`: where pops wait; `waits`: where notifications do."""

    def __init__(
        self,
        checks: PopChecks,
        popping: Popping,
        pops: Waits,
        waits: Waits,
        grants: PullGrants,
    ) -> None:
        self._checks = checks
        self._popping = popping
        self._pops = pops
        self._waits = waits
        self._grants = grants
        self._threads = trio.CapacityLimiter(READERS)

    def polling_info(self, connection: Connection, command: Command) -> Response:
        """POLLING_INFO: how many pops wait."""
        reader = self._checks.reader(connection, command, "peeking message")
        topic, group = reader.names
        waiting = self._pops.waiting((topic, group, max(reader.queue_id, -1)))
        return Response(ext={"pollingNum": waiting})

    def peek(self, connection: Connection, command: Command) -> Response | Elsewhere:
        """PEEK_MESSAGE: messages that a pop would give; they stay visible."""
        count = fields.int32(command, "maxMsgNums")
        reader = self._checks.reader(connection, command, "peeking message")
        if not 1 <= count <= pop.MAX_POP:
            raise InvalidParameterError(f"maxMsgNums {count} is illegal: 1 to {pop.MAX_POP}")
        return Elsewhere(self._peek(connection, reader, count))

    async def _peek(self, client: Connection, reader: Reader, count: int) -> Response:
        slices: list[bytes | Slice] = []
        rest = 0
        group = reader.group.name
        for place in self._places(reader):
            start = self._popping.start_of(place, group, MIN)
            backlog = self._popping.backlog(place, group, MIN)
            rest += backlog
            if not backlog or len(slices) >= count:
                continue
            popped = await self._read(place, start, count - len(slices))
            if not popped.count and popped.next_offset > start:
                popped = await self._read(place, popped.next_offset, count - len(slices))
            if popped.count:
                slices += popped.slices
                stats = self._popping.stats
                stats.pulled(place.topic, group, 1, popped.count, popped.nbytes)
                client.got(popped.count, popped.nbytes)
        # Of what it gives nothing is subtracted, as in RocketMQ.
        fields_ = {"popTime": 0, "invisibleTime": 0, "reviveQid": 0, "restNum": rest}
        if slices:
            return Response(ResponseCode.SUCCESS, "FOUND", fields_, slices)
        return Response(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", fields_)

    async def _read(self, place: Place, start: int, count: int) -> Popped:
        engine = self._popping.engine
        read = partial(engine.read, place.topic, place.queue_id, start, count, wait=True)
        popped = await trio.to_thread.run_sync(read, limiter=self._threads)
        assert popped is not None
        return popped

    def notification(self, connection: Connection, command: Command) -> Response | Keep:
        """NOTIFICATION: says whether there is something to pop, or waits until there is."""
        born, poll = born_and_poll_time(command)
        reader = self._checks.reader(connection, command, "peeking message")
        look = _Look(
            self,
            reader,
            fields.flag(command, "order"),
            attempt_of(command),
            tags_of(command, reader.topic.topic_name),
            self._grants.generation(),
        )
        seen = self._waits.reports
        if look.available():
            return told(True)
        seconds = (born + poll - EARLY - machine_ms()) / 1000
        if poll <= 0 or seconds <= 0:
            return look.over()
        return Keep(partial(self._park, look, seconds, seen))

    def _park(
        self, look: _Look, seconds: float, seen: int, connection: Connection, to: ReplyTo
    ) -> None:
        full = told(False, full=True)
        self._waits.park(connection, to, look, seconds, seen, full)

    def _places(self, reader: Reader, *, retries: bool = True) -> Iterator[Place]:
        """The queues asked for, and those of the retry topics behind them."""
        topic, group = reader.names
        if reader.queue_id >= 0:
            yield Place(topic, reader.queue_id, False)
        else:
            for queue_id in range(reader.topic.read_queue_nums):
                yield Place(topic, queue_id, False)
        for name in _retry_topics(topic, group) if retries else ():
            known = self._popping.topics.get(name)
            for queue_id in range(known.read_queue_nums if known is not None else 0):
                yield Place(name, queue_id, True)

    def available(
        self,
        reader: Reader,
        order: bool,
        attempt_id: str | None,
        tags: array[int],
        most: int,
    ) -> int:
        """How many messages may be popped now; `most` or more need not be counted."""
        found, popping = 0, self._popping
        group = reader.group.name
        for place in self._places(reader, retries=not order):
            if order and popping.order.is_blocked(
                *place.of(group), now_ms(), attempt_id=attempt_id
            ):
                continue
            backlog = popping.backlog(place, group, MIN)
            if tags and 0 < backlog < FILTERED and not self._has_wanted(place, group, tags):
                continue
            found += backlog
            if found >= most:
                break
        return found

    def _has_wanted(self, place: Place, group: str, tags: array[int]) -> bool:
        """Whether one of the next messages has one of the tags. What is on the disk may have."""
        start = self._popping.start_of(place, group, MIN)
        popped = self._popping.engine.read(
            place.topic, place.queue_id, start, 1, tags=tags, wait=False
        )
        return popped is None or popped.count > 0

    def check(self, reader: Reader, checked: int) -> int:
        """Checks one that waits again, if something has changed."""
        if self._grants.generation() != checked:
            self._checks.read_again(reader)
        return self._grants.generation()


class _Look:
    """A notification: it waits for the same as a pop."""

    def __init__(
        self,
        looks: Looks,
        reader: Reader,
        order: bool,
        attempt_id: str | None,
        tags: array[int],
        checked: int,
    ) -> None:
        self._looks = looks
        self._reader = reader
        self._order = order
        self._attempt_id = attempt_id
        self._tags = tags
        self._checked = checked
        self.key: Key = (*reader.names, max(reader.queue_id, -1))

    @property
    def topics(self) -> tuple[str, ...]:
        topic, group = self._reader.names
        return (topic,) if self._order else (topic, *_retry_topics(topic, group))

    @property
    def cost(self) -> int:
        return NOTIFICATION_BYTES + 4 * len(self._tags)

    def available(self, most: int = 1) -> int:
        return self._looks.available(self._reader, self._order, self._attempt_id, self._tags, most)

    def again(self, nth: int) -> tuple[Done | None, bool]:
        """Of those that wait as many are told as there are messages: none is taken yet."""
        self._checked = self._looks.check(self._reader, self._checked)
        found = self.available(nth + 2)
        if found <= nth:
            return None, False
        return told(True), found > nth + 1

    def over(self) -> Response:
        return told(False)


def tags_of(command: Command, topic: str) -> array[int]:
    """The tags that a notification is asked for; none for an expression, which is not evaluated.
    SUBSCRIPTION_PARSE_FAILED."""
    sub = filter_of(command, topic)
    if sub.expression_type == SQL92:
        sql_filter(sub.sub_string)
    return sub.tag_codes


def told(has: bool, *, full: bool = False) -> Response:
    """The answer to a notification."""
    return Response(ext={"hasMsg": has, "pollingFull": full})


def _retry_topics(topic: str, group: str) -> tuple[str, str]:
    return pop.retry_topic_v1(topic, group), pop.retry_topic_v2(topic, group)
