"""POP_MESSAGE: checks a pop, and answers it or has it wait. [PopMessageProcessor]"""

from __future__ import annotations

import time
from array import array
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial

import trio

from pyrmq.broker.bounds import LoopTime
from pyrmq.broker.pop.popping import Attempt, Place, Popping, Wanted
from pyrmq.broker.pop.waits import Done, Key, Waits
from pyrmq.broker.requests import fields
from pyrmq.broker.requests.pop_checks import PopChecks, Reader, attempt_of, born_and_poll_time
from pyrmq.broker.requests.pull import DISK_READERS
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.engine import Command, PullGrants, SqlFilter
from pyrmq.errors import InvalidParameterError, ResponseError, SystemBusyError
from pyrmq.model import pop
from pyrmq.model.codes import ResponseCode
from pyrmq.model.subscription import SQL92, TAG, Subscription
from pyrmq.net.clock import machine_ms
from pyrmq.net.command import ReplyTo, Response
from pyrmq.net.server.answers import Elsewhere, Keep, WhenConfirmed
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.line import Line

LATE = 500
"""ms behind its time at which a pop is not begun any more."""
EARLY = 50
"""ms before its time at which one that waits is answered."""
POP_BYTES = 2048
"""Bytes of a pop that waits, about, without its tags and its expression."""
SQL_BYTES = 32
"""Bytes that a compiled SQL92 expression takes for each of its characters, about."""
SQL_WAKES = LoopTime(0.1, 0.1)
"""For pops with an SQL92 filter that wait, when messages come."""


Found = Response | WhenConfirmed | Keep


@dataclass(frozen=True, slots=True)
class _Asked:
    """A checked pop."""

    client: Connection
    reader: Reader
    wanted: Wanted
    born: int
    poll: int
    sql_length: int

    @property
    def seconds(self) -> float:
        """How long it may wait from now on."""
        return (self.born + self.poll - EARLY - machine_ms()) / 1000


def filter_of(command: Command, topic: str) -> Subscription:
    """What is asked for, all messages if nothing is stated. SUBSCRIPTION_PARSE_FAILED."""
    text = command.ext.get("exp") or "*"
    kind = command.ext.get("expType") or TAG
    if kind not in (TAG, SQL92):
        raise ResponseError(
            f"parse the consumer's subscription failed: expType {kind[:32]!r} is neither {TAG} nor "
            f"{SQL92}",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        )
    return Subscription.parse(topic, text, 0, kind)


class PopProcessor:
    """`waits`: where pops wait that found nothing."""

    def __init__(
        self,
        checks: PopChecks,
        popping: Popping,
        waits: Waits,
        grants: PullGrants,
        filters: ConsumerFilters,
        clients: ClientTable,
    ) -> None:
        self._checks = checks
        self._clients = clients
        self._popping = popping
        self._waits = waits
        self._grants = grants
        self._filters = filters
        self._readers = trio.CapacityLimiter(DISK_READERS)
        self._threads = trio.CapacityLimiter(DISK_READERS)
        self.line = Line()
        """Pops that wait for one of the readers."""

    def __call__(
        self, connection: Connection, command: Command
    ) -> Found | Elsewhere | Awaitable[Found | Elsewhere]:
        asked = self._checked(connection, command)
        if not self._checks.groups.is_saved(asked.wanted.group):
            return self._begin_saved(asked)
        return self._begin(asked)

    async def _begin_saved(self, asked: _Asked) -> Found | Elsewhere:
        """Begins once the group is in its file. What a group that is gone after a kill has popped
        and not acknowledged would not come again."""
        try:
            await self._checks.groups.save_if_changed()
        except OSError as e:
            raise SystemBusyError(
                f"group[{asked.wanted.group}] is new and cannot be written to its file: {e}"
            ) from e
        return self._begin(asked)

    def _begin(self, asked: _Asked) -> Found | Elsewhere:
        seen = self._waits.reports
        attempt = self._popping.begin(asked.wanted, asked.reader.group)
        place = attempt.run()
        if place is not None:
            return Elsewhere(self._from_disk(asked, attempt, seen))
        return self._answered(asked, attempt, seen)

    def _checked(self, connection: Connection, command: Command) -> _Asked:
        """The checks in RocketMQ's order."""
        group = fields.text(command, "consumerGroup")
        topic = fields.text(command, "topic")
        queue_id = fields.int32(command, "queueId")
        count = fields.int32(command, "maxMsgNums")
        mode = fields.int32(command, "initMode")
        fields.int64(command, "invisibleTime")
        born, poll = born_and_poll_time(command)
        config = self._checks.live.now
        if machine_ms() - born - poll > LATE:
            raise ResponseError(
                f"the broker[{config.broker_name}] pop message is timeout too much: "
                "bornTime and pollTime are over",
                ResponseCode.POLLING_TIMEOUT,
            )
        self._checks.may_read("pop message")
        if not 1 <= count <= pop.MAX_POP:
            raise InvalidParameterError(
                f"maxMsgNums {count} is illegal: the broker[{config.broker_name}] pops 1 to "
                f"{pop.MAX_POP} messages"
            )
        if not config.timer_wheel_enable:
            raise ResponseError(
                f"the broker[{config.broker_name}] pop message is forbidden because "
                "timerWheelEnable is false",
                ResponseCode.SYSTEM_ERROR,
            )
        invisible = self._checks.invisible_time(command, least=1)
        known = self._checks.topic_of(topic, queue_id)
        of = self._checks.group_of(group, connection)
        tags, sql, length = self._filter(command, group, topic)
        wanted = Wanted(
            of.name,
            topic,
            queue_id if queue_id >= 0 else -1,
            count,
            invisible,
            mode,
            fields.flag(command, "order"),
            attempt_of(command),
            tags,
            sql,
        )
        return _Asked(connection, Reader(of, known, queue_id), wanted, born, poll, length)

    def _filter(
        self, command: Command, group: str, topic: str
    ) -> tuple[array[int], SqlFilter | None, int]:
        """Tag codes and expression. SUBSCRIPTION_PARSE_FAILED."""
        sub = filter_of(command, topic)
        text = sub.sub_string
        sql = None
        if sub.expression_type == SQL92:
            sql = self._filters.of(group, topic, text)
        self._clients.popped.note(group, sub)
        return (sub.tag_codes, None, 0) if sql is None else (array("i"), sql, len(text))

    async def _from_disk(
        self, asked: _Asked, attempt: Attempt, seen: int
    ) -> Response | WhenConfirmed | Keep:
        """Goes on in a thread. The queue is the pop's alone meanwhile. Other pops may have taken
        it since it was looked at, so the pop looks again."""
        busy = self._popping.busy
        while (place := attempt.run()) is not None:
            key = place.of(asked.wanted.group)
            busy.add(key)
            try:
                await self._read_disk(attempt, place)
            finally:
                busy.discard(key)
                self._waits.visible(*key)  # pops that passed it by meanwhile
        return self._answered(asked, attempt, seen)

    async def _read_disk(self, attempt: Attempt, place: Place) -> None:
        line = self.line.join()
        try:
            await self._readers.acquire()
        finally:
            self.line.leave(line)
        try:
            start = attempt.start(place)
            read = partial(attempt.read, place, start, wait=True)
            popped = await trio.to_thread.run_sync(read, limiter=self._threads)
        finally:
            self._readers.release()
        assert popped is not None
        attempt.took_from_disk(place, start, popped)

    def _answered(
        self, asked: _Asked, attempt: Attempt, seen: int
    ) -> Response | WhenConfirmed | Keep:
        if attempt.slices:
            if attempt.rest:
                wanted = asked.wanted
                self._waits.wake((wanted.topic, wanted.group, wanted.queue_id))
            return found(asked.client, attempt)
        self._popping.stats.missed()
        if asked.poll <= 0 or asked.seconds <= 0:
            return nothing(attempt, ResponseCode.POLLING_TIMEOUT)
        return Keep(partial(self._park, asked, attempt, seen))

    def _park(
        self, asked: _Asked, attempt: Attempt, seen: int, connection: Connection, to: ReplyTo
    ) -> None:
        request = _Waiting(self._popping, self._checks, self._grants, asked, attempt)
        # One whose queue it has left in its middle goes on at once.
        seen = -1 if attempt.more else seen
        full = nothing(attempt, ResponseCode.POLLING_FULL)
        self._waits.park(connection, to, request, asked.seconds, seen, full)


def found(client: Connection, attempt: Attempt) -> WhenConfirmed:
    """The answer with messages: it leaves when the check points are confirmed."""
    client.got(attempt.count, attempt.nbytes)
    response = Response(ResponseCode.SUCCESS, "FOUND", attempt.fields(), attempt.slices)
    return WhenConfirmed(response, attempt.log_end)


def nothing(attempt: Attempt, code: int) -> Response:
    return Response(code, "NO_MESSAGE_IN_QUEUE", attempt.fields())


class _Waiting:
    """A pop that waits. Its answer is one of an attempt of its own each time."""

    def __init__(
        self,
        popping: Popping,
        checks: PopChecks,
        grants: PullGrants,
        asked: _Asked,
        attempt: Attempt,
    ) -> None:
        self._popping = popping
        self._checks = checks
        self._grants = grants
        self._checked = grants.generation()
        self._asked = asked
        self._last = replace(attempt, places=[])
        wanted = asked.wanted
        self.key: Key = (wanted.topic, wanted.group, wanted.queue_id)

    @property
    def topics(self) -> tuple[str, ...]:
        wanted = self._asked.wanted
        if wanted.order:
            return (wanted.topic,)
        return (
            wanted.topic,
            pop.retry_topic_v1(wanted.topic, wanted.group),
            pop.retry_topic_v2(wanted.topic, wanted.group),
        )

    @property
    def cost(self) -> int:
        asked = self._asked
        return POP_BYTES + 4 * len(asked.wanted.tags) + SQL_BYTES * asked.sql_length

    def again(self, nth: int) -> tuple[Done | None, bool]:
        if self._grants.generation() != self._checked:
            self._checked = self._grants.generation()
            self._checks.read_again(self._asked.reader)
        wanted = self._asked.wanted
        if wanted.sql is None:
            return self._attempt()
        if not SQL_WAKES.may_begin():
            return self.over(), False  # the client asks again, and a thread reads for it
        began = time.monotonic()
        try:
            return self._attempt()
        finally:
            SQL_WAKES.took(time.monotonic() - began)

    def _attempt(self) -> tuple[Done | None, bool]:
        attempt = self._popping.begin(self._asked.wanted, self._asked.reader.group)
        attempt.sql_here = True
        place = attempt.run()
        self._last = replace(attempt, places=[])
        if place is not None:
            return self.over(), False  # as above: a thread reads from the disk
        if attempt.slices:
            return found(self._asked.client, attempt), attempt.rest > 0
        return None, attempt.more

    def over(self) -> Done:
        return nothing(self._last, ResponseCode.POLLING_TIMEOUT)
