"""One task of a read through brokers: ranges of one broker's queues, and their Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyrmq import engine
from pyrmq.errors import DataLossError, PyrmqError
from pyrmq.escape import escape
from pyrmq.segments.selection import Wanted
from spark_ext.broker.cluster import Access, Cluster
from spark_ext.broker.pull import PulledRecords, Puller, QueueRange
from spark_ext.option_names import option_names
from spark_ext.worker import VersionCheckedPickle, prepare

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pyrmq.segments.read_options import ReadOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BrokerSplit:
    """What a task reads, and how. Times are store times in ms, the end is exclusive."""

    access: Access
    ranges: tuple[QueueRange, ...]
    how: ReadOptions
    tags: tuple[str, ...] | None
    start_time: int | None
    end_time: int | None
    batch_size: int
    """Messages asked for in one pull (maxMsgNums)."""
    fail_on_data_loss: bool

    def read(self) -> Iterator[RecordBatch]:
        """Batches with exactly the columns of `how`; errors name broker, queue and offsets."""
        with option_names(), Cluster(self.access) as cluster:
            puller = Puller(
                cluster,
                list(self.ranges),
                expression=None if self.tags is None else " || ".join(self.tags),
                batch_size=self.batch_size,
                fail_on_data_loss=self.fail_on_data_loss,
            )
            for group in _groups(puller.results(), self.how.batch_bytes):
                yield from self._decode(group)

    def _decode(self, group: list[PulledRecords]) -> Iterator[RecordBatch]:
        import pyarrow

        first, last = group[0], group[-1]
        place = first.range
        try:
            data = first.body if len(group) == 1 else b"".join(p.body for p in group)
            reader = engine.SegmentReader(
                engine.RecordBytes(data),
                Wanted(
                    _only(place.queue_id, first.start, last.end),
                    self.start_time,
                    self.end_time,
                    self.tags,
                ),
                self.how,
                broker_name=place.broker,
            )
            rows = 0
            while (batch := reader.next_batch()) is not None:
                made = pyarrow.record_batch(batch)
                rows += made.num_rows
                yield made
            self._check_count(group, rows)
        except PyrmqError as error:
            error.add_note(f"in what was pulled of {place}, from offset {first.start} on")
            raise

    def _check_count(self, group: list[PulledRecords], rows: int) -> None:
        """Each offset is a row, where nothing is left out. DataLossError, or a warning."""
        if self.tags is not None or (self.start_time, self.end_time) != (None, None):
            return
        wanted = sum(records.end - records.start for records in group)
        if rows == wanted or self.how.on_corruption == "skip":
            return
        text = (
            f"{group[0].range}: {rows} messages came for the {wanted} offsets from "
            f"{group[0].start} to {group[-1].end}; the others are deleted (or compacted)"
        )
        if self.fail_on_data_loss:
            raise DataLossError(text)
        log.warning("%s; continuing with the messages available", escape(text))


def _only(queue_id: int, start: int, end: int) -> Callable[[str], dict[int, tuple[int, int]]]:
    return lambda topic: {queue_id: (start, end)}


def _groups(results: Iterator[PulledRecords], size: int) -> Iterator[list[PulledRecords]]:
    """Neighbours of one range that make up a batch together; one that overlaps with what
    follows is the last of its group, as the bounds of a group are all that keeps rows apart."""
    group: list[PulledRecords] = []
    nbytes = 0
    for records in results:
        if group and group[-1].range is not records.range:
            yield group
            group, nbytes = [], 0
        group.append(records)
        nbytes += len(records.body)
        if records.overlaps or nbytes >= size:
            yield group
            group, nbytes = [], 0
    if group:
        yield group


class BrokerPartition(VersionCheckedPickle, InputPartition):
    """`value` is the BrokerSplit."""

    def __init__(self, split: BrokerSplit) -> None:
        super().__init__(split)


def read(partition: InputPartition | None) -> Iterator[RecordBatch]:
    """The batches of a partition. Spark makes one without a value of an empty plan."""
    prepare()
    split: BrokerSplit | None = None if partition is None else partition.value
    return iter(()) if split is None else split.read()
