"""One task of a read: where it reads, and how. Can be sent to another process.

A segment that is not found was deleted, or cannot be seen from where the task runs.
A broker deletes its oldest segments and goes on with newer ones. A folder that is not there, is
empty, or ends before the segment is no sign of that: it is a store that is not mounted, or another
copy of it. What stands in it must not be passed over.
"""

from __future__ import annotations

import logging
import posixpath
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from pyrmq.engine import LogPlaces, LogRange, SegmentReader, segment_advance
from pyrmq.errors import (
    DataLossError,
    Parameter,
    SegmentDamagedError,
    SegmentError,
    SegmentPathError,
    StoreDamagedError,
)
from pyrmq.escape import escape
from pyrmq.model.names import SCHEDULE_TOPIC
from pyrmq.model.subscription import java_hash
from pyrmq.segments import log_ranges
from pyrmq.segments.filesystem import LOCAL, FileSystem, LocalFiles, need
from pyrmq.segments.queues import BATCH, BLANK_SIZE, Queue
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Rule
from pyrmq.segments.store import File, segments_of

if TYPE_CHECKING:
    from pyrmq.engine import Opener


HINT = (
    "mount the store under the same path on every host that runs tasks, and see that the user of "
    "the tasks may list it"
)


def check_seen(
    place: FileSystem | LocalFiles, missing: File, span: tuple[int, int], what: str
) -> None:
    """Returns where a segment was deleted; SegmentPathError, with host and path, where it cannot be
    seen. `span`: physical offsets of all that is read of this log, by other tasks too; `what` is
    read here, for the message."""
    path = missing[2]
    why = _why_unseen(place, missing, span)
    if why:
        raise SegmentPathError(
            f"{what}: {path} is not there on host {socket.gethostname()}: {why}", HINT
        )


def _why_unseen(place: FileSystem | LocalFiles, missing: File, span: tuple[int, int]) -> str:
    base, _, path = missing
    folder = posixpath.dirname(path)
    try:
        if place.kind(folder) != "folder":
            return f"there is no folder {_first_missing(place, folder)}"
        there = segments_of(place.list(folder))
    except (SegmentError, OSError) as error:
        return str(error)
    if not there:
        return f"{folder} has no segments"
    if there[-1][0] < base:
        return f"the newest segment of {folder} is {posixpath.basename(there[-1][2])}"
    start, end = span
    if not any(first < end and start < first + length for first, length, _ in there):
        return f"{folder} has nothing of bytes {start} to {end} of the log"
    return ""


def _first_missing(place: FileSystem | LocalFiles, folder: str) -> str:
    """The uppermost folder that is not there."""
    above = posixpath.dirname(folder)
    while above != folder and above and place.kind(above) != "folder":
        folder, above = above, posixpath.dirname(above)
    return folder


log = logging.getLogger("pyrmq.segments")

_SHOWN = 3
_READ_LOG = (Parameter("plan", "scan"), " reads the log itself")


@dataclass(frozen=True)
class Split:
    """Records of one log between two physical offsets."""

    broker: str
    root: str
    """As it was given, for messages."""
    files: tuple[File, ...]
    filesystem: FileSystem | None
    start: int
    end: int
    log_end: int
    """Physical offset at which the planned part of the log ends. Behind damage the next record is
    looked for up to there."""
    rule: Rule
    how: ReadOptions
    fail_on_data_loss: bool = True
    """Whether a file that is deleted before it is opened is an error."""
    span: tuple[int, int] | None = None
    """Physical offsets of all that is read of this log; None: of this task."""

    by_entries: ClassVar[bool] = False

    def describe(self) -> str:
        """What this is, for messages."""
        names = self.rule.selection.named_topics
        topics = f"topics {', '.join(names[:_SHOWN])}" if names else "its topics"
        more = ", …" if names and len(names) > _SHOWN else ""
        return f"broker {self.broker}, {topics}{more}, log {self.start} to {self.end}"

    def reader(self) -> SegmentReader:
        """The native reader of this task; it has an Arrow stream of its own."""
        return SegmentReader(self.source(), self.rule.wanted(), self.how, broker_name=self.broker)

    def source(self) -> LogRange | LogPlaces:
        """Where the engine finds the records of this task."""
        return self.range(self.start, self.end)

    def range(self, start: int, end: int) -> LogRange:
        """A part of this task's log; `start` is a record's start."""
        return LogRange(
            self.files, start, end, opener=self._opener(), exact=True, log_end=self.log_end
        )

    def _opener(self) -> Opener | None:
        return self.filesystem.opener() if self.filesystem else None

    def read(self) -> Iterator[Any]:
        """Its messages as pyarrow record batches, none empty, in log order.

        SegmentDamagedError and OSError name the file; DataLossError if a file was deleted.
        SegmentPathError, whatever `fail_on_data_loss` says, if the log cannot be seen from here.
        """
        for part in self._parts():
            try:
                yield from part._read()
            except FileNotFoundError as error:
                part._check_deleted(error)
                path = error.filename or error
                log_ranges.report_loss(
                    f"{self.describe()}: {path} was deleted before it was read",
                    self.fail_on_data_loss,
                )
            except OSError as error:
                error.add_note(f"while reading {self.describe()}")
                raise

    def _check_deleted(self, error: FileNotFoundError) -> None:
        """Returns if a segment was deleted. SegmentPathError if it cannot be seen from here,
        DataLossError if it is there and what leads to it was deleted."""
        place = self.filesystem or LOCAL
        named = [file for file in self.files if file[2] == error.filename]
        gone = named or [file for file in self.files if place.kind(file[2]) != "file"]
        if gone:
            check_seen(place, gone[0], self.span or (self.start, self.end), self.describe())
        else:
            raise DataLossError(
                f"{self.describe()}: {error.filename or error} was deleted before it was read",
                _READ_LOG,
            ) from error

    def _parts(self) -> list[Split]:
        """What is read in one go: a file at a time where deleted ones are left out."""
        if self.fail_on_data_loss:
            return [self]
        cuts = log_ranges.file_ranges(self.files, self.start, self.end)
        return [replace(self, start=low, end=high, log_end=high) for low, high in cuts]

    def _read(self) -> Iterator[Any]:
        arrow = need("pyarrow", "reading record batches")
        try:
            reader = self.reader()
            while (batch := reader.next_batch()) is not None:
                yield arrow.record_batch(batch)
        except StoreDamagedError as error:
            raise self._damaged(error) from error
        self.log_damage(reader)

    def _damaged(self, error: StoreDamagedError) -> SegmentDamagedError:
        """The error for a damaged record. It can be skipped where the next one was found."""
        hint = None
        if error.next_record is not None:
            hint = ("restore the file; ", Parameter("on_corruption", "skip"), " leaves this out")
        damaged = SegmentDamagedError(f"{self.describe()}: {error.args[0]}", hint)
        damaged.next_record = error.next_record
        return damaged

    def log_damage(self, reader: SegmentReader) -> None:
        """Logs what was left out as damaged, in one line."""
        stats = reader.stats()
        if not stats["damagedParts"]:
            return
        parts = [
            f"{path}, byte {at} (physical offset {phys}, {size} bytes): {why}"
            for path, at, phys, size, why in reader.damage()[:_SHOWN]
        ]
        more = "; …" if stats["damagedParts"] > _SHOWN else ""
        log.warning(
            "%s: %d damaged parts with %d bytes were skipped: %s%s",
            escape(self.describe()),
            stats["damagedParts"],
            stats["skippedBytes"],
            escape("; ".join(parts)),
            more,
        )


@dataclass(frozen=True)
class IndexSplit(Split):
    """Records that queue entries or the index name."""

    by_entries: ClassVar[bool] = True
    queues: tuple[tuple[Queue, int, int], ...] = ()
    """(queue, first place, place behind the last)."""
    places: tuple[int, ...] = ()
    """Physical offsets of records, ascending."""

    def source(self) -> LogPlaces:
        return LogPlaces(self.files, self.positions(), opener=self._opener())

    def positions(self) -> bytes:
        """Pairs of little-endian int64, physical offset and size (0: not known), ascending."""
        np = need("numpy", "reading by queue entries")
        parts = [np.array([(phys, 0) for phys in self.places], "<i8").reshape(-1, 2)]
        for queue, start, end in self.queues:
            seen = start
            for place, entries in queue.read(start, end):
                if place != seen or (entries["size"] <= 0).any():
                    break
                seen += len(entries)
                found = entries[entry_mask(queue, entries, self.rule.selection.tags)]
                parts.append(np.column_stack([found["phys"], found["size"]]).astype("<i8"))
            if seen < end:
                raise DataLossError(
                    f"{self.describe()}: the entries of queue {queue.topic}-{queue.id} from "
                    f"{seen} on were deleted before they were read",
                    _READ_LOG,
                )
        rows = np.concatenate(parts)
        rows = rows[(rows[:, 0] >= self.start) & (rows[:, 0] < self.end)]
        _, first = np.unique(rows[:, 0], return_index=True)
        return bytes(rows[first].tobytes())


def entry_mask(queue: Queue, entries: Any, tags: tuple[str, ...] | None) -> Any:
    """Which entries may lead to a message that is asked for; tags are compared by their hash.

    [ConsumeQueue] Instead of a hash there may be an address into consumequeue_ext, and in the
    delay topic a time of delivery; the entry of an inner batch has no hash of the messages in it.
    Those are let through.
    """
    np = need("numpy", "reading by queue entries")
    size, codes = entries["size"], entries["tags"]
    mask = (size > 0) & ~((size == BLANK_SIZE) & (entries["phys"] == 0))
    if tags is None or queue.topic == SCHEDULE_TOPIC or queue.unit == BATCH:
        return mask
    hashes = np.array([java_hash(tag) for tag in tags], "i8")
    outside = (codes < -(2**31)) | (codes >= 2**31)
    return mask & (outside | np.isin(codes, hashes))


def at_most(splits: Iterable[Split], count: int) -> list[Split]:
    """The same messages in tasks of at most `count` each.

    Ranges of the log are walked for that, headers only; messages that tags, key or times leave out
    count as well. An inner batch stays whole.
    """
    out: list[Split] = []
    for split in splits:
        out += _entries(split, count) if isinstance(split, IndexSplit) else _ranges(split, count)
    return out


def _ranges(split: Split, count: int) -> Iterator[Split]:
    at = split.start
    while at < split.end:
        stop, _ = segment_advance(
            split.range(at, split.end),
            split.rule,
            max_rows=count,
            on_corruption=split.how.on_corruption,
        )
        if stop <= at or stop >= split.end:
            stop = split.end
        yield replace(split, start=at, end=stop)
        at = stop


def _entries(split: IndexSplit, count: int) -> Iterator[Split]:
    np = need("numpy", "reading by queue entries")
    places = np.frombuffer(split.positions(), "<i8").reshape(-1, 2)[:, 0]
    if len(places) <= count:
        yield split
        return
    edges = [split.start, *places[count::count].tolist(), split.end]
    cuts = [_cut(queue, start, end, edges) for queue, start, end in split.queues]
    for number, (low, high) in enumerate(pairwise(edges)):
        queues = tuple(
            (queue, at[number], at[number + 1])
            for (queue, _, _), at in zip(split.queues, cuts, strict=True)
            if at[number] < at[number + 1]
        )
        inside = tuple(place for place in split.places if low <= place < high)
        yield replace(split, start=low, end=high, log_end=high, queues=queues, places=inside)


def _cut(queue: Queue, start: int, end: int, edges: list[int]) -> list[int]:
    """The places of a queue that lead to the edges; the first is its start, the last its end."""
    np = need("numpy", "reading by queue entries")
    parts: list[Any] = [entries["phys"].astype("i8") for _, entries in queue.read(start, end)]
    phys = np.maximum.accumulate(np.concatenate(parts)) if parts else np.array([], "i8")
    inner = (start + int(at) for at in np.searchsorted(phys, edges[1:-1]))
    return [start, *(min(at, end) for at in inner), end]
