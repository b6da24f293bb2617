"""`async for` over consumers."""

from __future__ import annotations

from typing import Protocol, Self

import trio

from pyrmq.client.consumer.process_queue import ProcessQueue
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
        self._call: object = None
        """The call that has taken it."""
        self._turn = trio.Lock()
        """Of calls from other threads: one that was given up ends before the next one begins."""
        self.seen: ReceivedMessage | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        message = self.seen = await self._next()
        return message

    async def next_unseen(self, call: object) -> ReceivedMessage:
        """The next message for a caller that may not get it: one that does sets `seen`. `call`: any
        object of its own, for `give_back`."""
        async with self._turn:
            message = await self._next()
            self._call = call
            return message

    async def _next(self) -> ReceivedMessage:
        self._consumer.check_entered()
        self.settle()
        self._current = await self._consumer.take()
        return self._current[1]

    async def give_back(self, call: object) -> None:
        """After a `next_unseen` that nobody waits for any more: others get what it took. What the
        call after it took is not touched: that may have its caller already."""
        async with self._turn:
            if self._call is call:
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
