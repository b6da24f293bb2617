"""Reading ranges of queues from a broker: what a task of a read through brokers does.

A range is cut into blocks of offsets. The next pull of several blocks is under way at any time,
and their answers are handed out in the order of the offsets, so rows of a queue stay in order. A
pull is an ordinary PULL_MESSAGE without long polling and without offsets of a group. Its answer,
records as they are in the log, goes to the engine as it is: nothing here reads a message.
[PullMessageProcessor, DefaultMQPullConsumerImpl]
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyrmq.engine import Command
from pyrmq.errors import (
    ClientError,
    ConnectError,
    DataLossError,
    PyrmqError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.model.retry import may_request_again
from pyrmq.model.subscription import ALL
from pyrmq.net.address import format_address
from pyrmq.net.client.blocking_channel import BlockingChannel
from pyrmq.net.client.protocol import Ext, Request
from pyrmq.net.client.requests import (
    PullAnswer,
    PullStatus,
    pull_fields,
    read_pull,
)
from spark_ext.broker.cluster import Cluster

log = logging.getLogger(__name__)

BLOCK = 256
FILTERED_BLOCK = 8192
"""Offsets of a block; more where the broker leaves out messages by tag."""
WINDOW = 8
"""Blocks with a pull under way."""
AHEAD_BYTES = 32 << 20
"""Answers that are kept for later; with more of them only the first block continues."""
STUCK = 3
"""Answers in a row that bring a range no further, after which it is taken to be gone."""


@dataclass(frozen=True)
class QueueRange:
    """Offsets [start, end) of one queue."""

    topic: str
    broker: str
    queue_id: int
    start: int
    end: int

    def __str__(self) -> str:
        place = f"topic {self.topic}, broker {self.broker}, queue {self.queue_id}"
        return f"{place}, offsets {self.start} to {self.end}"


@dataclass(frozen=True)
class PulledRecords:
    """Records of `range` with queue offsets in [start, end), as they came; others may be among
    them, and are not wanted."""

    range: QueueRange
    start: int
    end: int
    body: bytes
    overlaps: bool
    """Whether there may be records beyond `end` or before `start` in it."""


@dataclass(slots=True)
class _Block:
    range: QueueRange
    start: int
    end: int
    at: int
    """The next offset to pull."""
    pull: Request | None = None
    """The request under way."""
    got: deque[PulledRecords] = field(default_factory=deque)
    stuck: int = 0
    tries: int = 0

    @property
    def done(self) -> bool:
        return self.at >= self.end


def blocks(ranges: list[QueueRange], size: int) -> Iterator[_Block]:
    for r in ranges:
        for start in range(r.start, r.end, size):
            yield _Block(r, start, min(start + size, r.end), start)


class Puller:
    """Pulls ranges of one broker's queues. `expression` is a tag expression, None for all."""

    def __init__(
        self,
        cluster: Cluster,
        ranges: list[QueueRange],
        *,
        expression: str | None,
        batch_size: int,
        fail_on_data_loss: bool,
    ) -> None:
        self._cluster = cluster
        self._expression = expression
        self._count = batch_size
        self._fail_on_data_loss = fail_on_data_loss
        self._todo = blocks(ranges, BLOCK if expression is None else FILTERED_BLOCK)
        self._window: deque[_Block] = deque()
        self._kept = 0
        self._channel: BlockingChannel | None = None
        self._logged = False
        self._waited = False
        """Whether a place without a message was asked for again, so that each is not."""
        self._asking: _Block
        """Whose request it was, if one fails."""

    def results(self) -> Iterator[PulledRecords]:
        """All records, by range and offset. Raises what the last of several tries gave, and
        DataLossError."""
        while True:
            while len(self._window) < WINDOW and (block := next(self._todo, None)) is not None:
                self._window.append(block)
            if not self._window:
                return
            head = self._window[0]
            while head.got:
                records = head.got.popleft()
                self._kept -= len(records.body)
                yield records
            if head.done:
                self._window.popleft()
                continue
            self._asking = head
            try:
                self._advance(head)
            except PyrmqError as error:
                self._failed(self._asking, error)

    def _advance(self, head: _Block) -> None:
        """Keeps pulls under way and waits for the answer to the first."""
        channel = self._connect(head)
        for block in self._window:
            if block.pull is None and not block.done:
                if block is not head and self._kept >= AHEAD_BYTES:
                    break
                self._asking = block
                block.pull = channel.submit(RequestCode.PULL_MESSAGE, self._fields(block))
        self._asking = head
        assert head.pull is not None
        answer = channel.wait(head.pull, self._cluster.access.timeout)
        head.pull = None
        self._take(head, answer)
        for block in list(self._window)[1:]:
            self._asking = block
            if block.pull is not None and (early := channel.take(block.pull)) is not None:
                block.pull = None
                self._take(block, early)

    def _connect(self, block: _Block) -> BlockingChannel:
        if self._channel is None:
            r = block.range
            address = self._cluster.address(r.topic, r.broker, fresh=block.tries > 0)
            self._channel = self._cluster.channels.get(address)
        return self._channel

    def _failed(self, block: _Block, error: PyrmqError) -> None:
        """Everything under way is asked for again, a bounded number of times."""
        block.tries += 1
        seconds = self._cluster.policy.pause(block.tries) if may_request_again(error) else None
        if seconds is None:
            raise _named(error, block.range, self._channel) from error
        log.warning("%s: %s; trying again", escape(block.range), escape(error))
        if self._channel is not None:
            self._cluster.channels.drop(self._channel)
            self._channel = None
        for other in self._window:
            other.pull = None
        self._cluster.channels.pause(seconds)

    def _fields(self, block: _Block) -> Ext:
        r = block.range
        return pull_fields(
            r.topic,
            r.queue_id,
            block.at,
            min(self._count, block.end - block.at),
            broker=r.broker,
            expression=self._expression or ALL,
        )

    def _take(self, block: _Block, answer: Command) -> None:
        """Moves a block on by an answer to its pull."""
        pulled = read_pull(answer)
        if pulled.status is PullStatus.FOUND:
            self._found(block, pulled)
        elif pulled.status is PullStatus.NO_MATCHED_MESSAGE:
            self._nothing_here(block, pulled)
        elif pulled.status is PullStatus.NO_NEW_MESSAGE:
            self._not_found(block, pulled)
        else:
            self._moved(block, pulled)

    def _found(self, block: _Block, pulled: PullAnswer) -> None:
        following = pulled.next_beyond(block.at)
        if pulled.min_offset > block.at:
            self._lose(block, pulled)
        end = min(following, block.end)
        overlaps = following > block.end
        self._kept += len(pulled.body)
        block.got.append(PulledRecords(block.range, block.at, end, pulled.body, overlaps))
        block.at, block.stuck, block.tries = following, 0, 0

    def _nothing_here(self, block: _Block, pulled: PullAnswer) -> None:
        """Nothing that the tags select; or, without tags, places in the queue without a message:
        the log is being deleted there, or was damaged."""
        least = pulled.min_offset
        if least > block.at:
            self._lose(block, pulled)
            block.at, block.stuck = max(pulled.next_offset, least), 0
            return
        following = pulled.next_beyond(block.at)
        if self._expression is None or pulled.is_removing:
            # A queue's first offset follows some time after its log was deleted.
            if not self._waited and self._wait_for_more(block):
                return
            self._waited = True
            self._lost(f"{block.range}: the broker has no messages at {block.at} to {following}")
        block.at, block.stuck = following, 0

    def _not_found(self, block: _Block, pulled: PullAnswer) -> None:
        """The queue ends before what was planned, or its files have a hole."""
        if not self._wait_for_more(block):
            self._check_replica(block, pulled.max_offset)
            self._lose(block, pulled)
            block.at = max(pulled.next_offset, pulled.min_offset, block.at + 1)
            block.stuck = 0

    def _wait_for_more(self, block: _Block) -> bool:
        """Whether to ask once more, after a pause."""
        if block.stuck >= STUCK:
            return False
        block.stuck += 1
        self._cluster.channels.pause(self._cluster.policy.pause_after(block.stuck))
        return True

    def _moved(self, block: _Block, pulled: PullAnswer) -> None:
        """The broker has no such offset: deleted from the front, or the queue was made anew."""
        self._check_replica(block, pulled.max_offset)
        self._lose(block, pulled)
        block.at = pulled.min_offset if block.at < pulled.min_offset else block.end

    def _check_replica(self, block: _Block, most: int) -> None:
        """ConnectError if it is a replica that does not have a block's messages yet."""
        r, channel = block.range, self._channel
        if most > block.at or channel is None:
            return
        if not self._cluster.is_master(r.topic, r.broker, channel.address):
            raise ConnectError(f"a replica answers, which has the queue up to {most} only")

    def _lose(self, block: _Block, pulled: PullAnswer) -> None:
        least, most = pulled.min_offset, pulled.max_offset
        text = (
            f"{block.range}: the broker has nothing at offset {block.at} any more; the queue now "
            f"has {min(least, most)} to {most}"
        )
        self._lost(text)

    def _lost(self, text: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(text)
        if not self._logged:
            self._logged = True
            log.warning("%s; continuing with the messages available", escape(text))


def _named(error: PyrmqError, place: QueueRange, channel: BlockingChannel | None) -> PyrmqError:
    if isinstance(error, DataLossError):
        return error
    where = format_address(channel.address) if channel is not None else "not connected"
    kind = ConnectError if error.retriable else ClientError
    return kind(f"broker {place.broker} ({where}): {error}, while reading {place}")
