"""Reading ranges of queues from a broker: what a task of a read through brokers does.

A range is cut into blocks of offsets. The next pull of several blocks is under way at any time,
and their answers are handed out in the order of the offsets, so rows of a queue stay in order. A
pull is an ordinary PULL_MESSAGE without long polling and without offsets of a group. Its answer,
records as they are in the log, goes to the engine in one piece: nothing here looks at a message.
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
    ProtocolError,
    PyrmqError,
    ResponseError,
)
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net.address import format_address
from spark_ext.broker.cluster import Cluster, number, pause
from spark_ext.broker.remoting import Connection, Ext

log = logging.getLogger(__name__)

GROUP = "TOOLS_CONSUMER"
"""The group of RocketMQ's tools, which every broker knows. Nothing is committed for it."""
SUBSCRIPTION = 0x4
"""The pull says by itself what it wants. [PullSysFlag]"""
BLOCK = 256
FILTERED_BLOCK = 8192
"""Offsets of a block; more where the broker leaves out messages by tag."""
WINDOW = 8
"""Blocks with a pull under way."""
AHEAD_BYTES = 32 << 20
"""Answers that are kept for later; with more of them only the first block goes on."""
REMOVING = "MESSAGE_WAS_REMOVING"
"""The status that a broker gives as the remark, where it answers the same code for a place whose
messages are deleted as for one where none has the tag. [PullMessageProcessor]"""
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
class Piece:
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
    pull: int | None = None
    """The number of the request under way."""
    got: deque[Piece] = field(default_factory=deque)
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
        self._connection: Connection | None = None
        self._told = False
        self._waited = False
        """Whether a place without a message was asked for again, so that each is not."""
        self._asking: _Block
        """Whose request it was, if one fails."""

    def pieces(self) -> Iterator[Piece]:
        """All records, by range and offset. Raises what the last of several tries gave, and
        DataLossError."""
        while True:
            while len(self._window) < WINDOW and (block := next(self._todo, None)) is not None:
                self._window.append(block)
            if not self._window:
                return
            head = self._window[0]
            while head.got:
                piece = head.got.popleft()
                self._kept -= len(piece.body)
                yield piece
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
        connection = self._connect(head)
        for block in self._window:
            if block.pull is None and not block.done:
                if block is not head and self._kept >= AHEAD_BYTES:
                    break
                self._asking = block
                block.pull = connection.submit(RequestCode.PULL_MESSAGE, self._fields(block))
        self._asking = head
        assert head.pull is not None
        answer = connection.wait(head.pull, self._cluster.access.timeout)
        head.pull = None
        self._take(head, answer)
        for block in list(self._window)[1:]:
            self._asking = block
            if block.pull is not None and (early := connection.take(block.pull)) is not None:
                block.pull = None
                self._take(block, early)

    def _connect(self, block: _Block) -> Connection:
        if self._connection is None:
            r = block.range
            address = self._cluster.address(r.topic, r.broker, fresh=block.tries > 0)
            self._connection = self._cluster.connections.get(address)
        return self._connection

    def _failed(self, block: _Block, error: PyrmqError) -> None:
        """Everything under way is asked for again, a bounded number of times."""
        block.tries += 1
        if not error.retriable or block.tries > self._cluster.access.retries:
            raise _named(error, block.range, self._connection) from error
        log.warning("%s: %s; trying again", escape(block.range), escape(error))
        if self._connection is not None:
            self._cluster.connections.drop(self._connection)
            self._connection = None
        for other in self._window:
            other.pull = None
        pause(block.tries)

    def _fields(self, block: _Block) -> Ext:
        r = block.range
        return {
            "consumerGroup": GROUP,
            "topic": r.topic,
            "queueId": r.queue_id,
            "queueOffset": block.at,
            "maxMsgNums": min(self._count, block.end - block.at),
            "sysFlag": SUBSCRIPTION,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": self._expression or "*",
            "subVersion": 0,
            "expressionType": "TAG",
            "bname": r.broker,
        }

    def _take(self, block: _Block, answer: Command) -> None:
        """Moves a block on by an answer to its pull."""
        code = answer.code
        if code == ResponseCode.SUCCESS:
            following = number(answer, "nextBeginOffset")
            if following <= block.at:
                raise ProtocolError(f"a pull at {block.at} goes on at {following}")
            least = number(answer, "minOffset")
            if least > block.at:
                self._lose(block, least, number(answer, "maxOffset"))
            end = min(following, block.end)
            overlaps = following > block.end
            self._kept += len(answer.body)
            block.got.append(Piece(block.range, block.at, end, answer.body, overlaps))
            block.at, block.stuck, block.tries = following, 0, 0
        elif code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            self._nothing_here(block, answer)
        elif code == ResponseCode.PULL_NOT_FOUND:
            self._not_found(block, answer)
        elif code == ResponseCode.PULL_OFFSET_MOVED:
            self._moved(block, answer)
        else:
            raise ResponseError.of(code, answer.remark or "")

    def _nothing_here(self, block: _Block, answer: Command) -> None:
        """Nothing that the tags select; or, without tags, places in the queue without a message:
        the log is being deleted there, or was damaged."""
        following, least = number(answer, "nextBeginOffset"), number(answer, "minOffset")
        if least > block.at:
            self._lose(block, least, number(answer, "maxOffset"))
        elif following <= block.at:
            raise ProtocolError(f"a pull at {block.at} goes on at {following}")
        elif self._expression is None or (answer.remark or "").endswith(REMOVING):
            # A queue's first offset follows some time after its log was deleted.
            if not self._waited and self._wait_for_more(block):
                return
            self._waited = True
            self._lost(f"{block.range}: the broker has no messages at {block.at} to {following}")
        block.at, block.stuck = max(following, least), 0

    def _not_found(self, block: _Block, answer: Command) -> None:
        """The queue ends before what was planned, or its files have a hole."""
        if not self._wait_for_more(block):
            least, most = number(answer, "minOffset"), number(answer, "maxOffset")
            self._check_replica(block, most)
            self._lose(block, least, most)
            block.at, block.stuck = max(number(answer, "nextBeginOffset"), least, block.at + 1), 0

    @staticmethod
    def _wait_for_more(block: _Block) -> bool:
        """Whether to ask once more, after a pause."""
        if block.stuck >= STUCK:
            return False
        block.stuck += 1
        pause(block.stuck)
        return True

    def _moved(self, block: _Block, answer: Command) -> None:
        """The broker has no such offset: deleted from the front, or the queue was made anew."""
        least, most = number(answer, "minOffset"), number(answer, "maxOffset")
        self._check_replica(block, most)
        self._lose(block, least, most)
        block.at = least if block.at < least else block.end

    def _check_replica(self, block: _Block, most: int) -> None:
        """ConnectError if it is a replica that does not have a block's messages yet."""
        r, connection = block.range, self._connection
        if most > block.at or connection is None:
            return
        if not self._cluster.is_master(r.topic, r.broker, connection.address):
            raise ConnectError(f"a replica answers, which has the queue up to {most} only")

    def _lose(self, block: _Block, least: int, most: int) -> None:
        text = (
            f"{block.range}: the broker has nothing at offset {block.at} any more; the queue now "
            f"has {min(least, most)} to {most}"
        )
        self._lost(text)

    def _lost(self, text: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(text)
        if not self._told:
            self._told = True
            log.warning("%s; going on with what there is", escape(text))


def _named(error: PyrmqError, place: QueueRange, connection: Connection | None) -> PyrmqError:
    if isinstance(error, DataLossError):
        return error
    where = format_address(connection.address) if connection is not None else "not connected"
    kind = ConnectError if error.retriable else ClientError
    return kind(f"broker {place.broker} ({where}): {error}, while reading {place}")
