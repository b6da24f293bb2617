"""Offsets by queue, as a caller gives them, compared with the queues of a store.

Where there are no queue files the log itself is walked once; that reads its headers only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyrmq.engine import LogRange, SegmentReader
from pyrmq.errors import OffsetOutOfRangeError, Parameter, SegmentOptionError
from pyrmq.escape import escape
from pyrmq.segments.filesystem import need
from pyrmq.segments.log_ranges import overlapping, present_ranges, report_loss
from pyrmq.segments.offsets import EARLIEST, LATEST, QueueOffsets
from pyrmq.segments.queues import (
    Reach,
    dispatched,
    list_queues,
    phys_at,
    place_behind,
    place_of,
    reach,
)
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Bounds, Rule, Selection, Wanted
from pyrmq.segments.store import SegmentStore

log = logging.getLogger("pyrmq.segments")

Key = tuple[str, int]
"""Topic and queue id."""


@dataclass(frozen=True)
class QueueExtent:
    """The queue offsets of a queue whose messages are in the log, the end exclusive."""

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


def queue_extents(store: SegmentStore, rule: Rule, start: int, end: int) -> dict[Key, QueueExtent]:
    """The extent of each queue that `rule` selects, of `start..end` of the log."""
    if store.queues is not None:
        out = {}
        for queue in list_queues(store, lambda topic: bool(rule(topic))):
            if not chooses(rule, queue.topic, queue.id):
                continue
            reached = reach(queue, start, end)
            out[queue.topic, queue.id] = QueueExtent(
                reached.min_offset, reached.max_offset, reached
            )
        return out
    log.info(
        "%s: %s; reading the offsets from the log", escape(store.root), escape(store.no_queues)
    )
    return {
        key: QueueExtent(low, high)
        for key, (low, high, _) in walk_log(store, rule, start, end).items()
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
    # Around what is missing: whether that is an error is decided where it is read.
    for low, high in present_ranges(store, start, end, fail_on_data_loss=False):
        _walk_run(store, rule, low, high, out)
    return out


def _walk_run(
    store: SegmentStore, rule: Rule, start: int, end: int, out: dict[Key, tuple[int, int, int]]
) -> None:
    arrow = need("pyarrow", "offsets where there are no queues")
    columns = ("topic", "queueId", "queueOffset", "commitLogOffset")
    files = overlapping(store.files, start, end)
    reader = SegmentReader(
        LogRange(files, start, end, opener=store.opener(), exact=True),
        Wanted(rule),
        ReadOptions(columns=columns, on_corruption="skip", verify_crc="none", batch_rows=1 << 18),
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


def _any_behind_end(offsets: Mapping[Key, int], extents: Mapping[Key, QueueExtent]) -> bool:
    return any(offset > extents[key].high for key, offset in offsets.items() if key in extents)


def _with_undispatched(
    extents: Mapping[Key, QueueExtent], tail: Mapping[Key, tuple[int, int, int]]
) -> dict[Key, QueueExtent]:
    """The extents with messages of the log's tail that have no queue entry yet, as a broker leaves
    them that is killed."""
    out = dict(extents)
    for key, (_, high, _) in tail.items():
        if key in out and high > out[key].high:
            out[key] = replace(out[key], high=high)
    return out


def check_not_behind_end(
    parameter: str, offsets: Mapping[Key, int], extents: Mapping[Key, QueueExtent], broker: str
) -> None:
    """OffsetOutOfRangeError for an offset behind the end of its queue."""
    for (topic, queue), offset in offsets.items():
        extent = extents.get((topic, queue), QueueExtent(0, 0))
        if offset > extent.high:
            raise OffsetOutOfRangeError(
                (
                    Parameter(parameter),
                    f": offset {offset} of topic {topic}, broker {broker}, queue {queue} is "
                    f"behind its end, {extent.high}",
                ),
                f"it holds {extent.low} to {extent.high}; -1 is the end"
                if parameter == "ending_offsets"
                else f"it holds {extent.low} to {extent.high}",
            )


def without_deleted(
    offsets: Mapping[Key, int], extents: Mapping[Key, QueueExtent], broker: str, fail: bool
) -> dict[Key, int]:
    """The starting offsets that are still there; one that is not starts at the earliest."""
    out = dict(offsets)
    for (topic, queue), offset in offsets.items():
        extent = extents.get((topic, queue), QueueExtent(0, 0))
        if offset < extent.low:
            report_loss(
                f"offset {offset} of topic {topic}, broker {broker}, queue {queue} is deleted: it "
                f"holds {extent.low} to {extent.high}",
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
            (Parameter("starting_offsets"), ": latest (-1) is no start for a batch read"),
            "it would read nothing",
        )
    starts = {key: offset for key, offset in starts.items() if offset != EARLIEST}
    ends = {key: offset for key, offset in ends.items() if offset != LATEST}
    if not starts and not ends:
        return Limits(low=start, high=end)
    if store.queues is None and store.filesystem is not None:
        log.warning(
            "%s: %s, and a remote log is not walked: offsets that are deleted, or behind the end, "
            "are not reported",
            escape(store.root),
            escape(store.no_queues),
        )
        return Limits(as_bounds(starts), as_bounds(ends), start, end)
    # What has no entry yet stands behind the last message that has one; looked for first, as a
    # broker may go on dispatching.
    last = dispatched(store, end, end)
    rule = selection.rule(store.name)
    extents = queue_extents(store, rule, start, end)
    if last < end and _any_behind_end(starts, extents) | _any_behind_end(ends, extents):
        extents = _with_undispatched(extents, walk_log(store, rule, max(last, start), end))
    check_not_behind_end("starting_offsets", starts, extents, store.name)
    check_not_behind_end("ending_offsets", ends, extents, store.name)
    for key, offset in starts.items():
        if key in ends and ends[key] < offset:
            raise SegmentOptionError(
                (
                    Parameter("ending_offsets"),
                    f": {ends[key]} of topic {key[0]}, broker {store.name}, queue {key[1]} is "
                    f"before its starting offset {offset}",
                )
            )
    starts = without_deleted(starts, extents, store.name, fail_on_data_loss)
    reaches = [(key, h.reach) for key, h in extents.items() if h.reach is not None]
    low, high = start, end
    if reaches and all(key in starts for key, _ in reaches):
        places = ((r, place_of(r, starts[key])) for key, r in reaches)
        low = max(start, min(last, *(phys_at(reached, place, end) for reached, place in places)))
    if reaches and all(key in ends for key, _ in reaches):
        last_places = ((r, place_behind(r, ends[key])) for key, r in reaches)
        behind = max(phys_at(reached, place, end) for reached, place in last_places)
        high = behind if behind <= last else end
    return Limits(as_bounds(starts), as_bounds(ends), low, max(low, high))
