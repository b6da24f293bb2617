"""Messages that `send_soon` has taken, and their results, which are computed when somebody asks."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import trio

from pyrmq.client.producer.outgoing import Outgoing
from pyrmq.model.message import Message, SendResult

CHECKPOINT_EVERY = 64
"""Messages that wait for nothing between two checkpoints."""
KEPT_CAUSES = 16
_LOCK = threading.Lock()
"""For failures that several threads ask for."""


def _in_forked_child() -> None:
    global _LOCK
    _LOCK = threading.Lock()  # somebody may have had it who is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def result_in_batch(
    batch: SendResult, index: int, msg_id: str, offset_ids: Sequence[str]
) -> SendResult:
    """The result of one message, from that of its batch. `offset_ids`: the ids that the broker
    gave."""
    return SendResult(
        batch.status,
        msg_id,
        offset_ids[index] if index < len(offset_ids) else "",
        batch.queue,
        batch.queue_offset + index,
        None,
        batch.region_id,
        batch.trace_on,
    )


@dataclass(slots=True, eq=False)
class _Failed:
    """Messages that failed for the same reason, and whose results were never awaited."""

    count: int
    cause: Exception


class Failures:
    """Failures that were never awaited, until they are reported. It keeps the first causes; further
    failures count with the last one."""

    def __init__(self) -> None:
        self._kept: list[_Failed] = []

    def add(self, count: int, cause: Exception) -> _Failed:
        with _LOCK:
            self._kept = [failed for failed in self._kept if failed.count]
            if len(self._kept) < KEPT_CAUSES:
                self._kept.append(_Failed(count, cause))
            else:
                self._kept[-1].count += count
            return self._kept[-1]

    def take(self) -> tuple[int, Exception | None]:
        """Their number and the first cause; they then count as reported."""
        with _LOCK:
            left = [failed for failed in self._kept if failed.count]
            self._kept = []
            return sum(f.count for f in left), left[0].cause if left else None


class Batch:
    """Messages of one request: `entries` of a batch, or one message as `request`."""

    __slots__ = (
        "_asked",
        "_ended",
        "_failed",
        "_ids",
        "_offset_ids",
        "bytes",
        "ended",
        "entries",
        "failure",
        "head",
        "request",
        "result",
        "since",
    )

    def __init__(self, head: Message, since: float) -> None:
        self.head = head
        """Topic and `wait_store_ok` of all messages."""
        self.since = since
        self.entries: list[tuple[str, bytes]] = []
        self.bytes = 0
        self.request: Outgoing | None = None
        self.result: SendResult | None = None
        self.failure: Exception | None = None
        self.ended = False
        """Set last, because other threads read it."""
        self._ended: trio.Event | None = None
        self._ids: list[str] = []
        self._offset_ids: list[str] = []
        self._asked: set[int] = set()
        self._failed: _Failed | None = None

    async def wait(self) -> None:
        """Returns when the batch has ended."""
        if self.ended:
            return
        if self._ended is None:
            self._ended = trio.Event()
        await self._ended.wait()

    async def wait_for(self, index: int) -> None:
        """The same for one of its messages; its failure then counts as awaited."""
        self._asked.add(index)
        try:
            await self.wait()
        except trio.Cancelled:
            if not self.ended:
                self._asked.discard(index)
            raise

    def complete(self, failures: Failures) -> None:
        """Sets `result` or `failure`. It leaves the messages as they are."""
        if self.failure is not None:
            count = 1 if self.request is not None else len(self.entries)
            self._failed = failures.add(count - len(self._asked), self.failure)
        self.entries = []
        if self.request is not None:
            self.request = _ALONE
        self.ended = True
        if self._ended is not None:
            self._ended.set()

    def result_of(self, index: int) -> SendResult:
        """The result of one message, or its error; the batch has ended."""
        if self.failure is not None:
            with _LOCK:
                if index not in self._asked:
                    self._asked.add(index)
                    if self._failed is not None:
                        self._failed.count -= 1
            # Of its own: each has the traceback of whoever asked.
            raise copy.copy(self.failure) from self.failure
        result = self.result
        assert result is not None
        if self.request is not None:
            return result
        if not self._ids:
            self._offset_ids = result.offset_msg_id.split(",")
            self._ids = result.msg_id.split(",")
        return result_in_batch(result, index, self._ids[index], self._offset_ids)


_ALONE = Outgoing(0, "", "", "", b"")
"""Replaces a request that was answered, so that its body is not kept."""


class PendingSend:
    """A message that `send_soon` has taken.

    `await pending.result()`, or `await pending`, gives its SendResult or raises its error, at any
    time and any number of times, also after the producer was closed. Cancelling that wait does not
    take the message back.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._batch.ended

    async def result(self) -> SendResult:
        """The SendResult. Raises the errors of `send`."""
        batch, index = self._batch, self._index
        if not batch.ended:
            await batch.wait_for(index)
        elif not index % CHECKPOINT_EVERY:
            await trio.lowlevel.checkpoint()
        return batch.result_of(index)

    def __await__(self) -> Generator[Any, Any, SendResult]:
        return self.result().__await__()

    def result_now(self) -> SendResult:
        """The same for any thread, once `done`."""
        return self._batch.result_of(self._index)
