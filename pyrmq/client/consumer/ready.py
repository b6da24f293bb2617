"""Messages that were pulled and wait for a worker, a loop or a poll: one line for all queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import trio

from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue, ReceivedMessage

CHUNKS_IN_A_ROW = 32
"""Chunks that a task takes before other tasks may run."""
Chunk = list[ReceivedMessage]


class Held(Protocol):
    """Where messages come from: a queue that is pulled (`ProcessQueue`), or messages that were
    popped together (`Popped`)."""

    @property
    def queue(self) -> MessageQueue: ...

    @property
    def dropped(self) -> bool:
        """Whether results of its messages count for nothing."""
        ...

    def consume_began(self) -> None:
        """Messages of it are about to be consumed."""

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether this very message waits to be consumed."""
        ...

    def finish(self, offset: int) -> None:
        """A message is consumed."""


H = TypeVar("H", bound=Held)


class Ready(Generic[H]):
    """Chunks of at most `size` messages of one queue. No task is switched for a message that is
    there already, except once in `CHUNKS_IN_A_ROW`."""

    def __init__(self, size: int = 1) -> None:
        self._size = size
        self._line: deque[tuple[H, Chunk]] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self._waking = False
        """A task that waits was woken and has not run yet."""
        self._taken = 0
        self._closed = False

    def put(self, process: H, messages: Sequence[ReceivedMessage]) -> None:
        """Messages of one queue, in order."""
        size = self._size
        if size == 1:
            self._line.extend([(process, [message]) for message in messages])
        else:
            starts = range(0, len(messages), size)
            self._line.extend([(process, list(messages[at : at + size])) for at in starts])
        self._wake()

    def put_back(self, entries: Sequence[tuple[H, Chunk]]) -> None:
        """Chunks that were taken and are to come first again, in order."""
        self._line.extendleft(reversed(entries))
        self._wake()

    def _wake(self) -> None:
        """One at a time, and each the next: those that return at once need no help."""
        if self._line and not self._waking and self._waiting:
            self._waking = True
            self._waiting.unpark()

    def remove(self, unwanted: Callable[[H], bool]) -> None:
        """Chunks of these do not come any more."""
        self._line = deque(entry for entry in self._line if not unwanted(entry[0]))

    def close(self) -> None:
        """Those who wait and are not cancelled get a ClientError."""
        self._closed = True
        self._waiting.unpark_all()

    @property
    def messages(self) -> int:
        """Messages that wait here, at most."""
        return len(self._line) * self._size

    def take_now(self) -> tuple[H, Chunk] | None:
        """The next chunk of a queue that is still held; None if there is none, or if other tasks
        are to run first."""
        self._taken += 1
        return self.take_any() if self._taken % CHUNKS_IN_A_ROW else None

    def take_any(self) -> tuple[H, Chunk] | None:
        """As `take_now`, but other tasks need not run first."""
        while self._line:
            entry = self._line.popleft()
            if not entry[0].dropped:
                self._wake()
                return entry
        return None

    async def take(self) -> tuple[H, Chunk]:
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


Entry = tuple[ProcessQueue, Chunk]


class Polls:
    """Chunks of at most `size` messages. `finish_last` counts what the last `poll` returned as
    consumed, if its caller has `seen` it: the very chunk."""

    def __init__(self, size: int) -> None:
        self.seen: Chunk | None = None
        self._ready = Ready[ProcessQueue](size)
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
        self.finish_last()
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

    def finish_last(self) -> None:
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


class Source(Protocol[H]):
    """What messages are taken from, one by one."""

    def check_entered(self) -> None: ...

    async def take(self) -> tuple[H, ReceivedMessage]: ...

    def put_back(self, process: H, message: ReceivedMessage) -> None: ...

    def finish(self, process: H, message: ReceivedMessage) -> None: ...


class MessageIterator:
    """One loop over a consumer. Asking for the next message counts the one before as consumed, if
    its caller has `seen` it; one that got lost on its way to another thread comes again."""

    def __init__(self, consumer: Source[Any]) -> None:
        self._consumer = consumer
        self._current: tuple[Any, ReceivedMessage] | None = None
        self._call: object = None
        """The call that has taken it."""
        self._call_lock = trio.Lock()
        """Held by calls from other threads: one that was given up ends before the next begins."""
        self.seen: ReceivedMessage | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        message = self.seen = await self._next()
        return message

    async def next_unseen(self, call: object) -> ReceivedMessage:
        """The next message for a caller that may not get it: one that does sets `seen`. `call`: any
        object of its own, for `give_back`."""
        async with self._call_lock:
            message = await self._next()
            self._call = call
            return message

    async def _next(self) -> ReceivedMessage:
        self._consumer.check_entered()
        self.finish_last()
        self._current = await self._consumer.take()
        return self._current[1]

    async def give_back(self, call: object) -> None:
        """After a `next_unseen` that nobody waits for any more: others get what it took. What the
        call after it took is not touched: that may have its caller already."""
        async with self._call_lock:
            if self._call is call:
                self.finish_last()

    def finish_last(self) -> None:
        """The last message is consumed, or given back where nobody has seen it."""
        if self._current is None:
            return
        process, message = self._current
        self._current = None
        if message is self.seen:
            self._consumer.finish(process, message)
        else:
            self._consumer.put_back(process, message)
