"""`async for` over a push consumer."""

from __future__ import annotations

from typing import Protocol, Self

from pyrmq.client.process_queue import ProcessQueue
from pyrmq.model.message import ReceivedMessage


class Source(Protocol):
    """What messages are taken from."""

    def check_entered(self) -> None: ...

    async def take(self) -> tuple[ProcessQueue, ReceivedMessage]: ...


class MessageIterator:
    """One loop over a consumer. Asking for the next message acknowledges the one before."""

    def __init__(self, consumer: Source) -> None:
        self._consumer = consumer
        self._current: tuple[ProcessQueue, ReceivedMessage] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        self._consumer.check_entered()
        if self._current is not None:
            process, message = self._current
            self._current = None
            process.finish(message.queue_offset)
        self._current = await self._consumer.take()
        return self._current[1]
