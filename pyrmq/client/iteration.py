"""`async for` over consumers."""

from __future__ import annotations

from typing import Protocol, Self

import trio

from pyrmq.client.process_queue import ProcessQueue
from pyrmq.model.message import ReceivedMessage


class Source(Protocol):
    """What messages are taken from, one by one."""

    def check_entered(self) -> None: ...

    async def take(self) -> tuple[ProcessQueue, ReceivedMessage]: ...

    def put_back(self, process: ProcessQueue, message: ReceivedMessage) -> None: ...

    def finish(self, process: ProcessQueue, message: ReceivedMessage) -> None: ...


class MessageIterator:
    """One loop over a consumer. Asking for the next message counts the one before as consumed, if
    its caller has `seen` it; one that got lost on its way to another thread comes again."""

    def __init__(self, consumer: Source) -> None:
        self._consumer = consumer
        self._current: tuple[ProcessQueue, ReceivedMessage] | None = None
        self.seen: ReceivedMessage | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        message = self.seen = await self._next()
        return message

    async def next_unseen(self) -> ReceivedMessage:
        """The next message for a caller that may not get it: one that does sets `seen`."""
        await trio.lowlevel.checkpoint()  # a call that was given up comes to its end before
        return await self._next()

    async def _next(self) -> ReceivedMessage:
        self._consumer.check_entered()
        self.settle()
        self._current = await self._consumer.take()
        return self._current[1]

    async def give_back(self) -> None:
        """After a `next_unseen` that nobody waits for any more: others get what it took."""
        await trio.lowlevel.checkpoint()
        self.settle()

    def settle(self) -> None:
        """The last message is consumed, or given back where nobody has seen it."""
        if self._current is None:
            return
        process, message = self._current
        self._current = None
        if message is self.seen:
            self._consumer.finish(process, message)
        else:
            self._consumer.put_back(process, message)
