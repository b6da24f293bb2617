"""Half messages and the op records that settle them, compared: which transactions are pending.

An op record (tag `d`) names offsets in the half queue, `12,13,` or one number. A broker that asks
the producer appends the half again, with TRANSACTION_CHECK_TIMES counted up: the copy stands for
the same transaction, and the older one no longer counts.
[TransactionalMessageServiceImpl, TransactionalMessageBridge]
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pyrmq.errors import ClientError
from pyrmq.model.properties import KEYS, UNIQ_KEY
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
)

_SHIFT = 16
_PAGE = 1 << _SHIFT
_NOT_FULL = re.compile(rb"[^\xff]")
MAX_PAGES = 8192
"""64 MiB, for 500 million offsets in a row; offsets far from each other use it up sooner."""


class OffsetSet:
    """A set of offsets as bits, in pages that exist where there is an offset. ClientError when
    there are more pages than can be honest."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, offset: int) -> bool:
        page = self._pages.get(offset >> _SHIFT)
        if page is None:
            return False
        at = offset & _PAGE - 1
        return bool(page[at >> 3] & 1 << (at & 7))

    def add(self, offset: int) -> None:
        number = offset >> _SHIFT
        page = self._pages.get(number)
        if page is None:
            if len(self._pages) == MAX_PAGES:
                raise ClientError(
                    "the broker's op records name more half messages, or halves further apart, "
                    "than can be kept here"
                )
            page = self._pages[number] = bytearray(_PAGE >> 3)
        at = offset & _PAGE - 1
        bit = 1 << (at & 7)
        if not page[at >> 3] & bit:
            page[at >> 3] |= bit
            self._count += 1

    def next_absent(self, offset: int) -> int:
        """The first offset from `offset` on that is not in the set."""
        while True:
            page = self._pages.get(offset >> _SHIFT)
            if page is None:
                return offset
            at = offset & _PAGE - 1
            while at & 7 and page[at >> 3] & 1 << (at & 7):
                at += 1
            if at & 7:
                return offset - (offset & _PAGE - 1) + at
            found = _NOT_FULL.search(page, at >> 3)
            base = offset - (offset & _PAGE - 1)
            if found is None:
                offset = base + _PAGE
                continue
            byte = page[found.start()]
            bit = next(b for b in range(8) if not byte & 1 << b)
            return base + found.start() * 8 + bit


OP_TAG = "d"
MAX_TEXT = 256
"""Characters of a text from a message that a row keeps."""
MAX_COUNTED = 500_000
"""Transactions that are kept apart; beyond that a count is "more than"."""
MAX_PLACES = 10_000
"""Pairs of topic and group that are counted apart."""
MAX_SAME = 64
"""Transactions of one identity that are kept apart."""
OTHERS = ("(others)", "(others)")
Identity = tuple[str, int, str] | int
"""Unique key, bornTimestamp and group; a half without a unique key is known by its offset only."""

_ITEM = re.compile(rb"[^,]+")


def op_offsets(body: bytes) -> Iterator[int]:
    """The half offsets that an op record's body names; what is no offset is left out."""
    for item in _ITEM.finditer(body):
        text = item.group()
        if len(text) <= 19 and text.isdigit():
            offset = int(text)
            if offset < 1 << 63:
                yield offset


def as_number(text: str | None) -> int | None:
    """A decimal number of Java's long, or None."""
    if text is None or len(text) > 20:
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -(1 << 63) <= value < 1 << 63 else None


def identity_of(message: ReceivedMessage) -> Identity:
    """What all copies of a half have in common."""
    key = message.properties.get(UNIQ_KEY)
    if not key:
        return message.queue_offset
    group = message.properties.get(PRODUCER_GROUP, "")
    return key[:MAX_TEXT], message.born_timestamp, group[:MAX_TEXT]


def immune_until(message: ReceivedMessage) -> int | None:
    """Time (ms) until which the producer of a half is not asked, if the half says so itself."""
    seconds = as_number(message.properties.get(CHECK_IMMUNITY))
    if seconds is None or seconds < 0:
        return None
    return message.born_timestamp + min(seconds, 1 << 40) * 1000


@dataclass(slots=True)
class Half:
    """One half message, without its body and without properties of its own."""

    broker: str
    queue_offset: int
    phys: int
    offset_msg_id: str
    transaction_id: str
    topic: str
    queue_id: int | None
    group: str
    keys: str
    born: int
    stored: int
    checks: int | None
    size: int
    immune_until: int | None
    stands_for: int | None
    """Queue offset of the half whose copy this is, where the copy says so."""

    @classmethod
    def of(cls, message: ReceivedMessage, broker: str) -> Half:
        get = message.properties.get
        return cls(
            broker=broker,
            queue_offset=message.queue_offset,
            phys=message.commit_log_offset,
            offset_msg_id=message.offset_msg_id,
            transaction_id=get(UNIQ_KEY, "")[:MAX_TEXT],
            topic=get(REAL_TOPIC, "")[:MAX_TEXT],
            queue_id=as_number(get(REAL_QUEUE_ID)),
            group=get(PRODUCER_GROUP, "")[:MAX_TEXT],
            keys=get(KEYS, "")[:MAX_TEXT],
            born=message.born_timestamp,
            stored=message.store_timestamp,
            checks=as_number(get(CHECK_TIMES)),
            size=message.store_size,
            immune_until=immune_until(message),
            stands_for=as_number(get(PREPARED_QUEUE_OFFSET)),
        )


def settled_by(half: Half, settled: OffsetSet) -> bool:
    """Whether the op records settle a half: its own offset, or the one that it stands for."""
    if half.queue_offset in settled:
        return True
    return half.stands_for is not None and half.stands_for >= 0 and half.stands_for in settled


def supersedes(checks: int | None, earlier: int | None) -> bool:
    """Whether a later half of the same identity is a copy of the earlier one. A producer that
    sends twice makes two halves: neither has been checked. A resumed one starts again from 0."""
    return checks is not None and (checks == 0 or checks > (earlier or 0))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which transactions are wanted; `born_before` is a time in ms."""

    topic: str | None = None
    group: str | None = None
    born_before: int | None = None

    def wants(self, half: Half) -> bool:
        return (
            self.topic in (None, half.topic)
            and self.group in (None, half.group)
            and (self.born_before is None or half.born <= self.born_before)
        )


@dataclass(slots=True)
class Place:
    """What is pending of one topic and producer group."""

    count: int = 0
    oldest: int | None = None


class PendingTable:
    """Takes the halves of a queue in their order and keeps the oldest transactions that nothing
    has settled, at most `limit` of them, and counts for all."""

    def __init__(self, limit: int, wanted: Filter | None = None) -> None:
        self._limit = limit
        self._wanted = wanted or Filter()
        self._rows: dict[Identity, list[tuple[tuple[int, int], Half]]] = {}
        self._kept = 0
        self._youngest: list[tuple[int, int, Identity]] = []
        self._seen: set[int] = set()
        self.count = 0
        self.exact = True
        self.oldest: int | None = None
        self.places: dict[tuple[str, str], Place] = {}

    def add(self, half: Half, identity: Identity) -> None:
        """A half that no op record names."""
        if not self._wanted.wants(half):
            return
        rows = self._rows.get(identity, [])
        for at, (order, earlier) in enumerate(rows):
            if supersedes(half.checks, earlier.checks) or at == MAX_SAME:
                rows[at] = (order, half)
                return
        if half.checks is not None and not rows and hash(identity) in self._seen:
            return  # a copy of one that is counted, and too young to be kept
        self._count(half, identity)
        order = (half.born, half.queue_offset)
        self._rows.setdefault(identity, rows).append((order, half))
        heapq.heappush(self._youngest, (-order[0], -order[1], identity))
        self._kept += 1
        if self._kept > self._limit:
            self._drop_youngest()

    def _count(self, half: Half, identity: Identity) -> None:
        if len(self._seen) >= MAX_COUNTED:
            self.exact = False
            return
        self._seen.add(hash(identity))
        self.count += 1
        if self.oldest is None or half.born < self.oldest:
            self.oldest = half.born
        name = (half.topic, half.group)
        if name not in self.places and len(self.places) >= MAX_PLACES:
            name = OTHERS
        place = self.places.setdefault(name, Place())
        place.count += 1
        if place.oldest is None or half.born < place.oldest:
            place.oldest = half.born

    def _drop_youngest(self) -> None:
        born, offset, identity = heapq.heappop(self._youngest)
        rows = self._rows[identity]
        rows[:] = [row for row in rows if row[0] != (-born, -offset)]
        if not rows:
            del self._rows[identity]
        self._kept -= 1

    def rows(self) -> list[Half]:
        """What is kept, the oldest first."""
        found = [row for rows in self._rows.values() for row in rows]
        return [half for _, half in sorted(found, key=lambda row: row[0])]
