"""Where the messages of a push consumer go: to its listener, or to loops over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from pyrmq.client.consumer.consume_concurrently import ConsumeConcurrently
from pyrmq.client.consumer.consume_orderly import ConsumeOrderly
from pyrmq.client.consumer.consume_service import Caller
from pyrmq.client.consumer.loop import Loops
from pyrmq.client.consumer.member import Member
from pyrmq.client.consumer.options import PushOptions
from pyrmq.client.consumer.pop.pop_back import PopBack
from pyrmq.client.consumer.pop.popped import Popped
from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.client.consumer.ready import Held
from pyrmq.client.consumer.send_back import SendBack
from pyrmq.model.message import ReceivedMessage

if TYPE_CHECKING:
    from pyrmq.client.hooks import Observer


class Delivery:
    """`call` None: the messages are for loops. What is delivered while it is `suspended` waits. A
    popped message that was delivered too often goes to the dead-letter topic instead."""

    def __init__(
        self,
        member: Member,
        send_back: SendBack,
        call: Caller | None,
        options: PushOptions,
        observer: Observer | None,
    ) -> None:
        self.loops = Loops(member.check_entered, observer)
        self.suspended = False
        self._member = member
        self._send_back = send_back
        self._options = options
        self._observer = observer
        self._aside: list[Callable[[], None]] = []
        self._pop_back: PopBack | None = None
        if member.pops is not None:
            self._pop_back = PopBack(member.pops.acks, send_back, options.max_times)
        self._concurrent: ConsumeConcurrently | None = None
        self._orderly: ConsumeOrderly | None = None
        if call is not None and options.orderly:
            self._orderly = self._make_orderly(call)
        elif call is not None:
            back = None if options.broadcasting else self.give_back
            self._concurrent = ConsumeConcurrently(
                member.tasks, call, back, member.statistics, options, observer
            )
        self._service = self._concurrent or self._orderly

    def _make_orderly(self, call: Caller) -> ConsumeOrderly:
        member, options = self._member, self._options
        back = None if options.broadcasting else self._send_back
        locked = (lambda process: True) if member.locks is None else member.locks.valid
        return ConsumeOrderly(
            member.tasks, call, back, member.statistics, locked, options, self._observer
        )

    @property
    def has_listener(self) -> bool:
        return self._service is not None

    def start(self) -> None:
        """The listener may be called from now on."""
        if self._service is not None:
            self._service.start()

    async def close(self, grace: float) -> None:
        """Gives running calls of the listener so many seconds to end."""
        self.loops.close()
        if self._service is not None:
            with trio.CancelScope(shield=True):
                await self._service.close(grace)

    def pulled(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Messages of a queue, in order."""
        if self.suspended:  # a pull was under way
            self._aside.append(lambda: self.pulled(process, messages))
        elif self._orderly is not None:
            self._orderly.deliver(process, messages)
        else:
            self._deliver(process, messages)

    def popped(self, popped: Popped, messages: list[ReceivedMessage]) -> None:
        """Messages that were popped together, in order."""
        if self.suspended:
            self._aside.append(lambda: self.popped(popped, messages))
        else:
            self._deliver(popped, messages)

    def _deliver(self, held: Held, messages: list[ReceivedMessage]) -> None:
        (self._concurrent or self.loops).deliver(held, messages)

    def resume(self) -> None:
        """Delivers what has waited."""
        self.suspended = False
        aside, self._aside = self._aside, []
        for deliver in aside:
            deliver()

    def drop_popped(self, topic: str) -> None:
        """Popped messages of a topic that nobody has begun are not consumed: they come again."""

        def is_dropped(held: Held) -> bool:
            return isinstance(held, Popped) and held.queue.topic == topic

        (self._concurrent or self.loops).remove(is_dropped)

    def overdue(self, popped: Popped, message: ReceivedMessage) -> bool:
        """Whether a popped message was delivered too often, and whoever had it last did not come to
        that: it goes to the dead-letter topic now."""
        if self._pop_back is None or not self._pop_back.is_overdue(message):
            return False
        self._member.tasks.start_soon(self._pop_back, popped, message)
        return True

    async def give_back(self, held: Held, message: ReceivedMessage, level: int) -> None:
        """Gives a failed message back and settles it. PyrmqError."""
        if isinstance(held, Popped):
            assert self._pop_back is not None
            await self._pop_back(held, message, level)
        else:
            await self._send_back(held.queue, message, level)
            held.finish(message.queue_offset)
