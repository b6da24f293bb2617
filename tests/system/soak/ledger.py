"""What was acknowledged, and what was delivered.

A `Book` is kept for each consumer group, as every group has to get every message that it wants. Its
messages are numbered by streams: the messages of one sender, or of one ordering key. A few bytes
a message are kept, so that a long run does not fill the memory of the program that judges.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field

NOWHERE = -1
ACKED, WANTED = 1, 2
"""Acknowledged; and the group is to get it."""


class _Stream:
    """By number: whether it was acknowledged, and if the group wants it; whether it is still owed,
    how often it was delivered; where it waits as the answer said, and where it stood when it was
    delivered (physical offsets)."""

    __slots__ = ("acked", "highest", "owed", "places", "seen", "sent", "waits")

    def __init__(self) -> None:
        self.sent = 0
        self.highest = -1
        self.acked = bytearray()
        self.owed = bytearray()
        self.seen = bytearray()
        self.waits = array("q")
        self.places = array("q")

    def reach(self, number: int) -> None:
        more = number + 1 - len(self.acked)
        if more > 0:
            for marks in (self.acked, self.owed, self.seen):
                marks.extend(bytes(more))
            for offsets in (self.waits, self.places):
                offsets.extend([NOWHERE] * more)


@dataclass(slots=True)
class Row:
    """What a book says at the end."""

    name: str
    sent: int = 0
    acked: int = 0
    wanted: int = 0
    """Acknowledged, and the group is to get it."""
    delivered: int = 0
    unanswered: int = 0
    """Delivered, though the sender got no answer."""
    again: int = 0
    lost: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    """What must not be, by its name."""


class Book:
    """What one group must get, and got.

    once: the broker must not store a message twice, so that it is delivered again only from the
    same place. in_place: the answer to the send says what place that is. ordered: the
    first deliveries of a stream are in the order in which it was sent.
    """

    def __init__(
        self, name: str, *, once: bool = True, in_place: bool = False, ordered: bool = False
    ) -> None:
        self.name = name
        self._once = once
        self._in_place = in_place
        self._ordered = ordered
        self._lock = threading.Lock()
        self._streams: dict[str, _Stream] = {}
        self._wrong: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self.deliveries = 0
        self.newest = NOWHERE
        """The highest physical offset that an answer has named."""

    def _stream(self, name: str, number: int) -> _Stream:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream()
        stream.reach(number)
        return stream

    def sent(self, stream: str, number: int) -> None:
        """The message, and all before it, were handed to the network."""
        with self._lock:
            known = self._stream(stream, number)
            known.sent = max(known.sent, number + 1)

    def acked(self, stream: str, number: int, waits: int, *, wanted: bool = True) -> None:
        """The broker has it, at physical offset `waits`. `wanted`: the group is to get it."""
        with self._lock:
            known = self._stream(stream, number)
            known.waits[number] = waits
            self.newest = max(self.newest, waits)
            known.acked[number] = WANTED if wanted else ACKED
            if wanted:
                known.owed[number] = not known.seen[number]
                place = known.places[number]
                if self._in_place and place not in (NOWHERE, waits):
                    self._note("moved", f"{stream}-{number} from {waits} to {place}")

    def delivered(self, stream: str, number: int, place: int = NOWHERE) -> None:
        """A consumer has done with it. `place`: its physical offset; NOWHERE if it came by a
        detour (sent back, or a dead letter)."""
        with self._lock:
            known = self._stream(stream, number)
            self.deliveries += 1
            if not known.seen[number]:
                if self._ordered and number < known.highest:
                    what = f"{stream}-{number} first came after {known.highest}"
                    self._note("out of order", what)
                known.highest = max(known.highest, number)
            if place != NOWHERE:
                self._compare(known, stream, number, place)
            known.seen[number] = min(known.seen[number] + 1, 255)
            known.owed[number] = 0

    def _compare(self, known: _Stream, stream: str, number: int, place: int) -> None:
        first = known.places[number]
        if first == NOWHERE:
            known.places[number] = place
            if self._in_place and known.acked[number] and known.waits[number] != place:
                self._note("moved", f"{stream}-{number} from {known.waits[number]} to {place}")
        elif self._once and first != place:
            self._note("stored twice", f"{stream}-{number} at {first} and {place}")

    def note(self, what: str, example: str) -> None:
        """Something that must not be."""
        with self._lock:
            self._note(what, example)

    def _note(self, what: str, example: str) -> None:
        self._wrong[what] += 1
        self._examples.setdefault(what, example)

    def forget(self) -> str:
        """Takes back one delivery of a message that was acknowledged, as if it had never come; its
        name. For tests of the judgement."""
        with self._lock:
            for name, stream in self._streams.items():
                for number, seen in enumerate(stream.seen):
                    if seen and stream.acked[number] == WANTED:
                        stream.seen[number] = 0
                        stream.owed[number] = 1
                        return f"{name}-{number}"
        raise LookupError(f"{self.name}: nothing was delivered")

    def owed(self) -> int:
        """How many acknowledged messages have not been delivered yet."""
        with self._lock:
            return sum(stream.owed.count(1) for stream in self._streams.values())

    def oldest_owed(self) -> int | None:
        """The lowest physical offset at which one of them waits."""
        with self._lock:
            return min(
                (
                    stream.waits[number]
                    for stream in self._streams.values()
                    for number in _marked(stream.owed)
                ),
                default=None,
            )

    def miss(self, stored: Container[int], low: int) -> None:
        """Notes what is in the log no more. stored: physical offsets of all messages that can be
        read; low: where the log begins by now."""
        with self._lock:
            for name, stream in self._streams.items():
                for number, (waits, place) in enumerate(
                    zip(stream.waits, stream.places, strict=True)
                ):
                    for at in {waits if self._in_place else place, place}:
                        if at >= low and at not in stored:
                            self._note("not in the log any more", f"{name}-{number} at {at}")

    def row(self) -> Row:
        with self._lock:
            row = Row(self.name, wrong=self._wrong.copy())
            for name, stream in self._streams.items():
                row.sent += stream.sent
                row.wanted += stream.acked.count(WANTED)
                row.acked += len(stream.acked) - stream.acked.count(0)
                row.lost += stream.owed.count(1)
                for number, times in enumerate(stream.seen):
                    if times:
                        row.delivered += 1
                        row.again += times - 1
                        row.unanswered += not stream.acked[number]
                        if number >= stream.sent:
                            row.wrong["never sent"] += 1
                            self._examples.setdefault("never sent", f"{name}-{number}")
            return row

    def faults(self) -> list[str]:
        """Why the book is not in order, a line each; none if it is."""
        row = self.row()
        found = [
            f"{self.name}: {count} {what}, first {self._examples.get(what, '?')}"
            for what, count in sorted(row.wrong.items())
        ]
        if row.lost:
            found.insert(0, f"{self.name}: {row.lost} lost, such as {', '.join(self._some_owed())}")
        return found

    def _some_owed(self, most: int = 5) -> list[str]:
        with self._lock:
            names = [
                f"{name}-{number} (at {stream.waits[number]})"
                for name, stream in self._streams.items()
                for number in _marked(stream.owed)
            ]
        return names[:most]


def _marked(marks: bytearray) -> list[int]:
    found, at = [], marks.find(1)
    while at >= 0:
        found.append(at)
        at = marks.find(1, at + 1)
    return found


class Ledger:
    """All books of a run."""

    def __init__(self) -> None:
        self.plain = Book("plain: members come and go", in_place=True)
        self.failing = Book("plain: consumers fail", in_place=True)
        self.tags = Book("tags", in_place=True)
        self.sql = Book("SQL92", in_place=True)
        self.delayed = Book("delayed")
        self.transactions = Book("transactions")
        self.ordered = Book("ordered", in_place=True, ordered=True)
        self.broadcast = [Book(f"broadcast to {n}", in_place=True) for n in ("a", "b")]
        self.requests = Book("requests", in_place=True)
        self.replies = Book("replies", once=False)
        self.client = Book("pyrmq's client", once=False)

    @property
    def books(self) -> list[Book]:
        return [
            self.plain, self.failing, self.tags, self.sql, self.delayed, self.transactions,
            self.ordered, *self.broadcast, self.requests, self.replies, self.client,
        ]  # fmt: skip

    def owed(self) -> int:
        return sum(book.owed() for book in self.books)

    def oldest_owed(self) -> int | None:
        found = [low for book in self.books if (low := book.oldest_owed()) is not None]
        return min(found, default=None)

    def newest(self) -> int:
        return max(book.newest for book in self.books)

    def deliveries(self) -> int:
        return sum(book.deliveries for book in self.books)

    def faults(self) -> list[str]:
        return [fault for book in self.books for fault in book.faults()]
