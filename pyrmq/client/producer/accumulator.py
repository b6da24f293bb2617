"""Small messages of many sends in one request. [ProduceAccumulator]

Messages with the same topic, queue, tags and `wait_store_ok` share a batch. It leaves when no such
request is in flight, when it is full, or when its first message has waited for `batch_delay`. So a
single send does not wait, and many concurrent ones make large batches.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import trio

from pyrmq.client.producer.outgoing import Outgoing, Packer
from pyrmq.client.producer.pending import result_in_batch
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.model.message import Message, MessageQueue, SendResult
from pyrmq.net.tasks import Tasks

NOT_SENT = "the producer was left: it was not sent"
UNKNOWN = "the producer was left before the broker answered: it may have the message"
_Kind = tuple[str, MessageQueue | None, str | None, bool]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits have the names of `Producer`'s options."""

    batch_delay: float
    batch_bytes: int
    batch_total_bytes: int

    def within(self, max_message_size: int) -> BatchLimits:
        """The same for batches that may be sent. Raises ClientError for invalid limits. The ranges
        are RocketMQ's."""
        if not 0.001 <= self.batch_delay <= 30:
            raise ClientError("batch_delay is 0.001 to 30 seconds")
        if not 1 <= self.batch_bytes <= 2 << 20:
            raise ClientError("batch_bytes is 1 to 2 MiB")
        if self.batch_total_bytes < self.batch_bytes:
            raise ClientError("batch_total_bytes is at least batch_bytes")
        return replace(self, batch_bytes=min(self.batch_bytes, max_message_size))


class _Item:
    """A message of a batch, and the task that waits for its result. `index` is its position in the
    batch."""

    __slots__ = ("entry", "index", "waiter")

    def __init__(self, entry: tuple[str, bytes]) -> None:
        self.entry = entry
        self.index = -1
        self.waiter: trio.lowlevel.Task | None = None


@dataclass(slots=True, eq=False)
class _Batch:
    first: Message
    since: float
    items: list[_Item] = field(default_factory=list)
    bytes: int = 0
    result: SendResult | None = None
    offset_ids: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def wake_all(self) -> None:
        """Sets a result, or the failure, for every message."""
        for item in self.items:
            if item.waiter is not None:
                trio.lowlevel.reschedule(item.waiter)
                item.waiter = None


@dataclass(slots=True, eq=False)
class _Group:
    """The batch that is being collected for one kind, and the number of its batches in flight."""

    queue: MessageQueue | None
    batch: _Batch | None = None
    sending: int = 0
    running: bool = False
    wake: trio.Event = field(default_factory=trio.Event)


class Accumulator:
    """An async context manager. `deliver` sends a request to a queue, or to any."""

    def __init__(
        self,
        packer: Packer,
        limits: BatchLimits,
        deliver: Callable[[Outgoing, MessageQueue | None], Awaitable[SendResult]],
    ) -> None:
        self._packer = packer
        self._limits = limits
        self._deliver = deliver
        self._groups: dict[_Kind, _Group] = {}
        self._held = 0
        self._tasks = Tasks()

    async def __aenter__(self) -> Accumulator:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._tasks.__aexit__(*error)
        finally:
            for group in self._groups.values():
                if group.batch is not None:
                    group.batch.failure = ClientError(NOT_SENT)
                    group.batch.wake_all()

    def entry(self, message: Message) -> tuple[str, bytes] | None:
        """The id of a checked message, and its bytes in a batch; None if it must be sent alone."""
        entry = self._packer.batch_entry(message)
        size = len(message.body)
        if entry is None or size * 2 > self._limits.batch_bytes or not self._tasks.running:
            return None
        return entry if self._held + size <= self._limits.batch_total_bytes else None

    async def send(
        self, message: Message, entry: tuple[str, bytes], queue: MessageQueue | None
    ) -> SendResult:
        """The result of a message, given its `entry`."""
        item = _Item(entry)
        kind = (message.topic, queue, message.tags, message.wait_store_ok)
        batch = self._add(kind, message, item)

        def abort(_: object) -> trio.lowlevel.Abort:
            item.waiter = None
            if item.index < 0:  # it has not left
                batch.items.remove(item)
                batch.bytes -= len(item.entry[1])
                self._held -= len(item.entry[1])
            return trio.lowlevel.Abort.SUCCEEDED

        item.waiter = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)
        if batch.failure is not None:
            # Of its own: each has the traceback of whoever waited.
            raise copy.copy(batch.failure) from batch.failure
        result = batch.result
        assert result is not None
        return result_in_batch(result, item.index, item.entry[0], batch.offset_ids)

    def _add(self, kind: _Kind, message: Message, item: _Item) -> _Batch:
        group = self._groups.get(kind)
        if group is None:
            group = self._groups[kind] = _Group(kind[1])
        batch = group.batch
        size = len(item.entry[1])
        if batch is not None and batch.bytes + size > self._limits.batch_bytes:
            self._start(kind, group)
            batch = None
        if batch is None:
            batch = group.batch = _Batch(message, trio.current_time())
        batch.items.append(item)
        batch.bytes += size
        self._held += size
        if not group.running:
            group.running = True
            self._tasks.start_soon(self._run, kind, group)
        return batch

    async def _run(self, kind: _Kind, group: _Group) -> None:
        """Sends collected batches when it is time; ends when there are none."""
        await trio.lowlevel.checkpoint()  # whoever is about to send joins
        while group.batch is not None:
            batch = group.batch
            if group.sending:
                group.wake = trio.Event()
                with trio.move_on_at(batch.since + self._limits.batch_delay):
                    await group.wake.wait()
            if group.batch is batch:
                self._start(kind, group)
        group.running = False
        if not group.sending:
            self._groups.pop(kind, None)

    def _start(self, kind: _Kind, group: _Group) -> None:
        batch, group.batch = group.batch, None
        if batch is None or not batch.items:
            return
        for index, item in enumerate(batch.items):
            item.index = index
        group.sending += 1
        self._tasks.start_soon(self._send, kind, group, batch)

    async def _send(self, kind: _Kind, group: _Group, batch: _Batch) -> None:
        try:
            request = self._packer.batch_of(batch.first, [item.entry for item in batch.items])
            batch.result = await self._deliver(request, group.queue)
            batch.offset_ids = batch.result.offset_msg_id.split(",")
        except PyrmqError as e:
            batch.failure = e
        finally:
            if batch.result is None and batch.failure is None:
                batch.failure = ClientError(UNKNOWN)
            self._held -= batch.bytes
            group.sending -= 1
            batch.wake_all()
            group.wake.set()
            if not group.sending and not group.running:
                self._groups.pop(kind, None)
