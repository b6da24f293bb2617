"""What loops over a push consumer take their messages from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyrmq.client.consumer.ready import Held, Ready
from pyrmq.model.message import ReceivedMessage

if TYPE_CHECKING:
    from pyrmq.client.hooks import Observer


class Loops:
    """The messages of one consumer, for all its loops. `check_entered` raises ClientError while the
    consumer is not connected."""

    def __init__(self, check_entered: Callable[[], None], observer: Observer | None) -> None:
        self.check_entered = check_entered
        self._observer = observer
        self._ready = Ready[Held]()
        self._observed: dict[int, tuple[ReceivedMessage, Any]] = {}
        """Messages that loops have, by the message's id()."""

    def deliver(self, process: Held, messages: Sequence[ReceivedMessage]) -> None:
        """Messages of one queue, in order."""
        self._ready.put(process, messages)

    def remove(self, unwanted: Callable[[Held], bool]) -> None:
        """Messages of these that no loop has are not consumed."""
        self._ready.remove(unwanted)

    def close(self) -> None:
        """Loops that wait raise ClientError."""
        self._ready.close()

    async def take(self) -> tuple[Held, ReceivedMessage]:
        """The next message, with its place for `finish` or `put_back`."""
        process, (message,) = await self._ready.take()
        if self._observer is not None:
            self._observed[id(message)] = message, self._observer.consuming([message])
        return process, message

    def put_back(self, process: Held, message: ReceivedMessage) -> None:
        """Returns a taken message, so that it comes again."""
        _, consuming = self._observed.pop(id(message), (None, None))
        if self._observer is not None and consuming is not None:
            self._observer.unseen(consuming)
        self._ready.put_back([(process, [message])])

    def finish(self, process: Held, message: ReceivedMessage) -> None:
        """A taken message is consumed."""
        process.finish(message.queue_offset)
        self.ended(message, done=True)

    def ended(self, message: ReceivedMessage, *, done: bool) -> None:
        """Tells the observer that a taken message is consumed, or was sent back."""
        if self._observer is not None and id(message) in self._observed:
            _, consuming = self._observed.pop(id(message))
            self._observer.listened(consuming, done)
