"""Where in a log a time is. Store times grow along the log but for steps of the clock, so a
segment of margin is kept at both ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pyrmq.engine import LogRange, SegmentReader, segment_times
from pyrmq.segments.filesystem import need
from pyrmq.segments.log_ranges import overlapping
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Wanted
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
