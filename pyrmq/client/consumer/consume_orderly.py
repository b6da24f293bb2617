"""Consuming each queue strictly in order. [ConsumeMessageOrderlyService]

At most one worker has a queue, and only while its lock is valid. What the listener fails on is
given to it again after a moment, before anything that follows.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from pyrmq.client.consumer.consume_service import (
    Caller,
    ConsumeService,
    ReconsumeLater,
    consumed,
    described,
)
from pyrmq.client.consumer.options import PushOptions
from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.client.consumer.running_info import Statistics
from pyrmq.client.consumer.send_back import NEVER, SendBack
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import ReceivedMessage
from pyrmq.net.tasks import Tasks

if TYPE_CHECKING:
    from pyrmq.client.hooks import Observer

log = logging.getLogger(__name__)

CALLS_IN_A_ROW = 32
"""Calls of the listener for one queue before the other queues that wait."""
LOCK_DELAY = 0.1
"""Seconds until a queue whose lock is not valid is looked at again."""


class ConsumeOrderly(ConsumeService):
    """`locked` says whether a queue may be consumed now; `send_back` None: nothing is ever dead
    (broadcasting)."""

    def __init__(
        self,
        tasks: Tasks,
        call: Caller,
        send_back: SendBack | None,
        statistics: Statistics,
        locked: Callable[[ProcessQueue], bool],
        options: PushOptions,
        observer: Observer | None,
    ) -> None:
        super().__init__()
        self._tasks = tasks
        self._call = call
        self._send_back = send_back
        self._statistics = statistics
        self._locked = locked
        self._workers = options.concurrency
        self._batch = options.batch_size
        self._suspend = options.suspend_time
        self._max_times = options.max_times
        self._observer = observer
        self._line: deque[ProcessQueue] = deque()
        self._scheduled: set[ProcessQueue] = set()
        """Queues that a worker consumes, or will."""
        self._waiting = trio.lowlevel.ParkingLot()
        self._running = 0

    def start(self) -> None:
        """Starts the workers."""
        for _ in range(self._workers):
            self._tasks.start_soon(self._work)

    def deliver(self, process: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """The queue has messages that are not consumed."""
        if process not in self._scheduled:
            self._schedule(process)

    def _schedule(self, process: ProcessQueue) -> None:
        self._scheduled.add(process)
        self._line.append(process)
        self._waiting.unpark()

    async def _schedule_later(self, process: ProcessQueue, seconds: float) -> None:
        await trio.sleep(seconds)
        self._schedule(process)

    async def _work(self) -> None:
        while not self.closing:
            if not self._line:
                await self._waiting.park()
                continue
            await trio.lowlevel.checkpoint()
            if self._line:
                await self._consume(self._line.popleft())

    async def _consume(self, process: ProcessQueue) -> None:
        """Calls the listener with messages of one queue, some times in a row."""
        pause = 0.0
        for _ in range(CALLS_IN_A_ROW):
            chunk = process.first(self._batch)
            if process.dropped or self.closing or not chunk:
                self._scheduled.discard(process)
                return
            if not self._locked(process):
                pause = LOCK_DELAY
                break
            process.call_began()
            self._running += 1
            try:
                suspended = await self._listen(process, chunk)
            finally:
                process.call_ended()
                self._running -= 1
                self.rested()
            if suspended:
                pause = self._suspend
                break
        if pause:
            self._tasks.start_soon(self._schedule_later, process, pause)
        else:
            self._schedule(process)

    async def _listen(self, process: ProcessQueue, chunk: list[ReceivedMessage]) -> bool:
        """Whether the queue has to wait a moment."""
        began = trio.current_time()
        process.consume_began()
        done, dead = 0, False
        error: Exception | None = None
        observed = None if self._observer is None else self._observer.consuming(chunk)
        try:
            done = consumed(await self._call(chunk), len(chunk), self._call.batch)
        except ReconsumeLater as e:
            dead = e.delay_level < 0
        except Exception as e:
            error = e
            self._call.failed(chunk)
        took = trio.current_time() - began
        self._statistics.of(process.queue.topic).consumed(done, len(chunk) - done, took)
        if self._observer is not None:
            self._observer.listened(observed, done == len(chunk), error=error)
        raised, error = error is not None, None  # it refers to this frame
        for message in chunk[:done]:
            process.finish(message.queue_offset)
        failed = chunk[done:]
        if process.forfeited:
            return False  # another member has the queue already
        waits = False
        for message in failed:
            # A body that cannot be decompressed never can: its queue must not stand still for it.
            hopeless = raised and message.body_error is not None
            if not await self._is_dead(process, message, dead or hopeless):
                message.reconsume_times += 1
                waits = True
        return waits

    async def _is_dead(
        self, process: ProcessQueue, message: ReceivedMessage, at_once: bool
    ) -> bool:
        """Has the broker put a message aside that was delivered too often; whether it did."""
        if self._send_back is None and at_once and message.body_error is not None:
            log.warning(
                "%s is left: %s",
                escape(described(message)),
                escape(message.body_error),
                extra=about(queue=message.queue_id, topic=message.topic, message_id=message.msg_id),
            )
            process.finish(message.queue_offset)
            return True
        if self._send_back is None or not (at_once or message.reconsume_times >= self._max_times):
            return False
        try:
            await self._send_back(process.queue, message, NEVER)
        except PyrmqError as e:
            log.warning(
                "%s not put aside: %s",
                escape(described(message)),
                escape(e),
                extra=about(queue=message.queue_id, topic=message.topic, message_id=message.msg_id),
            )
            return False
        process.finish(message.queue_offset)
        log.warning(
            "%s is put aside: it goes to the dead-letter topic",
            escape(described(message)),
            extra=about(queue=message.queue_id, topic=message.topic, message_id=message.msg_id),
        )
        return True

    # The end.

    def is_busy(self) -> bool:
        return self._running > 0
