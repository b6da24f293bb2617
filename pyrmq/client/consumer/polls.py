"""Messages on their way to who polls: those of paused queues stand aside, and what a caller has not
received comes again."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.client.consumer.ready import Chunk, Ready
from pyrmq.model.message import ReceivedMessage

Entry = tuple[ProcessQueue, Chunk]


class Polls:
    """Chunks of at most `size` messages. What the last `poll` returned is consumed once it is
    settled, if its caller has `seen` it: the very chunk."""

    def __init__(self, size: int) -> None:
        self.seen: Chunk | None = None
        self._ready = Ready(size)
        self._aside: list[Entry] = []
        self._polled: Entry | None = None

    @property
    def messages(self) -> int:
        """Messages that wait here, at most."""
        return self._ready.messages

    def put(self, process: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Messages of one queue, in order."""
        self._ready.put(process, messages)

    def put_back(self, process: ProcessQueue, chunk: Chunk) -> None:
        """What was taken and is to come first again."""
        self._ready.put_back([(process, chunk)])

    def close(self) -> None:
        """Who waits has a ClientError."""
        self._ready.close()

    async def poll(self, timeout: float) -> Chunk:
        """The next chunk; none if there is none in so many seconds."""
        self.settle()
        self._polled = self._take_any()
        if self._polled is None:
            with trio.move_on_after(timeout):
                self._polled = await self._take()
        return [] if self._polled is None else self._polled[1]

    async def take(self) -> tuple[ProcessQueue, ReceivedMessage]:
        """The next message; what else was taken with it is there for whoever asks next."""
        process, chunk = await self._take()
        if len(chunk) > 1:
            self.put_back(process, chunk[1:])
        return process, chunk[0]

    def settle(self) -> None:
        """What was polled last is consumed, or given back where nobody has seen it."""
        if self._polled is None:
            return
        process, chunk = self._polled
        self._polled = None
        if chunk is not self.seen:
            self.put_back(process, chunk)
            return
        for message in chunk:
            process.finish(message.queue_offset)

    def forget(self, process: ProcessQueue) -> None:
        """What was polled of a queue last is not consumed, and does not come again here."""
        if self._polled is not None and self._polled[0] is process:
            self._polled = None

    async def _take(self) -> Entry:
        while True:
            entry = await self._ready.take()
            if not entry[0].paused:
                return entry
            self._aside.append(entry)

    def _take_any(self) -> Entry | None:
        """What `_take` returns at once; None if it would have to wait."""
        while (entry := self._ready.take_any()) is not None:
            if not entry[0].paused:
                return entry
            self._aside.append(entry)
        return None

    def resume(self) -> None:
        """Queues are not paused any more."""
        self._ready.put_back([entry for entry in self._aside if not entry[0].paused])
        self._aside = [entry for entry in self._aside if entry[0].paused]

    def drop(self) -> None:
        """Queues were given up."""
        self._aside = [entry for entry in self._aside if not entry[0].dropped]
