"""What a consumer holds of one queue between pulling and consuming. [ProcessQueue]"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from pyrmq.model.message import MessageQueue, ReceivedMessage

MAX_MESSAGES = 1000
MAX_BYTES = 100 << 20
MAX_SPAN = 2000
"""pullThresholdForQueue, pullThresholdSizeForQueue, consumeConcurrentlyMaxSpan."""


class ProcessQueue:
    """Messages that were pulled and are not consumed yet, by offset.

    `commit_offset` is the offset below which everything is consumed: a message that is still
    worked on holds it back, whatever was finished behind it.
    """

    def __init__(self, queue: MessageQueue, start: int) -> None:
        self.queue = queue
        self.next_offset = start
        self.dropped = False
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self._pending: dict[int, int] = {}
        self._bytes = 0
        self._consumed = start
        self._room = trio.Event()

    def put(self, messages: Iterable[ReceivedMessage]) -> None:
        """Takes pulled messages, in order of their offsets."""
        for m in messages:
            self._pending[m.queue_offset] = len(m.body)
            self._bytes += len(m.body)

    def advance(self, offset: int) -> None:
        """Everything below `offset` was pulled (or is not wanted)."""
        self.next_offset = offset

    def finish(self, offset: int) -> None:
        """A message is consumed."""
        size = self._pending.pop(offset, None)
        if size is not None:
            self._bytes -= size
            self._room.set()

    def commit_offset(self) -> int:
        """Next offset to consume, for the broker. It never goes back."""
        first = next(iter(self._pending), self.next_offset)
        self._consumed = max(self._consumed, first)
        return self._consumed

    def is_full(self) -> bool:
        if len(self._pending) > MAX_MESSAGES or self._bytes > MAX_BYTES:
            return True
        first = next(iter(self._pending), self.next_offset)
        return self.next_offset - first > MAX_SPAN

    async def wait_for_room(self) -> None:
        """Returns when enough was consumed for the next pull."""
        while self.is_full():
            self._room = trio.Event()
            await self._room.wait()
