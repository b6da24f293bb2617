"""Receives messages of several topics by POP, one call at a time for each caller.

A call asks the brokers in turn. If none has a message, it waits until one says that it has
(NOTIFICATION), and asks again: a call that is given up while it waits has taken nothing. A broker
is asked to notify once for all callers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from uuid import uuid4

import trio

from pyrmq.client.consumer.pop.handles import BrokerClocks, Handles
from pyrmq.client.consumer.pop.read_popped import read_popped
from pyrmq.client.consumer.pop.starts import PopStarts
from pyrmq.client.consumer.running_info import Statistics
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue, ReceivedMessage
from pyrmq.model.pop import ExtraInfo
from pyrmq.model.subscription import Subscription
from pyrmq.net.backoff import Backoff
from pyrmq.net.client.pop_requests import (
    ANY_QUEUE,
    PopAnswer,
    has_message,
    notification_fields,
    pop_fields,
)
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

POP_TIMEOUT = 5.0
POLL_MS = 15_000
POLL_TIMEOUT = 25.0
REFUSED_PAUSE = 1.0
"""Seconds until a broker that has failed is asked again."""
FRUITLESS_PAUSE, LONGEST_FRUITLESS_PAUSE = 0.01, 1.0
"""Seconds until brokers are asked again that had a message which others were faster to pop."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one call wants: `count` messages at most, invisible for so many seconds. `attempt` is
    the same in all pops of a call, so that an orderly pop whose answer got lost is not in its own
    way."""

    count: int
    invisible: float
    attempt: str


class Receiver:
    """`subscriptions` are by the brokers' names and may change. `order`: a queue gives no further
    messages until those that it gave are acknowledged, or visible again."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        subscriptions: Mapping[str, Subscription],
        tasks: Tasks,
        starts: PopStarts,
        clocks: BrokerClocks,
        handles: Handles,
        statistics: Statistics,
        *,
        order: bool,
    ) -> None:
        self._client = client
        self._group = group
        self._subs = subscriptions
        self._tasks = tasks
        self._starts = starts
        self._clocks = clocks
        self._handles = handles
        self._statistics = statistics
        self._order = order
        self._first = 0
        """Which broker is asked first: another one by each call."""
        self._watched: set[MessageQueue] = set()
        self._resting: dict[MessageQueue, float] = {}
        """Until when a broker is not asked, because it has failed."""
        self._changed = trio.lowlevel.ParkingLot()

    async def receive(self, count: int, invisible: float, timeout: float) -> list[ReceivedMessage]:
        """Messages of one topic and broker; none if none came in time. Raises PyrmqError if no
        broker could be asked in all the time."""
        wanted = Wanted(count, invisible, str(uuid4()))
        until = trio.current_time() + timeout
        backoff = Backoff(FRUITLESS_PAUSE, LONGEST_FRUITLESS_PAUSE)
        error: PyrmqError | None = None
        answered, pause = False, 0.0
        while True:
            targets, failure = await self._targets()
            error = failure or error
            for target in targets:
                try:
                    messages = await self._pop(target, wanted)
                except PyrmqError as e:
                    error = e
                    self._rest(target, e)
                    continue
                answered = True
                if messages:
                    return messages
            if trio.current_time() >= until:
                break
            with trio.move_on_at(until):
                await trio.sleep(pause)
                began = trio.current_time()
                await self._wait(targets, REFUSED_PAUSE if failure else inf)
                if trio.current_time() - began < REFUSED_PAUSE:
                    pause = backoff.next()
                else:
                    pause = 0.0
                    backoff.reset()
        if error is not None and not answered:
            raise error
        return []

    async def _targets(self) -> tuple[list[MessageQueue], PyrmqError | None]:
        """All brokers of all topics that may be asked, beginning with another one each time; why
        one of the topics is missing."""
        found: list[MessageQueue] = []
        error: PyrmqError | None = None
        for topic in list(self._subs):
            try:
                route = await self._client.routes.route(topic)
            except PyrmqError as e:
                error = e
                continue
            names = {queue.broker_name for queue in route.subscribe_queues(topic)}
            found += [MessageQueue(topic, name, ANY_QUEUE) for name in sorted(names)]
        now = trio.current_time()
        self._resting = {t: until for t, until in self._resting.items() if until > now}
        found = [target for target in found if target not in self._resting]
        self._first += 1
        at = self._first % len(found) if found else 0
        return found[at:] + found[:at], error

    async def begin(self, topic: str) -> None:
        """Returns when it is known where the group begins in all queues of a topic. PyrmqError."""
        route = await self._client.routes.route(topic)
        for name in {queue.broker_name for queue in route.subscribe_queues(topic)}:
            await self._starts.begin(MessageQueue(topic, name, ANY_QUEUE))

    async def _pop(self, target: MessageQueue, wanted: Wanted) -> list[ReceivedMessage]:
        """Raises PyrmqError."""
        if not self._starts.is_known(target):
            await self._starts.begin(target)
        sub = self._subs.get(target.topic)
        if sub is None:
            return []
        channel = await self._client.known_master(target.topic, target.broker_name)
        fields = pop_fields(
            target,
            self._group,
            sub,
            wanted.count,
            int(wanted.invisible * 1000),
            poll_ms=0,
            order=self._order,
            attempt=wanted.attempt if self._order else "",
        )
        began = trio.current_time()
        answer = await channel.call(RequestCode.POP_MESSAGE, fields, timeout=POP_TIMEOUT)
        popped = PopAnswer(answer, target.broker_name)
        if not popped.body:
            return []
        self._clocks.saw(target.broker_name, popped.pop_time)
        found = list(read_popped(target, popped))
        took = trio.current_time() - began
        self._statistics.of(target.topic).pulled(len(found), took)
        unwanted = [handle for handle, message in found if not sub.wants(message.tags)]
        if unwanted:
            self._tasks.start_soon(self._drop, target.topic, unwanted)
        return [message for _, message in found if sub.wants(message.tags)]

    async def _drop(self, topic: str, unwanted: list[ExtraInfo]) -> None:
        """Acknowledges messages whose tag has the hash of one that is subscribed to."""
        try:
            await self._handles.acknowledge_all([(topic, handle) for handle in unwanted])
        except PyrmqError as e:
            log.info("messages without a wanted tag come again: %s", escape(e))

    def _rest(self, target: MessageQueue, error: PyrmqError) -> None:
        log.info(
            "%s is not popped for a moment: %s",
            escape(target),
            escape(error),
            extra=about(queue=target),
        )
        self._resting[target] = trio.current_time() + REFUSED_PAUSE

    # Waiting.

    async def _wait(self, targets: list[MessageQueue], seconds: float) -> None:
        """Returns when one of them may have a message, or another may be asked again, at most after
        so many seconds."""
        for target in targets:
            if target not in self._watched:
                self._watched.add(target)
                self._tasks.start_soon(self._watch, target)
        until = trio.current_time() + seconds
        with trio.move_on_at(min([until, *self._resting.values()])):
            await self._changed.park()

    async def _watch(self, target: MessageQueue) -> None:
        """Wakes all callers when a broker says that it has a message, or after a while."""
        try:
            sub = self._subs.get(target.topic)
            if sub is None:
                return
            channel = await self._client.known_master(target.topic, target.broker_name)
            fields = notification_fields(
                target, self._group, sub, poll_ms=POLL_MS, order=self._order
            )
            answer = await channel.request(RequestCode.NOTIFICATION, fields, timeout=POLL_TIMEOUT)
            if not has_message(answer) and answer.ext.get("pollingFull") == "true":
                await trio.sleep(REFUSED_PAUSE)
        except PyrmqError as e:
            self._rest(target, e)
            await trio.sleep(REFUSED_PAUSE)
        finally:
            self._watched.discard(target)
            self._changed.unpark_all()
