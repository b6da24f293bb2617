"""What a member holds of messages that it has popped, and of the queues that it pops.
[PopProcessQueue]"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import trio

from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import MessageQueue, ReceivedMessage
from pyrmq.model.pop import ExtraInfo
from pyrmq.net.backoff import Backoff
from pyrmq.net.clock import now_ms

log = logging.getLogger(__name__)


class Popped:
    """Messages of one check point, which nobody else gets before `deadline`, on trio's clock.
    Workers and loops use it as they use a `ProcessQueue`."""

    def __init__(
        self,
        owner: PopQueue,
        handle: ExtraInfo,
        deadline: float,
        acknowledge: Callable[[Popped, int], None],
    ) -> None:
        topic = owner.queue.topic
        self.queue = MessageQueue(topic, handle.broker_name, handle.queue_id)
        self.owner = owner
        self._deadline = deadline
        self._handle = handle
        self._acknowledge = acknowledge
        self._messages: dict[int, ReceivedMessage] = {}

    def add(self, message: ReceivedMessage) -> None:
        """The message waits to be consumed."""
        self._messages[message.queue_offset] = message
        self.owner.waiting += 1

    def handle_of(self, offset: int) -> ExtraInfo:
        """The handle of one of its messages, whatever a listener has done to the properties."""
        return replace(self._handle, offset=offset)

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits any more."""
        return not self._messages

    def cached(self) -> tuple[int, int]:
        """How many messages wait, and the bytes of their bodies; for any thread."""
        waiting = list(self._messages.values())
        return len(waiting), sum(len(message.raw_body) for message in waiting)

    @property
    def expired(self) -> bool:
        """Whether other members may get the messages."""
        return trio.current_time() >= self._deadline

    @property
    def dropped(self) -> bool:
        """Whether results of its messages count for nothing. What waits longer than the invisible
        time is not consumed: it comes again."""
        if not self.expired:
            return False
        if self._messages:
            log.warning(
                "%d messages of %s come again: their invisible time ended before they were "
                "consumed",
                len(self._messages), escape(self.queue), extra=about(queue=self.queue),
            )  # fmt: skip
            self.forget()
        return True

    def consume_began(self) -> None:
        """Messages of it are about to be consumed."""
        self.owner.last_consume = now_ms()

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether this very message waits here to be settled."""
        return self._messages.get(message.queue_offset) is message and not self.expired

    def finish(self, offset: int) -> None:
        """A message is consumed: it is acknowledged soon."""
        if self.release(offset):
            self._acknowledge(self, offset)

    def release(self, offset: int) -> bool:
        """Nothing more is done for a message; whether it waited here."""
        if self._messages.pop(offset, None) is None:
            return False
        self.owner.settled(1)
        return True

    def forget(self) -> None:
        """Nothing more is done for any of its messages: they come again."""
        self.owner.settled(len(self._messages))
        self._messages.clear()


REFUSED_PAUSE, LONGEST_REFUSED_PAUSE = 1.0, 10.0
"""Seconds until a pop that a broker refused is tried again."""
LOST_PAUSE, LONGEST_LOST_PAUSE = 0.1, 1.0
"""The same without a connection."""


class PopQueue:
    """A queue that is popped, or all queues that a broker has of a topic. `waiting`: messages that
    were popped and are not settled; popping pauses while they are more than `most`."""

    def __init__(self, queue: MessageQueue, most: int) -> None:
        self.queue = queue
        self.scope = trio.CancelScope()
        self.begun = trio.Event()
        """It is known where its queues begin."""
        self.dropped = False
        """No further pop begins."""
        self.paused = False
        self.waiting = 0
        self.last_pop = self.last_consume = now_ms()
        self.paused_by: dict[str, int] = {}
        """How often popping paused, by the reason."""
        self._most = most
        self._room = trio.Event()
        self._refused = Backoff(REFUSED_PAUSE, LONGEST_REFUSED_PAUSE)
        self._lost = Backoff(LOST_PAUSE, LONGEST_LOST_PAUSE)

    def failed(self, is_lost: bool) -> float:
        """A pop has failed, without a connection or with one: the next is due in so many
        seconds."""
        return (self._lost if is_lost else self._refused).next()

    def succeeded(self) -> None:
        """A pop was answered."""
        self._lost.reset()
        self._refused.reset()

    def pop_began(self) -> None:
        """A pop is sent."""
        self.last_pop = now_ms()

    def settled(self, count: int) -> None:
        """So many messages do not wait any more."""
        self.waiting -= count
        self._room.set()

    def pause(self, paused: bool) -> None:
        """Nothing is popped from now on, or again."""
        self.paused = paused
        self._room.set()

    def full(self) -> str | None:
        """Why popping pauses; None while it does not."""
        if self.paused:
            return "user"
        return "messages" if self.waiting > self._most else None

    def drop(self) -> None:
        """No further pop begins."""
        self.dropped = True
        self._room.set()

    async def wait_for_room(self) -> None:
        """Returns when the next pop may begin, or the queue is dropped."""
        while not self.dropped and (limit := self.full()) is not None:
            self.paused_by[limit] = self.paused_by.get(limit, 0) + 1
            self._room = trio.Event()
            await self._room.wait()
