"""A page of the messages of a topic, the newest or the oldest of all its queues first.

Each queue is read in pieces from the end where the page begins, and the pieces are merged by store
time. A page ends early if it has read enough: messages may be large, and a filter may leave out
nearly all. Where the next page begins is a position in each queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.link import AT_ONCE
from pyrmq.console.messages.stored import pull
from pyrmq.errors import ClientError, PyrmqError, TopicNotExistError
from pyrmq.model.message import MessageQueue
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.subscription import Subscription

PAGE = 50
MOST_QUEUES = 256
"""Queues that one page reads."""
MOST_SCANNED = 10_000
"""Offsets that are read for one page, at most, where a filter leaves messages out."""
MOST_BYTES = 24 << 20
"""Stored bytes that are read for one page, about."""
PIECE = 32
"""Messages that are read of a queue at a time, at most."""
PIECE_BYTES = 256 << 10
"""What a piece should have, about."""
HEAD = 1 << 10
"""Bytes of each body that are kept."""
MAX_CURSOR = 12_000
Wants = Callable[[ReceivedMessage], bool]
Positions = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which messages are listed. begin, end: stored from this time on, before that time; ms since
    1970. broker, queue_id: only of this broker, of this queue number. tags: such as `A || B`.
    cursor: where the page begins; empty: at the end (`newest`) or at the beginning."""

    topic: str
    broker: str = ""
    queue_id: int | None = None
    begin: int | None = None
    end: int | None = None
    offset: int | None = None
    """Of the queue that is named: the oldest message that is listed, if it lists the oldest first,
    otherwise the newest one."""
    tags: str = ""
    newest: bool = True
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """One page. Bodies are cut to HEAD bytes. `total`: offsets in the range, with those that the
    filter leaves out. `next`: the cursor of the following page, empty at the end. `early`: why it
    is not full although there is more."""

    messages: list[ReceivedMessage]
    total: int
    queues: int
    next: str
    early: str = ""
    failed: list[str] = field(default_factory=list)


def encode_cursor(positions: Mapping[tuple[str, int], int]) -> str:
    """Positions of queues as text for an address."""
    by_broker: dict[str, list[str]] = {}
    for (broker, queue_id), offset in sorted(positions.items()):
        by_broker.setdefault(broker, []).append(f"{queue_id}.{offset}")
    return ";".join(f"{quote(name, safe='')}:{','.join(at)}" for name, at in by_broker.items())


def decode_cursor(text: str) -> Positions:
    """ClientError for what is no cursor."""
    found: Positions = {}
    if len(text) > MAX_CURSOR:
        raise _no_cursor()
    for part in text.split(";") if text else ():
        name, colon, places = part.partition(":")
        for place in places.split(","):
            queue, dot, offset = place.partition(".")
            digits = queue + offset
            if not (colon and dot and queue and offset and digits.isascii()):
                raise _no_cursor()
            if not digits.isdecimal() or max(len(queue), len(offset)) > 19:
                raise _no_cursor()
            found[unquote(name), int(queue)] = int(offset)
    return found


def _no_cursor() -> ClientError:
    return ClientError("the address names no page of this list: begin with its first page")


@dataclass(slots=True)
class _Lane:
    """What is left of one queue: offsets from `low` to before `high`."""

    queue: MessageQueue
    address: str
    low: int
    high: int
    newest: bool
    ahead: deque[ReceivedMessage] = field(default_factory=deque)
    """Read and not shown yet, in the order of the list."""
    piece: int = 1
    damaged: list[str] = field(default_factory=list)
    read_bytes: int = 0
    read_count: int = 0

    @property
    def done(self) -> bool:
        return not self.ahead and self.low >= self.high

    @property
    def position(self) -> int:
        """Where the next page begins in this queue."""
        if self.newest:
            return self.ahead[0].queue_offset + 1 if self.ahead else self.high
        return self.ahead[0].queue_offset if self.ahead else self.low

    async def fill(self, admin: Admin, expression: str, wants: Wants) -> int:
        """Reads one more piece; how many offsets it had."""
        begin = max(self.low, self.high - self.piece) if self.newest else self.low
        end = self.high if self.newest else min(self.low + self.piece, self.high)
        found: list[ReceivedMessage] = []
        at = begin
        while at < end:
            pulled = await pull(admin, self.address, self.queue, at, end - at, expression)
            self.damaged.extend(pulled.damaged)
            for message in pulled.messages:
                self.read_bytes += max(message.store_size, 0)
                self.read_count += 1
                if begin <= message.queue_offset < end and wants(message):
                    found.append(_cut(message))
            at = pulled.next_offset
            if pulled.end:
                break
        if self.newest:
            found.reverse()
            self.high = begin
        else:
            self.low = end if at >= end or not found else max(at, begin + 1)
            if at < end and not found:
                self.low = self.high  # the broker has nothing more
        self.ahead.extend(found)
        average = self.read_bytes // self.read_count if self.read_count else 0
        grown = self.piece * 4
        self.piece = max(1, min(PIECE, grown, PIECE_BYTES // max(average, 1)))
        if self.read_count == 0:
            self.piece = min(PIECE * 8, grown)  # the broker leaves out what is not wanted
        return end - begin


def _cut(message: ReceivedMessage) -> ReceivedMessage:
    if message.body_error is None and len(message.body) > HEAD:
        message.body = message.body[:HEAD]
    return message


def everything(message: ReceivedMessage) -> bool:
    return True


async def listed(
    admin: Admin, asked: Asked, *, wants: Wants = everything, limit: int | None = None
) -> Listing:
    """One page, of PAGE messages unless `limit` says otherwise. Raises TopicNotExistError, the
    error of a broker if none answered, and ClientError if the topic has no such queue, or too
    many."""
    lanes, total, failed = await _lanes(admin, asked)
    positions = decode_cursor(asked.cursor)
    for lane in lanes:
        at = positions.get((lane.queue.broker_name, lane.queue.queue_id))
        if at is not None and asked.newest:
            lane.high = max(min(lane.high, at), lane.low)
        elif at is not None:
            lane.low = min(max(lane.low, at), lane.high)
    merge = _Merge(admin, asked, _tagged(asked, wants), lanes, limit or PAGE)
    await merge.run()
    failed += merge.failed
    for lane in merge.lanes:
        if lane.damaged:
            failed.append(
                f"queue {lane.queue.queue_id} of broker {lane.queue.broker_name}: "
                f"{len(lane.damaged)} records cannot be read: {lane.damaged[0]}"
            )
    open_ = [lane for lane in merge.lanes if not lane.done]
    kept = [*merge.lanes, *merge.broken]
    following = {(x.queue.broker_name, x.queue.queue_id): x.position for x in kept}
    return Listing(
        merge.found,
        total,
        len(lanes),
        encode_cursor(following) if open_ else "",
        merge.early if open_ else "",
        list(dict.fromkeys(failed)),
    )


class _Merge:
    def __init__(
        self, admin: Admin, asked: Asked, wants: Wants, lanes: list[_Lane], limit: int
    ) -> None:
        self.lanes = lanes
        self.broken: list[_Lane] = []
        self.found: list[ReceivedMessage] = []
        self.failed: list[str] = []
        self.early = ""
        self._admin, self._asked, self._wants, self._limit = admin, asked, wants, limit
        self._scanned = 0

    async def run(self) -> None:
        sign = -1 if self._asked.newest else 1

        def order(lane: _Lane) -> tuple[int, str, int]:
            head = lane.ahead[0]
            return sign * head.store_timestamp, head.broker_name, head.queue_id

        while len(self.found) < self._limit:
            empty = [lane for lane in self.lanes if not lane.ahead and not lane.done]
            if empty and self._enough():
                return
            if empty:
                await self._fill(empty)
                continue
            ready = [lane for lane in self.lanes if lane.ahead]
            if not ready:
                return
            self.found.append(min(ready, key=order).ahead.popleft())

    def _enough(self) -> bool:
        if sum(lane.read_bytes for lane in self.lanes) > MOST_BYTES:
            self.early = "the messages are large"
        elif self._scanned > MOST_SCANNED:
            self.early = f"{self._scanned} messages were looked at"
        return bool(self.early)

    async def _fill(self, lanes: Sequence[_Lane]) -> None:
        waiting = iter(lanes)

        async def work() -> None:
            for lane in waiting:
                try:
                    self._scanned += await lane.fill(
                        self._admin, self._asked.tags or "*", self._wants
                    )
                except PyrmqError as e:
                    self.failed.append(f"broker {lane.queue.broker_name}: {e}")
                    self.lanes.remove(lane)
                    self.broken.append(lane)

        async with trio.open_nursery() as nursery:
            for _ in range(min(AT_ONCE, len(lanes))):
                nursery.start_soon(work)


def _tagged(asked: Asked, wants: Wants) -> Wants:
    """Brokers compare hashes of tags: what only has the same hash is left out here."""
    if not asked.tags:
        return wants
    wanted = Subscription.parse(asked.topic, asked.tags)
    return lambda message: wanted.wants(message.tags) and wants(message)


async def _lanes(admin: Admin, asked: Asked) -> tuple[list[_Lane], int, list[str]]:
    """The parts of queues that are listed, how many offsets they have, and which brokers did not
    answer."""
    route = await admin.link.route(asked.topic)
    status = await admin.topics.status(asked.topic)
    failed = [o.problem for o in status.failed]
    states = [
        s
        for s in status.queues
        if asked.broker in ("", s.queue.broker_name) and asked.queue_id in (None, s.queue.queue_id)
    ]
    if not states and not failed and (asked.broker or asked.queue_id is not None):
        raise ClientError(f"topic {asked.topic} has no such queue: look at its queues")
    if len(states) > MOST_QUEUES:
        raise ClientError(
            f"topic {asked.topic} has {len(states)} queues, and {MOST_QUEUES} are listed at most: "
            "name a broker or a queue"
        )
    lanes: list[_Lane] = []
    for state in states:
        address = route.address_of(state.queue.broker_name)
        if address is None:
            failed.append(f"broker {state.queue.broker_name} has no address now")
        elif state.first < state.end:
            lanes.append(_Lane(state.queue, address, state.first, state.end, asked.newest))
    if asked.begin is not None or asked.end is not None:
        lanes = await _within(admin, asked, lanes, failed)
    if asked.offset is not None and asked.newest:
        for lane in lanes:
            lane.high = max(min(lane.high, asked.offset + 1), lane.low)
    elif asked.offset is not None:
        for lane in lanes:
            lane.low = min(max(lane.low, asked.offset), lane.high)
    return lanes, sum(lane.high - lane.low for lane in lanes), failed


async def _within(admin: Admin, asked: Asked, lanes: list[_Lane], failed: list[str]) -> list[_Lane]:
    """The lanes cut to the times that are asked for."""
    kept: list[_Lane] = []
    waiting = iter(lanes)

    async def work() -> None:
        for lane in waiting:
            try:
                part = await admin.messages.slice(lane.queue, begin=asked.begin, end=asked.end)
            except TopicNotExistError:
                continue
            except PyrmqError as e:
                failed.append(f"broker {lane.queue.broker_name}: {e}")
                continue
            lane.low, lane.high = max(lane.low, part.begin), min(lane.high, part.end)
            if lane.low < lane.high:
                kept.append(lane)

    async with trio.open_nursery() as nursery:
        for _ in range(min(AT_ONCE, len(lanes))):
            nursery.start_soon(work)
    return sorted(kept, key=lambda x: x.queue)
