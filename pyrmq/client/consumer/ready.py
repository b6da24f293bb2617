"""Messages that were pulled and wait for a worker or a loop: one line for all queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import trio

from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.errors import ClientError
from pyrmq.model.message import ReceivedMessage

CHUNKS_IN_A_ROW = 32
"""Chunks that are taken in a row before other tasks have a turn."""
Chunk = list[ReceivedMessage]


class Ready:
    """Chunks of at most `size` messages of one queue. No task is switched for a message that is
    there already, except once in `CHUNKS_IN_A_ROW`."""

    def __init__(self, size: int = 1) -> None:
        self._size = size
        self._line: deque[tuple[ProcessQueue, Chunk]] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self._waking = False
        """A task that waits was woken and has not run yet."""
        self._taken = 0
        self._closed = False

    def put(self, process: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Messages of one queue, in order."""
        size = self._size
        if size == 1:
            self._line.extend([(process, [message]) for message in messages])
        else:
            starts = range(0, len(messages), size)
            self._line.extend([(process, list(messages[at : at + size])) for at in starts])
        self._wake()

    def put_back(self, entries: Sequence[tuple[ProcessQueue, Chunk]]) -> None:
        """Chunks that were taken and are to come first again, in order."""
        self._line.extendleft(reversed(entries))
        self._wake()

    def _wake(self) -> None:
        """One at a time, and each the next: those that return at once need no help."""
        if self._line and not self._waking and self._waiting:
            self._waking = True
            self._waiting.unpark()

    def close(self) -> None:
        """Whoever waits, and will not be cancelled, has an error instead."""
        self._closed = True
        self._waiting.unpark_all()

    @property
    def messages(self) -> int:
        """Messages that wait here, at most."""
        return len(self._line) * self._size

    def take_now(self) -> tuple[ProcessQueue, Chunk] | None:
        """The next chunk of a queue that is still held; None if there is none, or other tasks are
        to have a turn first."""
        self._taken += 1
        return self.take_any() if self._taken % CHUNKS_IN_A_ROW else None

    def take_any(self) -> tuple[ProcessQueue, Chunk] | None:
        """The same without turns."""
        while self._line:
            entry = self._line.popleft()
            if not entry[0].dropped:
                self._wake()
                return entry
        return None

    async def take(self) -> tuple[ProcessQueue, Chunk]:
        """The same as `take_now`, as soon as there is one. ClientError once it is closed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._closed:
            entry = self.take_now()
            if entry is not None:
                return entry
            if self._line:
                self._wake()  # this task may be cancelled before it takes anything
                await trio.lowlevel.checkpoint()
            else:
                await self._waiting.park()
                self._waking = False
        raise ClientError("the consumer was left")
