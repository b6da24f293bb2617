"""The queues that a member pops: each has a task of its own, so that a broker that hangs delays
only its own queues. [RebalanceImpl.updateMessageQueueAssignment, DefaultMQPushConsumerImpl]"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import trio

from pyrmq.client.consumer.offsets import OffsetStore, StartRule
from pyrmq.client.consumer.pop.acks import Acks
from pyrmq.client.consumer.pop.pop_options import PopOptions
from pyrmq.client.consumer.pop.popped import Popped, PopQueue
from pyrmq.client.consumer.pop.read_popped import read_popped
from pyrmq.client.consumer.pop.starts import PopStarts
from pyrmq.client.consumer.reports import Reports
from pyrmq.client.consumer.running_info import Statistics
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import ConnectError, ProtocolError, PyrmqError, SystemBusyError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue, ReceivedMessage
from pyrmq.model.pop import POP_CK, ExtraInfo
from pyrmq.model.subscription import Subscription
from pyrmq.net.backoff import Backoff
from pyrmq.net.client.pop_requests import PopAnswer, PopStatus, pop_fields
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

POLL_MS = 15_000
TIMEOUT = 25.0
FULL_DELAY = 1.0
BUSY_DELAY = 0.02
START_PAUSE, LONGEST_START_PAUSE = 0.05, 5.0
"""Seconds until it is asked again where queues begin."""
REPORT_AFTER = 0.4
PRUNE = 1024
"""Settled check points that are kept at least before one looks for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopEvents:
    """`deliver` gets the messages of a check point, in order; `taken` each queue that is popped
    from now on; `overdue` returns whether a message was delivered too often, and settles it
    then."""

    deliver: Callable[[Popped, list[ReceivedMessage]], None]
    taken: Callable[[PopQueue], None]
    overdue: Callable[[Popped, ReceivedMessage], bool]


Point = tuple[str, ExtraInfo]
"""A topic that was asked for, and the handle of the first message of a check point."""


class PopQueues:
    """The popped queues of one member. `subscriptions` may change."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        subscriptions: Mapping[str, Subscription],
        tasks: Tasks,
        reports: Reports,
        statistics: Statistics,
        store: OffsetStore,
        rule: StartRule,
        options: PopOptions,
        events: PopEvents,
    ) -> None:
        self.table: dict[MessageQueue, PopQueue] = {}
        self.acks = Acks(client, group, tasks, reports)
        self._client = client
        self._group = group
        self._subs = subscriptions
        self._tasks = tasks
        self._reports = reports
        self._statistics = statistics
        self._starts = PopStarts(client, store, rule)
        self._options = options
        self._events = events
        self._points: dict[Point, Popped] = {}
        """What this member has of check points, the oldest first."""
        self._unsettled = 0
        """How many of these were not settled as it was counted last."""
        self._stopped = False

    def assigned(self) -> list[MessageQueue]:
        """The queues, sorted; none once this has stopped."""
        # A list first: it may be asked for in another thread.
        found = [] if self._stopped else list(self.table.values())
        return sorted(popping.queue for popping in found if not popping.dropped)

    def cached(self) -> list[tuple[str, int, int]]:
        """Topic, messages and bytes that wait to be settled, of each check point; for any
        thread."""
        return [(popped.queue.topic, *popped.cached()) for popped in list(self._points.values())]

    async def begun(self, topic: str) -> None:
        """Returns when it is known where each queue of a topic begins."""
        for popping in list(self.table.values()):
            if popping.queue.topic == topic and not popping.dropped:
                await popping.begun.wait()

    def popped_with(self, message: ReceivedMessage, topic: str) -> Popped | None:
        """What a message that waits to be settled was popped with; `topic` is the broker's name of
        its topic."""
        try:
            handle = ExtraInfo.parse(message.properties.get(POP_CK, ""))
        except ProtocolError:
            return None
        popped = self._points.get((topic, replace(handle, offset=handle.start)))
        return popped if popped is not None and popped.holds(message) else None

    # What is decided.

    def assign(self, topic: str, mine: Iterable[MessageQueue]) -> None:
        """From now on these queues of a topic are popped. What was popped of others is still
        consumed: it is this member's until its invisible time ends."""
        wanted = set(mine)
        for popping in self.table.values():
            if popping.queue.topic == topic and popping.queue not in wanted:
                popping.drop()
        for queue in sorted(wanted):
            known = self.table.get(queue)
            if known is not None:
                known.dropped = False
            elif not self._stopped:
                popping = self.table[queue] = PopQueue(queue, self._options.most)
                self._events.taken(popping)
                self._tasks.start_soon(self._serve, popping)

    def stop(self, topic: str | None = None) -> None:
        """Ends the pops of a topic at once, or all for good."""
        self._stopped = self._stopped or topic is None
        for popping in self.table.values():
            if topic in (None, popping.queue.topic):
                popping.drop()
                popping.scope.cancel()

    # The life of a queue.

    async def _serve(self, popping: PopQueue) -> None:
        log.info("%s is popped", escape(popping.queue), extra=about(queue=popping.queue))
        while True:
            with popping.scope:
                await self._begin(popping)
                while not popping.dropped:
                    await self._pop_once_there_is_room(popping)
            if popping.dropped or self._stopped:
                break
            popping.scope = trio.CancelScope()  # it was given up and wanted again
        del self.table[popping.queue]
        popping.begun.set()
        log.info(
            "%s is not popped any more", escape(popping.queue), extra=about(queue=popping.queue)
        )

    async def _begin(self, popping: PopQueue) -> None:
        """Returns when it is known where the queues begin."""
        backoff = Backoff(START_PAUSE, LONGEST_START_PAUSE)
        while not popping.begun.is_set():
            try:
                await self._starts.begin(popping.queue)
            except PyrmqError as e:
                if backoff.upcoming >= REPORT_AFTER:
                    self._reports.waiting(popping.queue, str(e))
                await trio.sleep(backoff.next())
            else:
                popping.begun.set()

    async def _pop_once_there_is_room(self, popping: PopQueue) -> None:
        self._forget_expired()
        with trio.move_on_after(self._options.invisible):
            await popping.wait_for_room()
        if popping.dropped or popping.full():
            return
        try:
            status, found = await self._pop(popping)
        except PyrmqError as e:
            if isinstance(e, SystemBusyError):
                await trio.sleep(BUSY_DELAY)
                return
            self._reports.waiting(popping.queue, str(e))
            await trio.sleep(popping.failed(isinstance(e, ConnectError)))
            return
        self._reports.resolved(popping.queue)
        popping.succeeded()
        self._take(popping, found)
        if status is PopStatus.POLLING_FULL:
            await trio.sleep(FULL_DELAY)
        elif self._options.interval:
            await trio.sleep(self._options.interval)

    async def _pop(
        self, popping: PopQueue
    ) -> tuple[PopStatus, list[tuple[ExtraInfo, ReceivedMessage]]]:
        queue = popping.queue
        channel = await self._client.known_master(queue.topic, queue.broker_name)
        fields = pop_fields(
            queue,
            self._group,
            self._subs[queue.topic],
            self._options.batch,
            int(self._options.invisible * 1000),
            poll_ms=POLL_MS,
        )
        popping.pop_began()
        began = trio.current_time()
        answer = await channel.call(RequestCode.POP_MESSAGE, fields, timeout=TIMEOUT)
        popped = PopAnswer(answer, queue.broker_name)
        if popped.status is not PopStatus.FOUND:
            return popped.status, []
        found = list(read_popped(queue, popped))
        took = trio.current_time() - began
        self._statistics.of(queue.topic).pulled(len(found), took)
        return popped.status, found

    def _take(self, popping: PopQueue, found: list[tuple[ExtraInfo, ReceivedMessage]]) -> None:
        deadline = trio.current_time() + self._options.invisible
        sub = self._subs.get(popping.queue.topic)
        points: dict[Point, tuple[Popped, list[ReceivedMessage]]] = {}
        for handle, message in found:
            point = popping.queue.topic, replace(handle, offset=handle.start)
            if point not in points:
                popped = self._points[point] = Popped(popping, handle, deadline, self.acks.put)
                points[point] = popped, []
            popped, wanted = points[point]
            popped.add(message)
            if sub is not None and sub.tags and not sub.wants(message.tags):
                popped.finish(message.queue_offset)
            elif not self._events.overdue(popped, message):
                wanted.append(message)
        for popped, wanted in points.values():
            if wanted:
                self._events.deliver(popped, wanted)

    def _forget_expired(self) -> None:
        """Forgets what is settled or over its time. Points are in the order of their ends."""
        if len(self._points) > 2 * self._unsettled + PRUNE:
            # Behind a message that takes long many may be settled.
            kept = {point: p for point, p in self._points.items() if not p.is_settled}
            self._points, self._unsettled = kept, len(kept)
        gone = []
        for point, popped in self._points.items():
            if not popped.is_settled:
                if not popped.expired:
                    break
                popped.forget()
            gone.append(point)
        for point in gone:
            del self._points[point]
