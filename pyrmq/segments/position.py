"""The position of a stream over segments, as a checkpoint keeps it.

It is one physical offset a broker, so queues and topics that appear later need no rule. Topics that
are named are written down beside it: what a query names later is new to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyrmq.errors import CheckpointError, SegmentOptionError
from pyrmq.segments.bounds import Key, chooses
from pyrmq.segments.filesystem import list_folder
from pyrmq.segments.offsets import check_assign
from pyrmq.segments.queues import Queue, end_place, entry_at, list_queues
from pyrmq.segments.selection import Rule, Selection
from pyrmq.segments.store import SegmentStore

VERSION = 1
_MAX_OFFSET = 2**63 - 1
Assign = Mapping[str, Mapping[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Position:
    """The position of a stream, as a checkpoint keeps it."""

    log: Mapping[str, int]
    """By broker: physical offset of the next record."""
    starts: Mapping[str, Mapping[str, Mapping[int, int]]] = field(default_factory=dict)
    """broker -> topic -> queue id -> first queue offset."""
    until: Mapping[str, int] = field(default_factory=dict)
    """By broker: from here on `starts` says nothing any more."""
    topics: tuple[str, ...] | None = None
    """The topics that were read up to here, where they are named one by one; None: not known."""
    assign: Assign | None = None
    """The queues, where they are named."""

    def as_dict(self) -> dict[str, Any]:
        """Sorted keys, integers and strings only: Spark compares it as text."""
        starts: dict[str, dict[str, dict[str, int]]] = {}
        for broker in sorted(self.starts):
            for topic, queues in self.starts[broker].items():
                named = {str(queue): offset for queue, offset in sorted(queues.items())}
                starts.setdefault(topic, {})[broker] = named
        out: dict[str, Any] = {}
        if starts:
            out["from"] = {topic: starts[topic] for topic in sorted(starts)}
        out["log"] = {broker: self.log[broker] for broker in sorted(self.log)}
        if self.topics is not None:
            out["topics"] = sorted(self.topics)
        if self.assign is not None:
            out["assign"] = {
                topic: {broker: sorted(queues) for broker, queues in sorted(brokers.items())}
                for topic, brokers in sorted(self.assign.items())
            }
        if self.until:
            out["until"] = {broker: self.until[broker] for broker in sorted(self.until)}
        out["version"] = VERSION
        return out

    @classmethod
    def of(cls, value: Any) -> Position:
        """From what a checkpoint had. CheckpointError if that is none of ours."""
        try:
            if value["version"] != VERSION:
                raise CheckpointError(
                    f"the checkpoint has version {value['version']!r}, this reads {VERSION}"
                )
            starts: dict[str, dict[str, dict[int, int]]] = {}
            for topic, brokers in value.get("from", {}).items():
                for broker, queues in brokers.items():
                    named = {int(queue): _whole(offset) for queue, offset in queues.items()}
                    starts.setdefault(broker, {})[topic] = named
            log_at = {str(broker): _whole(phys) for broker, phys in value["log"].items()}
            until = {str(b): _whole(phys) for b, phys in value.get("until", {}).items()}
            topics = value.get("topics")
            if topics is not None:
                topics = tuple(str(topic) for topic in topics)
            assign = value.get("assign")
            if assign is not None:
                assign = check_assign(assign)
        except (KeyError, TypeError, ValueError, AttributeError, SegmentOptionError) as error:
            raise CheckpointError(f"the checkpoint has no position: {value!r}") from error
        return cls(log_at, starts, until, topics, assign)

    def moved(self, to: Mapping[str, int]) -> Position:
        """The same position moved on; starts that the log has passed are left out."""
        left = {broker for broker, phys in self.until.items() if to[broker] < phys}
        return Position(
            dict(to),
            {broker: starts for broker, starts in self.starts.items() if broker in left},
            {broker: self.until[broker] for broker in left},
            self.topics,
            self.assign,
        )

    def of_selection(self, selection: Selection) -> Position:
        """The same with what the selection names: what is named later is new then."""
        if selection.assign is not None:
            return replace(self, topics=None, assign=selection.assign)
        return replace(self, topics=selection.named_topics, assign=None)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_OFFSET:
        raise ValueError(value)
    return value


def added(selection: Selection, low: Position, high: Position) -> Selection | None:
    """What a query selects that it did not up to `low`, and does up to `high`; None: nothing."""
    before, now = low.topics or low.assign, high.topics or high.assign
    if before is None or (low.topics, low.assign) == (high.topics, high.assign):
        return None
    if low.assign is not None and high.assign is not None and selection.assign is not None:
        more = _added_queues(low.assign, high.assign)
        return replace(selection, assign=more) if more else None
    known = frozenset(before)
    if now is None:
        return replace(selection, without=known)
    new = [t for t in now if t not in known and selection.selects(t)]
    if not new:
        return None
    if selection.assign is not None:
        return replace(selection, assign={topic: selection.assign[topic] for topic in new})
    return replace(selection, topics=tuple(new), pattern=None)


def _added_queues(before: Assign, now: Assign) -> dict[str, dict[str, tuple[int, ...]]]:
    out: dict[str, dict[str, tuple[int, ...]]] = {}
    for topic, brokers in now.items():
        for broker, queues in brokers.items():
            known = before.get(topic, {}).get(broker, ())
            new = tuple(queue for queue in queues if queue not in known)
            if new:
                out.setdefault(topic, {})[broker] = new
    return out


def within(selection: Selection, high: Position) -> Selection | None:
    """What of a selection belongs to a batch up to `high`; None: nothing. A batch that is run again
    reads what it read before, also where more is selected meanwhile: the next one reads that."""
    if high.assign is not None:
        named: Assign = {t: of for t, of in high.assign.items() if selection.selects(t)}
        if selection.assign is not None:
            named = _both(named, selection.assign)
        return replace(selection, topics=(), pattern=None, assign=named) if named else None
    if high.topics is None:
        return selection
    kept = tuple(topic for topic in high.topics if selection.selects(topic))
    if not kept:
        return None
    if selection.assign is not None:
        return replace(selection, assign={topic: selection.assign[topic] for topic in kept})
    return replace(selection, topics=kept, pattern=None)


def _both(one: Assign, other: Assign) -> dict[str, dict[str, tuple[int, ...]]]:
    """The queues that both name."""
    out: dict[str, dict[str, tuple[int, ...]]] = {}
    for topic, brokers in one.items():
        for broker, queues in brokers.items():
            there = other.get(topic, {}).get(broker, ())
            kept = tuple(queue for queue in queues if queue in there)
            if kept:
                out.setdefault(topic, {})[broker] = kept
    return out


MOST_TOPICS = 500
MOST_QUEUES = 2_000
"""Topics and queues whose messages are counted: that is some reads in each queue."""


@dataclass(frozen=True)
class Behind:
    bytes: Mapping[str, int]
    """By broker, of the whole log."""
    messages: Mapping[tuple[str, Key], int] | None
    """By broker and queue, of the chosen topics; None where no queues say, or too many."""


def behind(
    stores: Sequence[SegmentStore],
    rules: Mapping[str, Rule],
    at: Mapping[str, int],
    ends: Mapping[str, int],
) -> Behind:
    """From `at`, where a batch ends, to the ends of the logs; brokers that are not in `at` are not
    counted."""
    size = {s.name: max(0, ends[s.name] - at[s.name]) for s in stores if s.name in at}
    messages: dict[tuple[str, Key], int] | None = {}
    for store in stores:
        if store.name not in size:
            continue
        found = _messages(store, rules[store.name], at[store.name], ends[store.name])
        if found is None or messages is None or len(messages) + len(found) > MOST_QUEUES:
            messages = None
            break
        messages.update({(store.name, key): count for key, count in found.items()})
    return Behind(size, messages)


def _messages(store: SegmentStore, rule: Rule, start: int, end: int) -> dict[Key, int] | None:
    if store.queues is None:
        return None
    topics = [one for one in list_folder(store.queues) if rule(one.name)]
    if len(topics) > MOST_TOPICS:
        return None
    queues = [
        queue
        for queue in list_queues(store, lambda topic: bool(rule(topic)))
        if chooses(rule, queue.topic, queue.id)
    ]
    if len(queues) > MOST_QUEUES:
        return None
    if start >= end:
        return {(queue.topic, queue.id): 0 for queue in queues}
    out: dict[Key, int] = {}
    for queue in queues:
        count = _offset_behind(queue, end) - _offset_behind(queue, start)
        out[queue.topic, queue.id] = max(0, count)
    return out


def _offset_behind(queue: Queue, phys: int) -> int:
    """Queue offset behind the last message in front of a place of the log."""
    place = end_place(queue, phys)
    if place > queue.first:
        return entry_at(queue, place - 1).behind
    try:
        return entry_at(queue, queue.first).offset
    except IndexError:
        return 0
