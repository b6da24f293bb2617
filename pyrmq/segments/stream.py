"""Positions of a stream over growing segments; there is no Spark in it.

Starting offsets by queue become a position and a row filter, `from`, which is left out once the
log is past the places named in `until`. What of a topic or queue that is named later stands before
the position is read in one micro-batch, the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyrmq.engine import LogRange, segment_advance, segment_end
from pyrmq.errors import CheckpointError, DataLossError, Parameter, SegmentOptionError
from pyrmq.escape import escape
from pyrmq.segments import at_times, log_ranges
from pyrmq.segments.assigned import check_assigned
from pyrmq.segments.bounds import Limits, as_bounds
from pyrmq.segments.offsets import shown
from pyrmq.segments.plan import SPLIT_BYTES, Part, check_plan_options, scans
from pyrmq.segments.position import Behind, Position, added, behind, within
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Rule, Selection
from pyrmq.segments.split import Split
from pyrmq.segments.store import SegmentStore, open_stores
from pyrmq.segments.stream_start import (
    Start,
    by_folder,
    check_names,
    record_near,
    shares,
    starting_at,
)

log = logging.getLogger("pyrmq.segments")


class StreamPlanner:
    """Positions and tasks of a stream; lives on the driver, one for each query.

    Tags and the key of the selection apply to every batch; the starting time is a position. The
    places are listed anew for every position and every batch.
    """

    def __init__(
        self,
        paths: Sequence[str],
        selection: Selection,
        how: ReadOptions,
        *,
        broker_names: Sequence[str] = (),
        storage_options: Mapping[str, Any] | None = None,
        split_bytes: int = SPLIT_BYTES,
        min_partitions: int | None = None,
        mode: str = "auto",
        fail_on_data_loss: bool = True,
    ) -> None:
        check_plan_options(split_bytes, min_partitions, mode)
        if mode == "index":
            raise SegmentOptionError(
                (Parameter("plan", "index"), " reads a batch, not a stream"),
                ("leave ", Parameter("plan"), " out"),
            )
        ends = (selection.ending_offsets, selection.end_time, selection.ending_times)
        if ends != ("latest", None, None):
            raise SegmentOptionError(
                (
                    Parameter("ending_offsets"),
                    " and ",
                    Parameter("end_time"),
                    " belong to a batch read",
                ),
                "a stream has no end",
            )
        self.selection = selection
        self.how = how
        self.mode = mode
        self.split_bytes = split_bytes
        self.min_partitions = min_partitions
        self.fail_on_data_loss = fail_on_data_loss
        self._stores = open_stores(paths, broker_names, storage_options)
        if not broker_names:
            check_names(self._stores)
        selection.check_against(self._stores, may_come=True)
        self._ends: dict[str, int] = {}
        self._pinned: dict[str, int] | None = None
        self._initial: Position | None = None
        self._first_is_empty = selection.starts_at_end
        """The first batch has nothing in it: Spark keeps its end, which is where the query starts
        then, also if it stops before the batch is done."""
        self._reported_ends: dict[str, int] = {}
        """Ends that `latest` gave to calls without a start."""
        self._stands: dict[str, int] = {}
        """What `latest` said last: where the next batch ends."""
        self._counted: tuple[dict[str, int], dict[str, int], int] | None = None
        """Of `count`: where it started, how far it went, and what it found."""
        self._checked_topics = False

    def initial(self) -> dict[str, Any]:
        """Where a new query starts; the same however often it is asked for, as Spark does so anew
        when it plans the first batch."""
        if self._initial is None:
            self._initial = self._found_initial()
        return self._initial.as_dict()

    def _found_initial(self) -> Position:
        stores, ends = self._relist()
        check_assigned(self.selection, stores)
        selection = at_times.with_offsets(self.selection, stores, ends, self.how.on_corruption)
        starts: dict[str, Start] = {
            store.name: starting_at(
                store,
                ends[store.name],
                selection,
                self.how,
                fail_on_data_loss=self.fail_on_data_loss,
            )
            for store in stores
        }
        found = [start for start in starts.values() if start.found]
        if not found and self.selection.timestamp_strategy == "error":
            raise SegmentOptionError(
                (
                    Parameter("start_time"),
                    f" {shown(self.selection.start_time)} is later than every message",
                ),
                (Parameter("timestamp_strategy", "latest"), " starts at the end in this case"),
            )
        filtered = {name: start for name, start in starts.items() if start.offsets}
        position = Position(
            {name: start.phys for name, start in starts.items()},
            {name: as_bounds(start.offsets) for name, start in filtered.items()},
            {name: start.until for name, start in filtered.items()},
        )
        return position.moved(position.log).of_selection(self.selection)

    def end(self) -> dict[str, Any]:
        """The end of the logs now."""
        _, ends = self._relist()
        return self._at(ends).as_dict()

    def _at(self, log_at: Mapping[str, int]) -> Position:
        return Position(log_at).of_selection(self.selection)

    def behind(self) -> Behind:
        """How far the end of the batch that `latest` named last is behind the end of the logs, as
        it was seen last."""
        rules = {store.name: self._rule(store, Position({})) for store in self._stores}
        return behind(self._stores, rules, self._stands, self._ends)

    def count(self, start: Mapping[str, Any], wanted: int) -> int:
        """How many messages there are to read from `start` on, counted up to `wanted`. Topics that
        were added count as enough."""
        stores, ends = self._relist()
        position = self._position(start, stores)
        if added(self.selection, position, position.of_selection(self.selection)):
            return wanted
        first = dict(position.log)
        at, found = dict(first), 0
        if self._counted is not None and self._counted[0] == first:
            at, found = dict(self._counted[1]), self._counted[2]
        for store in stores:
            low = at[store.name]
            if found < wanted and low < ends[store.name]:
                rule = self._rule(store, position)
                for begin, high in log_ranges.present_ranges(
                    store, low, ends[store.name], fail_on_data_loss=False
                ):
                    while found < wanted and begin < high:
                        stop, used = segment_advance(
                            LogRange(store.files, begin, high, opener=store.opener()),
                            rule,
                            max_rows=wanted - found,
                            on_corruption="skip",
                        )
                        found += used
                        begin = stop if stop > begin else high
                    at[store.name] = begin
        self._counted = (first, at, found)
        return found

    def pin(self) -> None:
        """From here on `latest` stays at or below the end of the logs now."""
        _, self._pinned = self._relist()

    def latest(
        self,
        start: Mapping[str, Any] | None = None,
        max_offsets: int | None = None,
        max_bytes: int | None = None,
    ) -> dict[str, Any]:
        """How far the next batch goes. Without `start` to the end of the logs.

        `max_offsets`: messages of the chosen topics, `max_bytes`: of the logs, at most; what there
        is to do is shared over the brokers by their bytes. A batch has at least one record if there
        is one.
        """
        for name, limit in (("max_offsets", max_offsets), ("max_bytes", max_bytes)):
            if limit is not None and limit < 1:
                raise SegmentOptionError((Parameter(name), f": {limit}"), "expected at least 1")
            if limit is not None and start is None:
                raise SegmentOptionError((Parameter(name), " needs the start of the batch"))
        stores, ends = self._relist()
        if self._pinned is not None:
            ends = {name: min(end, self._pinned[name]) for name, end in ends.items()}
        if start is None:
            self._check_shrunk(self._reported_ends, ends, stores)
            self._reported_ends = {
                name: max(end, self._reported_ends.get(name, end)) for name, end in ends.items()
            }
            self._stands = dict(self._reported_ends)
            return self._at(self._reported_ends).as_dict()
        position = self._position(start, stores)
        at = dict(position.log)
        first, self._first_is_empty = self._first_is_empty, False
        if first and position == self._initial:
            self._stands = at
            return dict(start)
        self._check_shrunk(at, ends, stores)
        todo = {s.name: max(0, ends[s.name] - max(at[s.name], s.first)) for s in stores}
        rows, size = shares(max_offsets, todo), shares(max_bytes, todo)
        for store in stores:
            name = store.name
            if todo[name] and rows[name] != 0 and size[name] != 0:
                rule = self._rule(store, position)
                at[name] = self._advance(store, rule, at[name], ends[name], rows[name], size[name])
        self._stands = at
        return position.moved(at).of_selection(self.selection).as_dict()

    def splits(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Split]:
        """The tasks of the batch between two positions; none if they are the same."""
        stores = [store.relisted() for store in self._stores]
        low, high = self._position(start, stores), self._position(end, stores)
        chosen = within(self.selection, high)
        parts = self._parts_of_added(stores, low, high)
        for store in stores:
            first, last = low.log[store.name], high.log[store.name]
            if first > last and low != self._initial:
                # PySpark 4.1 names an end without a start. That of a first batch may be looked for
                # before where the batch starts, so it may lie before that.
                log_ranges.report_loss(
                    f"{store.root}: the log of broker {store.name} ends at {last}, the stream is "
                    f"at {first}",
                    self.fail_on_data_loss,
                )
            if first >= last or chosen is None:
                continue
            if last > store.last:
                raise DataLossError(
                    f"{store.root}: the log of broker {store.name} ends at {store.last}, the "
                    f"checkpoint says {last}",
                    "it is another log, or it was cut; start with a new checkpoint",
                )
            log_ranges.check_any_present(store, first, last)
            ranges = log_ranges.present_ranges(
                store, first, last, fail_on_data_loss=self.fail_on_data_loss
            )
            rule = self._rule(store, low, chosen)
            limits = Limits(low=first, high=last)
            parts.append(Part(store, rule, limits, ranges, last, self.fail_on_data_loss))
        total = sum(part.bytes for part in parts)
        size = log_ranges.split_size(total, self.split_bytes, self.min_partitions)
        by_file = self.mode == "file"
        return [
            split
            for part in parts
            for split in scans(part, part.ranges, size, self.how, by_file=by_file)
        ]

    def _parts_of_added(
        self, stores: Sequence[SegmentStore], low: Position, high: Position
    ) -> list[Part]:
        """What stands before `low` of topics and queues that are selected since."""
        more = added(self.selection, low, high)
        if more is None:
            return []
        out = []
        for store in stores:
            last = low.log[store.name]
            if last <= store.first:
                continue
            names = ", ".join(more.named_topics or ("all but those of before",))
            log.warning(
                "%s: what was added, %s, is read from its beginning",
                escape(store.name),
                escape(names),
            )
            ranges = log_ranges.present_ranges(
                store, store.first, last, fail_on_data_loss=self.fail_on_data_loss
            )
            rule = self._rule(store, Position({}), more)
            limits = Limits(low=store.first, high=last)
            out.append(Part(store, rule, limits, ranges, last, self.fail_on_data_loss))
        return out

    def _warn_of_missing(self) -> None:
        """A topic that is named and not there may come, or be misspelt."""
        for error in self.selection.missing_topics(self._stores):
            log.warning("%s: nothing is read of it until it is there", escape(error))

    def _relist(self) -> tuple[list[SegmentStore], dict[str, int]]:
        """The stores listed anew, and where their logs end."""
        self._stores = [store.relisted() for store in self._stores]
        if not self._checked_topics:
            self._checked_topics = True
            self._warn_of_missing()
        for store in self._stores:
            known = self._ends.get(store.name)
            opener = store.opener()
            if known is not None and not store.first <= known <= store.last:
                known = None
            end, why = segment_end(store.files, known, opener=opener)
            if why and known is not None:
                # Something that is no record: half of one, or the log was cut and written anew.
                end, why = segment_end(store.files, opener=opener)
            if why:
                log.info("%s: the log ends at %d: %s", escape(store.root), end, escape(why))
            self._ends[store.name] = log_ranges.next_record(store, end)
        return self._stores, dict(self._ends)

    def _position(self, value: Mapping[str, Any], stores: Sequence[SegmentStore]) -> Position:
        position = Position.of(value)
        own, other = {store.name for store in stores}, set(position.log)
        if own != other:
            text = (
                f"the checkpoint is of broker {', '.join(sorted(other))}, the stores are of "
                f"{', '.join(sorted(own))}"
            )
            folders = by_folder(stores)
            if other == set(folders):
                raise CheckpointError(
                    f"{text}: it has the names of their folders",
                    (Parameter("broker_names", ",".join(folders)), " continues with those"),
                )
            raise CheckpointError(text)
        return position

    def _check_shrunk(
        self, at: dict[str, int], ends: Mapping[str, int], stores: Sequence[SegmentStore]
    ) -> None:
        """A log that ends before where the stream is was cut, or is another one."""
        for store in stores:
            if self._ends[store.name] < at.get(store.name, 0):
                log_ranges.report_loss(
                    f"{store.root}: the log of broker {store.name} ends at "
                    f"{self._ends[store.name]}, the stream is at {at[store.name]}",
                    self.fail_on_data_loss,
                )

    def _rule(
        self, store: SegmentStore, position: Position, chosen: Selection | None = None
    ) -> Rule:
        # Not the starting time: the clock that store times are from may step back.
        selection = replace(chosen or self.selection, start_time=None)
        return selection.rule(store.name, position.starts.get(store.name))

    def _advance(
        self,
        store: SegmentStore,
        rule: Rule,
        start: int,
        end: int,
        rows: int | None,
        size: int | None,
    ) -> int:
        """Where a batch stops that may have so many rows and bytes."""
        if rows is None and (size is None or size >= end - start):
            return end
        at = start
        for low, high in log_ranges.present_ranges(
            store, start, end, fail_on_data_loss=self.fail_on_data_loss
        ):
            begin = low
            if rows is None and size is not None:
                begin = record_near(store, low, min(low + size, high))
            stop, used = segment_advance(
                LogRange(store.files, begin, high, opener=store.opener()),
                rule,
                max_rows=rows,
                max_bytes=None if size is None else max(size - (begin - low), 0),
                on_corruption=self.how.on_corruption,
            )
            at = stop
            if stop < high:
                return at
            if rows is not None:
                rows -= used
            if size is not None:
                size -= high - low
            if (rows is not None and rows <= 0) or (size is not None and size <= 0):
                return at
        return max(at, end)
