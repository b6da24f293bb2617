"""The tasks of a batch read of segments, for Spark and for the jobs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyrmq.segments.plan import plan
from pyrmq.segments.split import at_most
from pyrmq.segments.store import open_stores
from spark_ext import selecting

if TYPE_CHECKING:
    from pyrmq.segments.read_options import ReadOptions
    from pyrmq.segments.selection import Selection
    from pyrmq.segments.split import Split
    from spark_ext.options import Options


def of_batch(given: Options, selection: Selection, how: ReadOptions) -> list[Split]:
    """What the options ask for, as it is now. Raises SegmentError for what cannot be read so."""
    stores = open_stores(
        selecting.paths(given), selecting.broker_names(given), given["storageOptions"]
    )
    splits = plan(
        stores,
        selection,
        how,
        split_bytes=given["splitBytes"],
        min_partitions=given["minPartitions"],
        mode=given["plan"],
        fail_on_data_loss=given["failOnDataLoss"],
    )
    if given["maxRecordsPerPartition"] is not None:
        splits = at_most(splits, given["maxRecordsPerPartition"])
    return splits
