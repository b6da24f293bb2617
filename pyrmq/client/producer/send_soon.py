"""Messages of `send_soon`: collected into batches and sent in the background.

A lane has the messages of one topic to one given queue, or to any queue. A given queue has one
request in flight at a time, so that messages stay in order; any queue has several. A batch leaves
when its lane has no request in flight, when the batch is full, or when its first message has waited
for `batch_delay`.
"""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from pyrmq.client.checks import check_queue
from pyrmq.client.producer.accumulator import NOT_SENT, UNKNOWN, BatchLimits
from pyrmq.client.producer.outgoing import PRIORITY_CHOOSES, Outgoing, Packer
from pyrmq.client.producer.pending import (
    CHECKPOINT_EVERY,
    Batch,
    Failures,
    PendingSend,
)
from pyrmq.errors import ClientError, PyrmqError, SendsFailedError
from pyrmq.escape import escape
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.net.tasks import Tasks

log = logging.getLogger(__name__)

MAX_REQUESTS = 32
"""Most requests in flight of a lane to any queue."""
LEAVE_MARGIN = 0.5
"""Seconds that closing waits after the last attempt must have ended."""
_Kind = tuple[str, MessageQueue | None, bool]


@dataclass(slots=True, eq=False)
class _Lane:
    kind: _Kind
    queue: MessageQueue | None
    open: Batch | None = None
    """The batch that is being collected."""
    ready: deque[Batch] = field(default_factory=deque)
    """Batches that leave next."""
    workers: int = 0
    watched: bool = False


@dataclass(slots=True, eq=False)
class _Waiter:
    size: int
    event: trio.Event = field(default_factory=trio.Event)
    granted: bool = False


class SoonSender:
    """An async context manager; closing it sends its messages. `deliver` sends a request to a
    queue, or to any; `shown` converts its result for users; an answer comes within `timeout`."""

    def __init__(
        self,
        packer: Packer,
        limits: BatchLimits,
        deliver: Callable[[Outgoing, MessageQueue | None], Awaitable[SendResult]],
        shown: Callable[[SendResult], SendResult],
        timeout: float,
    ) -> None:
        self._packer = packer
        self._usual_entry = packer.entry_of_usual
        self._delay = limits.batch_delay
        self._full = limits.batch_bytes
        self._alone_over = self._full // 2
        self._most = limits.batch_total_bytes
        self._deliver = deliver
        self._shown = shown
        self._timeout = timeout
        self._running = False
        self._until_checkpoint = CHECKPOINT_EVERY
        self._held = 0
        self._waiting: deque[_Waiter] = deque()
        self._lanes: dict[_Kind, _Lane] = {}
        self._unanswered: dict[Batch, None] = {}
        self._stored = 0
        """Requests that were answered with success."""
        self._failures = Failures()
        self._lost = 0
        self._tasks = Tasks()

    async def __aenter__(self) -> SoonSender:
        await self._tasks.__aenter__()
        self._running = True
        return self

    async def __aexit__(self, *error: object) -> None:
        self._running = False
        while self._waiting:
            self._waiting.popleft().event.set()
        try:
            await self._drain()
        finally:
            try:
                await self._tasks.__aexit__(*error)
            finally:
                for batch in list(self._unanswered):
                    batch.failure = ClientError(NOT_SENT)
                    self._complete(batch)
                self._lanes.clear()
                count, cause = self._failures.take()
                self._lost = count
                if count:
                    log.error(
                        "%d messages of send_soon failed and nobody asked for them, the first: %s",
                        count,
                        escape(cause),
                    )

    @property
    def unanswered(self) -> int:
        """Messages without an answer; after closing, those that failed and whose results were never
        awaited. For any thread."""
        batches = list(self._unanswered)
        waiting = sum(1 if b.request is not None else len(b.entries) for b in batches)
        return self._lost + waiting

    def take(self, message: Message, queue: MessageQueue | None) -> PendingSend | None:
        """Takes a usual message into an existing batch; None if more must be done."""
        # For most messages this is all that is done.
        self._until_checkpoint -= 1
        try:
            kind = (message.topic, queue, message.wait_store_ok or queue is not None)
            lane = self._lanes.get(kind)
        except (AttributeError, TypeError):  # no message, or no queue: `send` says so
            return None
        if lane is None or self._until_checkpoint < 0 or self._waiting:
            return None
        batch = lane.open
        if batch is None or batch.head.wait_store_ok is not message.wait_store_ok:
            return None
        entry = self._usual_entry(message)
        if entry is None:
            return None
        size = len(entry[1])
        if (
            size > self._alone_over
            or batch.bytes + size > self._full
            or self._held + size > self._most
        ):
            return None
        batch.bytes += size
        self._held += size
        entries = batch.entries
        entries.append(entry)
        return PendingSend(batch, len(entries) - 1)

    async def send(self, message: Message, queue: MessageQueue | None) -> PendingSend:
        """Takes any message. A cancellation means that it was not taken."""
        if self._until_checkpoint < 0:
            self._until_checkpoint = CHECKPOINT_EVERY
            await trio.lowlevel.checkpoint()
        entry = self._packer.batch_entry(message)
        check_queue(queue)
        if queue is not None and queue.topic != message.topic:
            raise ClientError(f"{queue} is not a queue of topic {message.topic}")
        if queue is not None and message.priority is not None:
            raise ClientError(PRIORITY_CHOOSES)
        # To a given queue there is order among all messages.
        kind = (message.topic, queue, message.wait_store_ok or queue is not None)
        if entry is None or len(entry[1]) > self._alone_over:
            return await self._send_alone(message, kind)
        size, wait_store_ok = len(entry[1]), message.wait_store_ok
        await self._take_room(size)
        return self._put(kind, wait_store_ok, entry, size)

    def _put(
        self, kind: _Kind, wait_store_ok: bool, entry: tuple[str, bytes], size: int
    ) -> PendingSend:
        lane = self._lanes.get(kind) or self._lane(kind)
        batch = lane.open
        if (
            batch is None
            or batch.bytes + size > self._full
            or batch.head.wait_store_ok != wait_store_ok
        ):
            self._close(lane)
            batch = lane.open = self._begin(kind, wait_store_ok)
            if not lane.workers:
                self._hire(lane)
            else:
                self._watch(lane)
        batch.bytes += size
        batch.entries.append(entry)
        return PendingSend(batch, len(batch.entries) - 1)

    async def _send_alone(self, message: Message, kind: _Kind) -> PendingSend:
        wait_store_ok = message.wait_store_ok
        message = copy.copy(message)  # the user may change it
        message.body, message.properties = bytes(message.body), dict(message.properties)
        request = await self._packer.plain(message)
        size = len(request.body)
        await self._take_room(size)
        lane = self._lanes.get(kind) or self._lane(kind)
        if lane.queue is not None:
            self._close(lane)  # what came before goes before
        batch = self._begin(kind, wait_store_ok)
        batch.request = request
        batch.bytes = size
        self._leave(lane, batch)
        return PendingSend(batch, 0)

    async def _take_room(self, size: int) -> None:
        if self._running and (self._waiting or not self._fits(size)):
            waiter = _Waiter(size)
            self._waiting.append(waiter)
            try:
                await waiter.event.wait()
            except trio.Cancelled:
                if waiter.granted:
                    self._held -= size
                elif waiter in self._waiting:
                    self._waiting.remove(waiter)
                self._let_in()
                raise
            if waiter.granted and self._running:
                return
            self._held -= size if waiter.granted else 0
        if not self._running:
            raise ClientError("not connected: use the producer inside of its `async with`")
        self._held += size

    def _fits(self, size: int) -> bool:
        """A message larger than the limit goes alone."""
        return not self._held or self._held + size <= self._most

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0].size):
            waiter = self._waiting.popleft()
            self._held += waiter.size
            waiter.granted = True
            waiter.event.set()

    def _lane(self, kind: _Kind) -> _Lane:
        lane = self._lanes[kind] = _Lane(kind, kind[1])
        return lane

    def _begin(self, kind: _Kind, wait_store_ok: bool) -> Batch:
        # Not the user's message, which may change.
        head = Message(kind[0], b"-", wait_store_ok=wait_store_ok)
        batch = Batch(head, trio.current_time())
        self._unanswered[batch] = None
        return batch

    def _close(self, lane: _Lane) -> None:
        """What is collected is sent next: nothing is added to it."""
        if lane.open is not None:
            batch, lane.open = lane.open, None
            self._leave(lane, batch)

    def _leave(self, lane: _Lane, batch: Batch) -> None:
        lane.ready.append(batch)
        if lane.workers < (MAX_REQUESTS if lane.queue is None else 1):
            self._hire(lane)

    def _hire(self, lane: _Lane) -> None:
        lane.workers += 1
        self._tasks.start_soon(self._work, lane)

    def _next(self, lane: _Lane) -> Batch | None:
        """The next batch of a worker."""
        if lane.ready:
            return lane.ready.popleft()
        batch = lane.open
        if batch is None:
            return None
        last = lane.workers == 1
        if last or trio.current_time() >= batch.since + self._delay:
            lane.open = None
            return batch
        self._watch(lane)
        return None

    async def _work(self, lane: _Lane) -> None:
        try:
            while (batch := self._next(lane)) is not None:
                await self._send_batch(lane, batch)
        finally:
            lane.workers -= 1
            self._forget(lane)

    async def _send_batch(self, lane: _Lane, batch: Batch) -> None:
        try:
            request = batch.request or self._packer.batch_of(batch.head, batch.entries)
            batch.result = self._shown(await self._deliver(request, lane.queue))
            self._stored += 1
        except PyrmqError as e:
            batch.failure = e
        finally:
            if batch.result is None and batch.failure is None:
                batch.failure = ClientError(UNKNOWN)
            self._complete(batch)

    def _complete(self, batch: Batch) -> None:
        del self._unanswered[batch]
        self._held -= batch.bytes
        batch.complete(self._failures)
        if self._waiting:
            self._let_in()

    def _watch(self, lane: _Lane) -> None:
        """For a given queue one worker takes each batch when it can."""
        if lane.queue is None and not lane.watched:
            lane.watched = True
            self._tasks.start_soon(self._wait_and_close, lane)

    async def _wait_and_close(self, lane: _Lane) -> None:
        """Closes the collected batch after `batch_delay` at most."""
        while (batch := lane.open) is not None:
            await trio.sleep_until(batch.since + self._delay)
            if lane.open is batch and lane.workers < MAX_REQUESTS:
                self._close(lane)
            elif lane.open is batch:
                break  # the next worker that is free takes it
        lane.watched = False
        self._forget(lane)

    def _forget(self, lane: _Lane) -> None:
        if not (lane.workers or lane.watched or lane.open or lane.ready):
            self._lanes.pop(lane.kind, None)

    async def flush(self) -> None:
        """Returns when all taken messages are answered. Raises SendsFailedError, once, for failures
        that were never awaited."""
        await trio.lowlevel.checkpoint()
        await self._answered()
        count, cause = self._failures.take()
        if count:
            raise SendsFailedError(count, cause) from cause

    async def _answered(self) -> None:
        for lane in list(self._lanes.values()):
            self._close(lane)
        for batch in list(self._unanswered):
            await batch.wait()

    async def _drain(self) -> None:
        """Sends the remaining messages as long as brokers accept them."""
        patience = self._timeout + LEAVE_MARGIN
        try:
            while self._unanswered:
                stored = self._stored
                with trio.move_on_after(patience):
                    await self._answered()
                if self._stored == stored:
                    break
        except trio.Cancelled:
            with trio.move_on_after(patience, shield=True):
                await self._answered()
            raise
