"""One task of a read: a split of `pyrmq.segments` on its way to a worker, and reading it there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from spark_ext.option_names import option_names
from spark_ext.worker import VersionCheckedPickle, prepare

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pyrmq.segments.split import Split


class SegmentPartition(VersionCheckedPickle, InputPartition):
    """`value` is the Split."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


def read(partition: InputPartition | None) -> Iterator[RecordBatch]:
    """The batches of a partition, each with exactly the schema of the query.

    Spark makes one partition without a value (None, or with the value None) of an empty plan.
    Errors come as they are: those of a split name broker, topics, file and physical offset, and
    Spark shows their text to the user.
    """
    prepare()
    split: Split | None = None if partition is None else partition.value
    return iter(()) if split is None else _read(split)


def _read(split: Split) -> Iterator[RecordBatch]:
    with option_names():
        yield from split.read()
