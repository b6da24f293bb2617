"""How far a stream over segments is behind the end of the logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyrmq.segments.bounds import Key, chooses
from pyrmq.segments.local import list_folder
from pyrmq.segments.queues import Queue, end_place, entry_at, list_queues
from pyrmq.segments.selection import Rule
from pyrmq.segments.store import SegmentStore

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
