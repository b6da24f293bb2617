"""The tasks of a batch read: ranges of the log, its files, or entries of queues and index."""

from __future__ import annotations

from collections.abc import Sequence

from pyrmq.engine import Split, plan_segments
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import SegmentStore

SPLIT_BYTES = 256 << 20


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
    does not fit; SegmentDamagedError and OSError come from reading the logs.
    """
    return plan_segments(
        list(stores),
        selection.native,
        how.native,
        split_bytes=split_bytes,
        min_partitions=min_partitions,
        mode=mode,
        fail_on_data_loss=fail_on_data_loss,
    )
