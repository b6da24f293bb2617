"""Reads that are planned by the consume queues, and for a key by the index files.

Both are dispatched in the order of the log, some time after it. So they are complete up to the last
message that any of them has; later records are scanned.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyrmq.engine import key_places, store_is_locked
from pyrmq.errors import Parameter, SegmentError
from pyrmq.segments.bounds import Limits, chooses
from pyrmq.segments.filesystem import kind, need
from pyrmq.segments.log_ranges import split_size
from pyrmq.segments.queues import (
    BLANK_SIZE,
    Queue,
    dispatched,
    list_queues,
    place_behind,
    place_of,
    reach,
)
from pyrmq.segments.selection import ANY_QUEUE, Rule
from pyrmq.segments.split import entry_mask
from pyrmq.segments.store import SegmentStore

SHARE = 0.3
"""`auto` reads by the queues if their messages have at most this part of the log's bytes."""
_BINS = 1 << 14


class IndexUnusable(Exception):
    """The queues or the index cannot drive a read. The text says why."""


@dataclass(frozen=True)
class IndexTask:
    """One task: a range of the log, and the queue entries or physical offsets to read in it.

    queues: (queue, first place, place behind the last). places: physical offsets, ascending.
    """

    start: int
    end: int
    queues: tuple[tuple[Queue, int, int], ...] = ()
    places: tuple[int, ...] = ()


@dataclass(frozen=True)
class IndexPlan:
    """Tasks by queues or index, and the ranges of the log to scan as well. Both ends of such a
    range are record boundaries."""

    tasks: list[IndexTask]
    scans: list[tuple[int, int]]


def by_queues(
    store: SegmentStore,
    rule: Rule,
    limits: Limits,
    log_end: int,
    *,
    split_bytes: int,
    min_partitions: int | None,
    share: float | None,
) -> IndexPlan:
    """A read of `limits` by the entries of the chosen queues. IndexUnusable if they are incomplete,
    or lead to more than `share` of the bytes."""
    if store.queues is None:
        raise IndexUnusable(store.no_queues)
    behind = min(dispatched(store, log_end, limits.high), limits.high)
    every = list_queues(store, lambda topic: bool(rule(topic)))  # after it: has all before it
    chosen = [q for q in every if chooses(rule, q.topic, q.id)]
    if share is not None:
        _check_complete(store, rule, chosen)
    work = [_Work(rule, q, limits.low, behind) for q in chosen]
    if share is not None:
        _check_heads(work)
    work = [one for one in work if one.start < one.end]
    most = None if share is None else share * (limits.high - limits.low)
    bins = _Bins(limits.low, max(behind, limits.low + 1))
    for one in work:
        for _, phys, sizes in one.entries():
            bins.add(phys, sizes)
            if most is not None and bins.total > most:
                raise IndexUnusable("the messages of the queues are too much of the log")
    size = split_size(bins.total, split_bytes, min_partitions)
    edges = bins.edges(size)
    tasks = []
    parts = [one.cut(edges) for one in work]
    for number, (low, high) in enumerate(pairwise(edges)):
        queues = tuple(
            (one.queue.part(*places[number]), *places[number])
            for one, places in zip(work, parts, strict=True)
            if places[number][0] < places[number][1]
        )
        if queues:
            tasks.append(IndexTask(low, high, queues))
    behind = max(behind, limits.low)
    return IndexPlan(tasks, [(behind, limits.high)] if behind < limits.high else [])


def _check_complete(store: SegmentStore, rule: Rule, queues: Sequence[Queue]) -> None:
    """IndexUnusable where a topic that is asked for has no queue. Mostly it has no message then,
    but its folder may also be missing among copied files; a caller who asks for the index knows."""
    known = store.topics() or frozenset()
    asked = set(rule.selection.named_topics or known)
    configured = store.configured_topics()
    if configured is not None:
        asked &= known  # the broker has no others
    missing = {topic for topic in asked if rule(topic)} - {queue.topic for queue in queues}
    if missing:
        raise IndexUnusable(f"topic {min(missing)} has no queue folder")


def _check_heads(work: Sequence[_Work]) -> None:
    """IndexUnusable where nothing shows that a queue is complete from its first wanted entry on.
    One that begins later than at 0 mostly still has an entry whose message is deleted, but the
    files in front may also be missing among copied ones; a caller who asks for the index knows."""
    for one in work:
        if one.start == one.reached.start == one.queue.first > 0:
            queue = one.queue
            raise IndexUnusable(
                f"files in front of {queue.first} of queue {queue.topic}-{queue.id} may be missing"
            )


class _Work:
    """The entries of a queue that are asked for."""

    def __init__(self, rule: Rule, queue: Queue, low: int, high: int) -> None:
        self.queue = queue
        self.tags = rule.selection.tags
        self.reached = reach(queue, low, high)
        self.start, self.end = self.reached.start, self.reached.end
        answer = rule(queue.topic)
        if isinstance(answer, dict):
            first, behind = answer.get(queue.id, answer.get(ANY_QUEUE, (0, 0)))
            self.start = place_of(self.reached, first)
            self.end = place_behind(self.reached, behind)
        if not queue.is_whole(self.start, self.end):
            raise IndexUnusable(f"a file of queue {queue.topic}-{queue.id} is missing")

    def entries(self) -> Iterator[tuple[int, Any, Any]]:
        """(first place, physical offsets, sizes; 0 for what is not asked for)."""
        np = need("numpy", "reading by queue entries")
        last = -1
        seen = self.start
        for place, entries in self.queue.read(self.start, self.end):
            sizes = np.where(entry_mask(self.queue, entries, self.tags), entries["size"], 0)
            phys = np.maximum.accumulate(entries["phys"].astype("i8"))
            blank = (entries["phys"] == 0) & (entries["size"] == BLANK_SIZE)
            bad = (entries["size"] <= 0) | (~blank & (phys != entries["phys"]))
            if bad.any() or (len(phys) and phys[0] <= last and not blank[0]):
                raise IndexUnusable(f"queue {self.queue.topic}-{self.queue.id} is damaged")
            last = max(last, int(phys[-1]))
            seen = place + len(phys)
            yield place, phys, sizes
        if seen < self.end:
            raise IndexUnusable(f"queue {self.queue.topic}-{self.queue.id} became shorter")

    def cut(self, edges: Sequence[int]) -> list[tuple[int, int]]:
        """The places that lead to between each two of the edges."""
        np = need("numpy", "reading by queue entries")
        if len(edges) == 2:
            return [(self.start, self.end)]
        at = [self.start] * len(edges)
        for place, phys, _ in self.entries():
            found = np.searchsorted(phys, edges)
            for number, count in enumerate(found.tolist()):
                if count:
                    at[number] = place + count
        at[0], at[-1] = self.start, self.end
        return list(pairwise(at))


class _Bins:
    """How many bytes are asked for along the log, coarsely."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.shift = max(0, (high - low - 1).bit_length() - _BINS.bit_length() + 1)
        self.bytes: Any = 0
        self.total = 0

    def add(self, phys: Any, sizes: Any) -> None:
        np = need("numpy", "reading by queue entries")
        bins = np.clip((phys - self.low) >> self.shift, 0, None)
        width = ((self.high - self.low) >> self.shift) + 1
        self.bytes = self.bytes + np.bincount(bins, sizes, width)[:width]
        self.total += int(sizes.sum())

    def edges(self, size: int) -> list[int]:
        """Physical offsets between which there are about `size` bytes each."""
        np = need("numpy", "reading by queue entries")
        count = -(-self.total // size)
        if count <= 1:
            return [self.low, self.high]
        wanted = [self.total * number // count for number in range(1, count)]
        found = np.searchsorted(np.cumsum(self.bytes), wanted) + 1
        inner = {self.low + (int(at) << self.shift) for at in found}
        return [self.low, *sorted(e for e in inner if self.low < e < self.high), self.high]


def by_key(store: SegmentStore, rule: Rule, limits: Limits) -> IndexPlan:
    """A read of `limits` by the index files. IndexUnusable if there are none, no topic is named, or
    one of them has inner batches: of those brokers index the keys of the batch, not of its
    messages."""
    topics = rule.selection.named_topics
    key = rule.selection.key
    if topics is None or key is None:
        raise IndexUnusable("the index finds a key of a topic that is named")
    if store.index is None:
        raise IndexUnusable("the store has no index folder")
    for topic in topics:
        if kind(posixpath.join(store.base, "batchconsumequeue", topic)) == "folder":
            raise IndexUnusable(f"topic {topic} has inner batches, whose keys are not in the index")
    places: set[int] = set()
    first, behind = limits.low, limits.high
    for topic in topics:
        found, covered = key_places(store.index, topic, key)
        if covered is None:
            raise IndexUnusable("the index is empty")
        places.update(found)
        # A broker may index more between two topics: what both answers cover counts.
        first, behind = max(first, covered[0]), min(behind, covered[1])
    first = min(max(first, limits.low), limits.high)
    behind = min(max(behind, first), limits.high)
    inside = tuple(sorted(place for place in places if first <= place < behind))
    tasks = [IndexTask(first, behind, (), inside)] if inside else []
    scans = [(limits.low, first), (behind, limits.high)]
    return IndexPlan(tasks, [(low, high) for low, high in scans if low < high])


def why_incomplete(store: SegmentStore) -> str:
    """Why queues and index may lack entries that were written: a crash after which nothing has
    opened the store yet [the file `abort`]. "" if not."""
    abort = posixpath.join(store.base, "abort")
    if store.place.kind(abort) != "file":
        return ""
    try:
        if store_is_locked(store.base):
            return ""
    except OSError as error:
        return f"it is not known whether a broker has the store open: {error}"
    return "the last stop of its broker was a crash"


def refuse(reason: str) -> SegmentError:
    """The error where an index was asked for."""
    return SegmentError(
        (Parameter("plan", "index"), f" is not possible here: {reason}"),
        ("use ", Parameter("plan", "scan"), " or ", Parameter("plan", "auto")),
    )
