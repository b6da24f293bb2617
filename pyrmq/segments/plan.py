"""The tasks of a batch read: ranges of the log, its files, or entries of queues and index."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyrmq.engine import segment_end
from pyrmq.errors import Parameter, SegmentError, SegmentOptionError
from pyrmq.escape import escape
from pyrmq.segments import at_times, index_plan, log_ranges
from pyrmq.segments.assigned import check_assigned
from pyrmq.segments.bounds import Limits, batch_limits
from pyrmq.segments.index_plan import IndexPlan, IndexUnusable
from pyrmq.segments.log_ranges import RecordStarts
from pyrmq.segments.offsets import shown
from pyrmq.segments.parameters import PLAN
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Rule, Selection
from pyrmq.segments.split import IndexSplit, Split
from pyrmq.segments.store import SegmentStore

log = logging.getLogger("pyrmq.segments")

SPLIT_BYTES = 256 << 20
_MIN_SPLIT = 1 << 10


@dataclass(frozen=True)
class Part:
    """What is read of one store."""

    store: SegmentStore
    rule: Rule
    limits: Limits
    ranges: list[tuple[int, int]]
    """Physical offsets, from and before; between the ranges the log has holes."""
    log_end: int
    fail_on_data_loss: bool = True

    @property
    def bytes(self) -> int:
        return sum(end - start for start, end in self.ranges)


def plan(
    stores: Sequence[SegmentStore],
    selection: Selection,
    how: ReadOptions,
    *,
    split_bytes: int = SPLIT_BYTES,
    min_partitions: int | None = None,
    mode: str = "auto",
    fail_on_data_loss: bool = True,
) -> list[Split]:
    """The tasks of a batch read, none if there is nothing to read.

    The end of each log is looked for once, here: every task knows its own. SegmentError says what
    does not fit; StoreDamagedError and OSError come from reading the logs.
    """
    check_plan_options(split_bytes, min_partitions, mode)
    if how.views and any(store.filesystem for store in stores):
        raise SegmentOptionError((Parameter("views"), ": bodies can only be viewed in local files"))
    timed = (selection.start_time, selection.starting_times) != (None, None)
    if selection.starting_offsets == "latest" and not timed:
        raise SegmentOptionError(
            (Parameter("starting_offsets"), ": latest is no start for a batch read"),
            "it would read nothing",
        )
    selection.check_against(stores)
    check_assigned(selection, stores)
    ends = [segment_end(store.files, opener=store.opener())[0] for store in stores]
    if _is_later_than_all(stores, ends, selection, how):
        return []
    names = [store.name for store in stores]
    by_name = dict(zip(names, ends, strict=True))
    selection = at_times.with_offsets(selection, stores, by_name, how.on_corruption)
    parts = [
        _part(store, end, selection, fail_on_data_loss)
        for store, end in zip(stores, ends, strict=True)
    ]
    total = sum(part.bytes for part in parts)
    size = log_ranges.split_size(total, split_bytes, min_partitions)
    out: list[Split] = []
    for part in parts:
        found = None
        if mode in ("auto", "index"):
            found = _indexed(part, mode, split_bytes, min_partitions)
        if found is None:
            out += scans(part, part.ranges, size, how, by_file=mode == "file")
            continue
        out += [_index_split(part, task, how) for task in found.tasks]
        out += scans(part, found.scans, size, how)
    return out


def check_plan_options(split_bytes: int, min_partitions: int | None, mode: str) -> None:
    """SegmentOptionError for a wrong value."""
    if mode not in PLAN:
        raise SegmentOptionError((Parameter("plan"), f": {mode!r}"), f"expected {', '.join(PLAN)}")
    if split_bytes < _MIN_SPLIT:
        raise SegmentOptionError(
            (Parameter("split_bytes"), f": {split_bytes}"), f"expected at least {_MIN_SPLIT}"
        )
    if min_partitions is not None and min_partitions < 1:
        raise SegmentOptionError(
            (Parameter("min_partitions"), f": {min_partitions}"), "expected at least 1"
        )


def _is_later_than_all(
    stores: Sequence[SegmentStore], ends: Sequence[int], selection: Selection, how: ReadOptions
) -> bool:
    """Whether the start is later than all messages; an error unless that may be."""
    time = selection.start_time
    if time is None:
        return False
    for store, end in zip(stores, ends, strict=True):
        if any(begin is not None and begin >= time for begin in at_times.first_times(store)):
            return False
        for low, high in log_ranges.present_ranges(
            store, store.first, end, fail_on_data_loss=False
        ):
            if at_times.first_at(store, low, high, time, how.on_corruption) is not None:
                return False
    if selection.timestamp_strategy == "latest":
        return True
    raise SegmentOptionError(
        (Parameter("start_time"), f" {shown(time)} is later than every message"),
        (Parameter("timestamp_strategy", "latest"), " reads nothing in this case"),
    )


def _part(store: SegmentStore, end: int, selection: Selection, fail: bool) -> Part:
    limits = batch_limits(store, selection, store.first, end, fail_on_data_loss=fail)
    low, high = at_times.narrowed(
        store, limits.low, limits.high, selection.start_time, selection.end_time
    )
    limits = Limits(limits.starts, limits.ends, low, high)
    rule = selection.rule(store.name, limits.starts, limits.ends)
    ranges = []
    if low < high:
        ranges = log_ranges.present_ranges(store, low, high, fail_on_data_loss=fail)
    return Part(store, rule, limits, ranges, end, fail)


def _indexed(
    part: Part, mode: str, split_bytes: int, min_partitions: int | None
) -> IndexPlan | None:
    """The plan by index or queues; None where `auto` scans."""
    try:
        return _by_index(part, mode, split_bytes, min_partitions)
    except (IndexUnusable, OSError, SegmentError) as reason:
        if mode == "index":
            raise index_plan.refuse(str(reason)) from reason
        log.info("%s: scanning: %s", escape(part.store.root), escape(reason))
        return None


def _by_index(
    part: Part, mode: str, split_bytes: int, min_partitions: int | None
) -> IndexPlan | None:
    if not part.ranges:
        return IndexPlan([], [])
    if len(part.ranges) > 1:
        raise IndexUnusable("the log has holes")
    store, chosen = part.store, part.rule.selection
    narrow = chosen.key is not None or chosen.named_topics is not None or chosen.pattern is not None
    if mode == "auto" and not narrow:
        raise IndexUnusable("all topics are read")
    doubt = index_plan.why_incomplete(store) if store.base else ""
    if doubt and mode == "auto":
        raise IndexUnusable(doubt)
    if doubt:
        log.warning(
            "%s: %s; the queues and the index may lack messages", escape(store.root), escape(doubt)
        )
    if chosen.key is not None:
        try:
            return index_plan.by_key(store, part.rule, part.limits)
        except IndexUnusable as reason:
            log.info("%s: the key is looked for by queues: %s", escape(store.root), escape(reason))
    return index_plan.by_queues(
        store,
        part.rule,
        part.limits,
        part.log_end,
        split_bytes=split_bytes,
        min_partitions=min_partitions,
        share=index_plan.SHARE if mode == "auto" else None,
    )


def scans(
    part: Part,
    ranges: Iterable[tuple[int, int]],
    size: int,
    how: ReadOptions,
    *,
    by_file: bool = False,
) -> list[Split]:
    """Ranges of the log of about `size` bytes, or one a file; both ends of a range are those of
    records."""
    out = []
    store = part.store
    starts = RecordStarts(store)
    for start, end in ranges:
        cuts = (
            log_ranges.file_ranges(store.files, start, end)
            if by_file
            else log_ranges.even_ranges(store.files, start, end, size, starts)
        )
        for low, high in cuts:
            files, log_end = log_ranges.files_of(store, low, high, end)
            if files:
                out.append(
                    Split(
                        store.name,
                        store.root,
                        files,
                        store.filesystem,
                        low,
                        high,
                        log_end,
                        part.rule,
                        how,
                        part.fail_on_data_loss,
                        (part.limits.low, part.limits.high),
                    )
                )
    return out


def _index_split(part: Part, task: index_plan.IndexTask, how: ReadOptions) -> IndexSplit:
    store = part.store
    return IndexSplit(
        store.name,
        store.root,
        log_ranges.overlapping(store.files, task.start, task.end),
        store.filesystem,
        task.start,
        task.end,
        task.end,
        part.rule,
        how,
        part.fail_on_data_loss,
        (part.limits.low, part.limits.high),
        queues=task.queues,
        places=task.places,
    )
