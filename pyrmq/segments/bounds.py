"""Offsets by queue, as options name them, held against what a store's queues hold.

Where there are no queue files the log itself is walked once; that reads its headers only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyrmq.engine as engine
from pyrmq.errors import OffsetOutOfRangeError, SegmentOptionError
from pyrmq.escape import escape
from pyrmq.segments.filesystem import need
from pyrmq.segments.offsets import EARLIEST, LATEST, QueueOffsets
from pyrmq.segments.pieces import overlapping, runs, tell_loss
from pyrmq.segments.queues import (
    Reach,
    dispatched,
    list_queues,
    phys_at,
    place_behind,
    place_of,
    reach,
)
from pyrmq.segments.selection import Bounds, Rule, Selection
from pyrmq.segments.store import SegmentStore

log = logging.getLogger("pyrmq.segments")

Key = tuple[str, int]
"""Topic and queue id."""


@dataclass(frozen=True)
class Held:
    """What a queue holds of the log: queue offsets, the end exclusive."""

    low: int
    high: int
    reach: Reach | None = None
    """Its files; None where the log was walked."""


@dataclass(frozen=True)
class Limits:
    """Offsets that a rule applies, and the part of the log that can have them."""

    starts: Bounds = field(default_factory=dict)
    ends: Bounds = field(default_factory=dict)
    low: int = 0
    high: int = 0
    """Physical offsets."""


def of_broker(offsets: str | QueueOffsets, broker: str) -> dict[Key, int]:
    """The offsets that name a queue of a broker."""
    if isinstance(offsets, str):
        return {}
    return {
        (topic, queue): offset
        for topic, brokers in offsets.items()
        for queue, offset in brokers.get(broker, {}).items()
    }


def as_bounds(offsets: Mapping[Key, int]) -> dict[str, dict[int, int]]:
    """By topic and queue, in order."""
    out: dict[str, dict[int, int]] = {}
    for (topic, queue), offset in sorted(offsets.items()):
        out.setdefault(topic, {})[queue] = offset
    return out


def held(store: SegmentStore, rule: Rule, start: int, end: int) -> dict[Key, Held]:
    """What each queue that `rule` chooses holds of `start..end` of the log."""
    if store.queues is not None:
        out = {}
        for queue in list_queues(store, lambda topic: bool(rule(topic))):
            if not chooses(rule, queue.topic, queue.id):
                continue
            reached = reach(queue, start, end)
            out[queue.topic, queue.id] = Held(reached.min_offset, reached.max_offset, reached)
        return out
    log.info(
        "%s: %s; walking through the log for its offsets",
        escape(store.root),
        escape(store.no_queues),
    )
    return {
        key: Held(low, high) for key, (low, high, _) in walk_log(store, rule, start, end).items()
    }


def chooses(rule: Rule, topic: str, queue: int) -> bool:
    """Whether a rule asks for messages of a queue."""
    answer = rule(topic)
    return queue in answer or -1 in answer if isinstance(answer, dict) else answer


def walk_log(
    store: SegmentStore, rule: Rule, start: int, end: int
) -> dict[Key, tuple[int, int, int]]:
    """Of each queue first queue offset, the one behind the last, and the first physical offset."""
    out: dict[Key, tuple[int, int, int]] = {}
    # Around what is missing: whether that is an error is told where it is read.
    for low, high in runs(store, start, end, fail_on_data_loss=False):
        _walk_run(store, rule, low, high, out)
    return out


def _walk_run(
    store: SegmentStore, rule: Rule, start: int, end: int, out: dict[Key, tuple[int, int, int]]
) -> None:
    arrow = need("pyarrow", "offsets where there are no queues")
    columns = ["topic", "queueId", "queueOffset", "commitLogOffset"]
    reader = engine.SegmentReader(
        overlapping(store.files, start, end),
        start,
        end,
        opener=store.opener(),
        exact=True,
        columns=columns,
        rule=rule,
        on_corruption="skip",
        verify_crc="none",
        batch_rows=1 << 18,
    )
    while (batch := reader.next_batch()) is not None:
        table = arrow.Table.from_batches([arrow.record_batch(batch)])
        asked = [("queueOffset", "min"), ("queueOffset", "max"), ("commitLogOffset", "min")]
        found = table.group_by(["topic", "queueId"]).aggregate(asked).to_pydict()
        rows = zip(
            found["topic"],
            found["queueId"],
            found["queueOffset_min"],
            found["queueOffset_max"],
            found["commitLogOffset_min"],
            strict=True,
        )
        for topic, queue, low, high, phys in rows:
            before = out.get((topic, queue), (low, high + 1, phys))
            merged = (min(before[0], low), max(before[1], high + 1), min(before[2], phys))
            out[topic, queue] = merged


def checked(
    option: str, offsets: Mapping[Key, int], held_by: Mapping[Key, Held], broker: str
) -> None:
    """OffsetOutOfRangeError for an offset behind the end of its queue."""
    for (topic, queue), offset in offsets.items():
        holds = held_by.get((topic, queue), Held(0, 0))
        if offset > holds.high:
            raise OffsetOutOfRangeError(
                f"{option}: offset {offset} of topic {topic}, broker {broker}, queue {queue} is "
                f"behind its end, {holds.high}",
                f"it holds {holds.low} to {holds.high}; -1 is the end"
                if option == "endingOffsets"
                else f"it holds {holds.low} to {holds.high}",
            )


def gone(
    offsets: Mapping[Key, int], held_by: Mapping[Key, Held], broker: str, fail: bool
) -> dict[Key, int]:
    """The starting offsets that are still there; one that is not starts at the earliest."""
    out = dict(offsets)
    for (topic, queue), offset in offsets.items():
        holds = held_by.get((topic, queue), Held(0, 0))
        if offset < holds.low:
            tell_loss(
                f"startingOffsets: offset {offset} of topic {topic}, broker {broker}, queue "
                f"{queue} is not there any more: it holds {holds.low} to {holds.high}",
                fail,
            )
            del out[topic, queue]
    return out


def batch_limits(
    store: SegmentStore,
    selection: Selection,
    start: int,
    end: int,
    *,
    fail_on_data_loss: bool,
) -> Limits:
    """The starting and ending offsets of a batch read; times win over them."""
    starts = of_broker(
        selection.starting_offsets if selection.start_time is None else "earliest", store.name
    )
    ends = of_broker(
        selection.ending_offsets if selection.end_time is None else "latest", store.name
    )
    if LATEST in starts.values():
        raise SegmentOptionError(
            "startingOffsets: latest (-1) is no start for a batch read", "it would read nothing"
        )
    starts = {key: offset for key, offset in starts.items() if offset != EARLIEST}
    ends = {key: offset for key, offset in ends.items() if offset != LATEST}
    if not starts and not ends:
        return Limits(low=start, high=end)
    if store.queues is None and store.filesystem is not None:
        log.warning(
            "%s: %s, and the log is not walked from afar: offsets that it has no more, or not yet, "
            "are not told",
            escape(store.root),
            escape(store.no_queues),
        )
        return Limits(as_bounds(starts), as_bounds(ends), start, end)
    # What has no entry yet stands behind the last message that has one; looked for first, as a
    # broker may go on entering.
    last = dispatched(store, end, end)
    holds = held(store, selection.rule(store.name), start, end)
    checked("startingOffsets", starts, holds, store.name)
    checked("endingOffsets", ends, holds, store.name)
    for key, offset in starts.items():
        if key in ends and ends[key] < offset:
            raise SegmentOptionError(
                f"endingOffsets: {ends[key]} of topic {key[0]}, broker {store.name}, queue "
                f"{key[1]} is before its starting offset {offset}"
            )
    starts = gone(starts, holds, store.name, fail_on_data_loss)
    reaches = [(key, h.reach) for key, h in holds.items() if h.reach is not None]
    low, high = start, end
    if reaches and all(key in starts for key, _ in reaches):
        places = ((r, place_of(r, starts[key])) for key, r in reaches)
        low = max(start, min(last, *(phys_at(reached, place, end) for reached, place in places)))
    if reaches and all(key in ends for key, _ in reaches):
        last_places = ((r, place_behind(r, ends[key])) for key, r in reaches)
        behind = max(phys_at(reached, place, end) for reached, place in last_places)
        high = behind if behind <= last else end
    return Limits(as_bounds(starts), as_bounds(ends), low, max(low, high))
