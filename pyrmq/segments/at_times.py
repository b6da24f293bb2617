"""Which queue offsets times by queue stand for in the logs of stores.

The offset of a time is that of the queue's first message at or behind the first record of the log
that was stored at that time or later: store times grow along the log but for steps of the clock.

Store times grow along the log but for steps of the clock, so a segment of margin is kept at both
ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyrmq.engine import LogRange, SegmentReader, segment_times
from pyrmq.segments import log_ranges
from pyrmq.segments.bounds import Key, QueueExtent, queue_extents, walk_log
from pyrmq.segments.filesystem import need
from pyrmq.segments.log_ranges import overlapping
from pyrmq.segments.offsets import (
    LATEST,
    QueueOffsets,
    QueueTimes,
    TimeEntry,
    entries,
    later_than_all,
)
from pyrmq.segments.queues import dispatched
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Rule, Selection, Wanted
from pyrmq.segments.store import SegmentStore

_AT_ONCE = 16
"""Files of a far file system that are read together."""


def first_times(store: SegmentStore) -> list[int | None]:
    """Store time (ms) of the first record of each file; None if it has none."""
    opener = store.opener()
    if opener is None:
        found = segment_times(store.files)
    else:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            each = pool.map(lambda f: segment_times([f], opener=opener)[0], store.files)
            found = list(each)
    return [None if one is None else one[0] for one in found]


def narrowed(
    store: SegmentStore, start: int, end: int, start_time: int | None, end_time: int | None
) -> tuple[int, int]:
    """The part of `start..end`, whole segments, that can have messages of a time range."""
    if start_time is None and end_time is None:
        return start, end
    files = store.files
    times = first_times(store)
    known = [index for index, time in enumerate(times) if time is not None]
    # Files without a record say nothing, and are no margin: those made ahead, a damaged front.
    if start_time is not None:
        # The last segment that begins before the time, as the one in front of the first that does
        # not: a segment that begins late may follow on one that begins early.
        later = [i for i in known if (times[i] or 0) >= start_time]
        before = [i for i in known if not later or i < later[0]]
        start = max(start, files[before[-2] if len(before) > 1 else 0][0])
    if end_time is not None:
        earlier = [i for i in known if (times[i] or 0) < end_time]
        after = [i for i in known if not earlier or i > earlier[-1]]
        if len(after) > 1:
            end = min(end, files[after[1]][0])
    return min(start, end), end


def first_at(
    store: SegmentStore, start: int, end: int, time: int, on_corruption: str = "fail"
) -> int | None:
    """Physical offset of the first record from `start` on whose store time is `time` or later.

    `start` is a record's start. None if there is none before `end`.
    """
    low, _ = narrowed(store, start, end, time, None)
    if low >= end:
        return None
    files = overlapping(store.files, low, end)
    reader = SegmentReader(
        LogRange(files, low, end, opener=store.opener(), exact=True),
        Wanted(start_time=time),
        ReadOptions(
            columns=("commitLogOffset",),
            on_corruption=on_corruption,
            batch_rows=1,
            verify_crc="none",
        ),
    )
    batch = reader.next_batch()
    if batch is None:
        return None
    return int(need("pyarrow", "looking for a time").record_batch(batch)[0][0].as_py())


@dataclass(frozen=True)
class _Found:
    """What an entry selects of one store."""

    entry: TimeEntry
    broker: str
    queues: Mapping[Key, QueueExtent]
    """All that the entry covers."""
    offsets: Mapping[Key, int]
    """Of those that have a message at the time or later."""


def with_offsets(
    selection: Selection,
    stores: Sequence[SegmentStore],
    ends: Mapping[str, int],
    on_corruption: str = "fail",
) -> Selection:
    """The selection with offsets in the place of its times by queue, where they apply.

    `ends`: physical ends of the logs by broker. OffsetOutOfRangeError for a start that is later
    than all messages it is for, unless the strategy says otherwise.
    """
    starting, ending = selection.starting_times, selection.ending_times
    if starting is not None and selection.start_time is None:
        found = _found(selection, starting, stores, ends, on_corruption)
        matched = {one.entry for one in found if one.offsets}
        late = sorted(one.entry for one in found if one.entry not in matched)
        if late and selection.timestamp_strategy == "error":
            raise later_than_all(late[0])
        selection = replace(selection, starting_offsets=_starts(found))
    if ending is not None and selection.end_time is None:
        found = _found(selection, ending, stores, ends, on_corruption)
        selection = replace(selection, ending_offsets=_ends(found))
    return replace(selection, starting_times=None, ending_times=None)


def _starts(found: Iterable[_Found]) -> QueueOffsets:
    """Queues without such a message start at their end."""
    out: QueueOffsets = {}
    for one in found:
        for (topic, queue), extent in one.queues.items():
            offset = one.offsets.get((topic, queue), extent.high)
            out.setdefault(topic, {}).setdefault(one.broker, {})[queue] = offset
    return out


def _ends(found: Iterable[_Found]) -> QueueOffsets:
    """Queues without such a message are read to their end."""
    out: QueueOffsets = {}
    for one in found:
        for topic, queue in one.queues:
            offset = one.offsets.get((topic, queue), LATEST)
            out.setdefault(topic, {}).setdefault(one.broker, {})[queue] = offset
    return out


def _found(
    selection: Selection,
    wanted: QueueTimes,
    stores: Sequence[SegmentStore],
    ends: Mapping[str, int],
    on_corruption: str,
) -> list[_Found]:
    """Of each entry and each store that it is for."""
    chosen = list(entries(wanted))
    out = []
    for store in stores:
        own = [entry for entry in chosen if entry.broker in (None, store.name)]
        if not own:
            continue
        end = ends[store.name]
        rule = selection.rule(store.name)
        there = _extents(store, rule, store.first, end)
        at = {
            time: _offsets_at(store, rule, time, end, on_corruption)
            for time in {entry.time for entry in own}
        }
        for entry in own:
            queues = {
                key: extent
                for key, extent in there.items()
                if entry.covers(key[0], store.name, key[1])
            }
            offsets = {key: at[entry.time][key] for key in queues if key in at[entry.time]}
            out.append(_Found(entry, store.name, queues, offsets))
    return out


def _offsets_at(
    store: SegmentStore, rule: Rule, time: int, end: int, on_corruption: str
) -> dict[Key, int]:
    """Of each queue that has one, the offset of its first message from that time on."""
    for low, high in log_ranges.present_ranges(store, store.first, end, fail_on_data_loss=False):
        phys = first_at(store, low, high, time, on_corruption)
        if phys is not None:
            extents = _extents(store, rule, phys, end)
            return {key: one.low for key, one in extents.items() if one.low < one.high}
    return {}


def _extents(store: SegmentStore, rule: Rule, start: int, end: int) -> dict[Key, QueueExtent]:
    """As `queue_extents`, with the messages that a broker has not put into queues yet."""
    # Looked for first: a broker may go on dispatching.
    last = end if store.queues is None else dispatched(store, end, end)
    out = queue_extents(store, rule, start, end)
    if last >= end:
        return out
    for key, (low, high, _) in walk_log(store, rule, max(last, start), end).items():
        known = out.get(key)
        if known is None or known.low >= known.high:
            out[key] = QueueExtent(low, high)
        elif known.high < high:
            out[key] = replace(known, high=high)
    return out
