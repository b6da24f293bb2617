"""What was sent, acknowledged, refused and received, and what is wrong with that.

A message is a number in a stream: the messages of one sender, of one ordering key or of one queue.
A few bytes a message are kept, so that a long run does not fill the memory of the program that
judges. Every method may be called from any thread.

| Verdict | When |
|---|---|
| lost | it was acknowledged, is wanted, and was not received |
| never sent | it was received, and nobody sent it |
| refused, but there | its sender was told that it is not stored, and it was received |
| stored twice (`once`) | it was received from two places |
| received twice (`single`) | it was received again, from whatever place |
| moved (`in_place`) | it was received from another place than the acknowledgement said |
| out of order (`ordered`) | it was first received after a later one of its stream |
| not in the log any more | see `miss` |
| any other words | `note` was called with them |
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field

NOWHERE = -1
"""A place that is not known."""
ACKNOWLEDGED, WANTED = 1, 2
"""Acknowledged; and it is to be received."""
MOST_EXAMPLES = 5


class _Stream:
    """By number: whether it was sent, acknowledged (and wanted) or refused; whether it is still
    owed; how often it was received; where the acknowledgement puts it, and where it was received
    from first."""

    __slots__ = (
        "acknowledged", "highest", "owed", "places", "promised", "received", "refused", "sent",
    )  # fmt: skip

    def __init__(self) -> None:
        self.highest = -1
        self.sent = bytearray()
        self.acknowledged = bytearray()
        self.refused = bytearray()
        self.owed = bytearray()
        self.received = bytearray()
        self.promised = array("q")
        self.places = array("q")

    def reach(self, number: int) -> None:
        more = number + 1 - len(self.sent)
        if more > 0:
            marks = (self.sent, self.acknowledged, self.refused, self.owed, self.received)
            for each in marks:
                each.extend(bytes(more))
            for places in (self.promised, self.places):
                places.extend([NOWHERE] * more)


@dataclass(slots=True)
class Row:
    """The figures of a ledger."""

    name: str
    sent: int = 0
    acknowledged: int = 0
    wanted: int = 0
    """Acknowledged, and to be received."""
    received: int = 0
    unanswered: int = 0
    """Received, though the sender got no acknowledgement."""
    again: int = 0
    lost: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    """What must not be, by its name."""


class Ledger:
    """The account of one receiver: a consumer group, or whoever reads queues.

    once: a message is stored once, so it is received again only from the same place. in_place: the
    acknowledgement says what place that is. ordered: the messages of a stream are first received in
    the order of their numbers. single: nothing is received again, as whoever reads queues on and on
    has it. A place is any number that tells places apart, such as a physical offset.
    """

    def __init__(
        self,
        name: str,
        *,
        once: bool = True,
        in_place: bool = False,
        ordered: bool = False,
        single: bool = False,
    ) -> None:
        self.name = name
        self._once = once
        self._in_place = in_place
        self._ordered = ordered
        self._single = single
        self._lock = threading.Lock()
        self._streams: dict[str, _Stream] = {}
        self._strangers: dict[tuple[str, int], None] = {}
        self._wrong: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self.receipts = 0
        """How often anything was received."""
        self.newest = NOWHERE
        """The highest place that an acknowledgement has named."""

    def _stream(self, name: str, number: int) -> _Stream:
        assert number >= 0, f"{name}: message {number}"
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream()
        stream.reach(number)
        return stream

    def sent(self, stream: str, number: int) -> None:
        """The message is handed to the network: it may be received."""
        with self._lock:
            self._stream(stream, number).sent[number] = 1
            self._strangers.pop((stream, number), None)

    def acknowledged(
        self, stream: str, number: int, place: int = NOWHERE, *, wanted: bool = True
    ) -> None:
        """It is stored, at `place` if the answer says where. `wanted`: it is to be received."""
        with self._lock:
            known = self._stream(stream, number)
            known.promised[number] = place
            self.newest = max(self.newest, place)
            known.acknowledged[number] = WANTED if wanted else ACKNOWLEDGED
            if wanted:
                known.owed[number] = not known.received[number]
                self._compare_promise(known, stream, number)

    def refused(self, stream: str, number: int) -> None:
        """The answer says that it is not stored: it must not be received."""
        with self._lock:
            known = self._stream(stream, number)
            known.refused[number] = 1
            if known.received[number]:
                self._note("refused, but there", f"{stream}-{number}")

    def received(self, stream: str, number: int, place: int = NOWHERE) -> None:
        """It was read or consumed, from `place`; NOWHERE if it came by a detour, such as a retry
        topic."""
        with self._lock:
            known = self._stream(stream, number)
            self.receipts += 1
            if not known.received[number]:
                self._receive_first(known, stream, number)
            elif self._single:
                self._note("received twice", f"{stream}-{number}")
            if place != NOWHERE:
                self._compare_places(known, stream, number, place)
            known.received[number] = min(known.received[number] + 1, 255)
            known.owed[number] = 0

    def _receive_first(self, known: _Stream, stream: str, number: int) -> None:
        if not known.sent[number]:
            self._strangers[stream, number] = None
        if known.refused[number]:
            self._note("refused, but there", f"{stream}-{number}")
        if self._ordered and number < known.highest:
            self._note("out of order", f"{stream}-{number} first came after {known.highest}")
        known.highest = max(known.highest, number)

    def _compare_places(self, known: _Stream, stream: str, number: int, place: int) -> None:
        first = known.places[number]
        if first == NOWHERE:
            known.places[number] = place
            if known.acknowledged[number]:
                self._compare_promise(known, stream, number)
        elif self._once and first != place:
            self._note("stored twice", f"{stream}-{number} at {first} and {place}")

    def _compare_promise(self, known: _Stream, stream: str, number: int) -> None:
        promised, place = known.promised[number], known.places[number]
        if self._in_place and NOWHERE not in (promised, place) and promised != place:
            self._note("moved", f"{stream}-{number} from {promised} to {place}")

    def note(self, what: str, example: str) -> None:
        """Something else that must not be."""
        with self._lock:
            self._note(what, example)

    def _note(self, what: str, example: str) -> None:
        self._wrong[what] += 1
        self._examples.setdefault(what, example)

    def forget(self) -> str:
        """Takes back the receipts of a message that was acknowledged, as if it had never come; its
        name. For tests of the judgement."""
        with self._lock:
            for name, stream in self._streams.items():
                for number, times in enumerate(stream.received):
                    if times and stream.acknowledged[number] == WANTED:
                        stream.received[number] = 0
                        stream.owed[number] = 1
                        return f"{name}-{number}"
        raise LookupError(f"{self.name}: nothing was received")

    def owed(self) -> int:
        """How many acknowledged messages have not been received yet."""
        with self._lock:
            return sum(stream.owed.count(1) for stream in self._streams.values())

    def oldest_owed(self) -> int | None:
        """The lowest place at which one of them waits; NOWHERE if an answer has not said where."""
        with self._lock:
            return min(
                (
                    stream.promised[number]
                    for stream in self._streams.values()
                    for number in _marked(stream.owed)
                ),
                default=None,
            )

    def miss(self, stored: Container[int], low: int) -> None:
        """Notes what is in the log no more. stored: places of all messages that can be read; low:
        where the log begins by now."""
        with self._lock:
            for name, stream in self._streams.items():
                pairs = zip(stream.promised, stream.places, strict=True)
                for number, (promised, place) in enumerate(pairs):
                    for at in {promised if self._in_place else place, place}:
                        if at >= low and at not in stored:
                            self._note("not in the log any more", f"{name}-{number} at {at}")

    def row(self) -> Row:
        with self._lock:
            row = Row(self.name, wrong=self._all_wrong())
            for stream in self._streams.values():
                row.sent += stream.sent.count(1)
                row.wanted += stream.acknowledged.count(WANTED)
                row.acknowledged += len(stream.acknowledged) - stream.acknowledged.count(0)
                row.lost += stream.owed.count(1)
                for times, known in zip(stream.received, stream.acknowledged, strict=True):
                    if times:
                        row.received += 1
                        row.again += times - 1
                        row.unanswered += not known
            return row

    def _all_wrong(self) -> Counter[str]:
        never = Counter({"never sent": len(self._strangers)} if self._strangers else {})
        return self._wrong + never

    def faults(self, *, settled: bool = True) -> list[str]:
        """What is wrong, a line for each verdict; empty if all is well. `settled`: what is owed
        should have been received by now."""
        with self._lock:
            wrong = self._all_wrong()
            examples = dict(self._examples)
            for name, number in self._strangers:
                examples.setdefault("never sent", f"{name}-{number}")
        found = [
            f"{self.name}: {count} {what}, first {examples[what]}"
            for what, count in sorted(wrong.items())
        ]
        if settled and (lost := self.owed()):
            found.insert(0, f"{self.name}: {lost} lost, such as {', '.join(self._some_owed())}")
        return found

    def check(self, where: str = "", *, settled: bool = True) -> None:
        """AssertionError with all that `faults` says; `where` comes first."""
        faults = self.faults(settled=settled)
        assert not faults, "\n".join([where, *faults] if where else faults)

    def _some_owed(self) -> list[str]:
        with self._lock:
            names = [
                f"{name}-{number}{_at(stream.promised[number])}"
                for name, stream in self._streams.items()
                for number in _marked(stream.owed)
            ]
        return names[:MOST_EXAMPLES]


def _at(place: int) -> str:
    return "" if place == NOWHERE else f" (at {place})"


def _marked(marks: bytearray) -> list[int]:
    found, at = [], marks.find(1)
    while at >= 0:
        found.append(at)
        at = marks.find(1, at + 1)
    return found


def parsed(key: str) -> tuple[str, int]:
    """Stream and number of a key such as "orders-17"."""
    stream, _, number = key.rpartition("-")
    return stream, int(number)
