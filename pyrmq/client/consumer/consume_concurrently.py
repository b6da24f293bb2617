"""Consuming with several workers at a time. [ConsumeMessageConcurrentlyService]

What the listener fails on goes back to the broker, and holds neither a worker nor, but for the
moment that this takes, the offset of its queue. Only if the broker does not take it, it is
consumed again here, after a while.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
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
from pyrmq.client.consumer.ready import Chunk, Held, Ready
from pyrmq.client.consumer.running_info import Statistics
from pyrmq.client.consumer.send_back import BROKERS_CHOICE
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import ReceivedMessage
from pyrmq.net.tasks import Tasks

if TYPE_CHECKING:
    from pyrmq.client.hooks import Observer

log = logging.getLogger(__name__)

RETRY_DELAY = 5.0
"""Seconds until a message that its broker does not take back is consumed again."""
STUCK_LEVEL = 3
"""Delay level of messages that a listener has had for too long."""
SENDERS = 64
"""Messages that are sent back at a time."""


GiveBack = Callable[[Held, ReceivedMessage, int], Awaitable[None]]
"""Gives a failed message back, with a delay level, and settles it. PyrmqError if the broker does
not take it."""


class ConsumeConcurrently(ConsumeService):
    """`give_back` None: what fails is logged and left (broadcasting)."""

    def __init__(
        self,
        tasks: Tasks,
        call: Caller,
        give_back: GiveBack | None,
        statistics: Statistics,
        options: PushOptions,
        observer: Observer | None,
    ) -> None:
        super().__init__()
        self._tasks = tasks
        self._call = call
        self._give_back = give_back
        self._statistics = statistics
        self._ready = Ready[Held](options.batch_size)
        self._senders = trio.CapacityLimiter(SENDERS)
        self._workers = options.concurrency
        self._timeout = options.consume_timeout
        self._observer = observer
        self._under_way: list[tuple[Held, Chunk, float] | None] = [None] * self._workers
        self._giving_back = 0

    def start(self) -> None:
        """Starts the workers."""
        for slot in range(self._workers):
            self._tasks.start_soon(self._work, slot)
        self._tasks.start_soon(self._watch)

    def deliver(self, process: Held, messages: Sequence[ReceivedMessage]) -> None:
        """Messages of one queue, in order."""
        self._ready.put(process, messages)

    def remove(self, unwanted: Callable[[Held], bool]) -> None:
        """Messages of these that no worker has begun are not consumed."""
        self._ready.remove(unwanted)

    async def _work(self, slot: int) -> None:
        ready, call, under_way, observer = self._ready, self._call, self._under_way, self._observer
        direct = call.direct
        now, topic, counts = trio.current_time(), None, None
        while not self.closing:
            entry = ready.take_now()
            if entry is None:
                entry = await ready.take()
                now = trio.current_time()
            if self.closing:
                return
            process, chunk = entry
            began = now
            under_way[slot] = process, chunk, began
            process.consume_began()
            level, done = BROKERS_CHOICE, 0
            error: Exception | None = None
            observed = None if observer is None else observer.consuming(chunk)
            try:
                answer = await (call(chunk) if direct is None else direct(chunk[0]))
                done = len(chunk) if answer is None else consumed(answer, len(chunk), call.batch)
            except ReconsumeLater as e:
                level = e.delay_level
            except Exception as e:
                error = e
                call.failed(chunk)
            now = trio.current_time()
            if counts is None or topic != process.queue.topic:
                topic = process.queue.topic
                counts = self._statistics.of(topic)
            counts.consumed(done, len(chunk) - done, now - began)
            if observer is not None:
                late = now - began >= self._timeout
                observer.listened(observed, done == len(chunk), error=error, late=late)
            error = None  # it refers to this frame
            if not process.dropped:
                for message in chunk[:done]:
                    process.finish(message.queue_offset)
                for message in chunk[done:]:
                    self._failed(process, message, level)
            under_way[slot] = None
            if self.closing:
                self.rested()

    def _failed(self, process: Held, message: ReceivedMessage, level: int) -> None:
        if self._give_back is None:
            log.warning(
                "%s is left: in broadcasting nothing comes again",
                escape(described(message)),
                extra=about(queue=message.queue_id, topic=message.topic, message_id=message.msg_id),
            )
            process.finish(message.queue_offset)
            return
        self._giving_back += 1
        self._tasks.start_soon(self._settle, self._give_back, process, message, level)

    async def _settle(
        self, give_back: GiveBack, process: Held, message: ReceivedMessage, level: int
    ) -> None:
        try:
            if not process.holds(message):
                return
            async with self._senders:
                await give_back(process, message, level)
        except PyrmqError as e:
            log.warning(
                "%s not sent back, again here in %g s: %s",
                escape(described(message)),
                RETRY_DELAY,
                escape(e),
                extra=about(queue=message.queue_id, topic=message.topic, message_id=message.msg_id),
            )
            self._tasks.start_soon(self._again_here, process, message)
        finally:
            self._giving_back -= 1
            self.rested()

    async def _again_here(self, process: Held, message: ReceivedMessage) -> None:
        await trio.sleep(RETRY_DELAY)
        if process.holds(message) and not process.dropped:
            message.reconsume_times += 1
            self._ready.put(process, [message])

    async def _watch(self) -> None:
        """Sends back what a listener has had for too long; whatever it says later is too late."""
        while True:
            await trio.sleep(self._timeout)
            now = trio.current_time()
            for entry in self._under_way:
                if entry is not None and now - entry[2] >= self._timeout:
                    process, chunk, began = entry
                    log.error(
                        "a listener has had %s for %g s",
                        escape(described(chunk[0])),
                        now - began,
                        extra=about(
                            queue=chunk[0].queue_id,
                            topic=chunk[0].topic,
                            message_id=chunk[0].msg_id,
                        ),
                    )
                    for message in chunk:
                        if process.holds(message) and self._give_back is not None:
                            self._failed(process, message, STUCK_LEVEL)

    # The end.

    def is_busy(self) -> bool:
        return self._giving_back > 0 or any(self._under_way)
