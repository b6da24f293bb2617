"""Statistics of a data file, of what its Parquet footer says."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

BEYOND = (OverflowError, ValueError)
"""What Python's dates raise for years beyond 9999. Clients choose times and bodies."""


def statistics(meta: Any, plan: Mapping[int, Any], ids: Mapping[str, int]) -> Any:
    """pyiceberg's DataFileStatistics. Columns with a time that Python cannot hold have no bounds:
    readers take their files as they are."""
    from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata as read

    with _without_warnings():
        try:
            return read(meta, stats_columns=dict(plan), parquet_column_mapping=dict(ids))
        except BEYOND:
            return read(
                meta,
                stats_columns=_without_bounds(meta, plan, ids),
                parquet_column_mapping=dict(ids),
            )


def _without_bounds(meta: Any, plan: Mapping[int, Any], ids: Mapping[str, int]) -> dict[int, Any]:
    """The plan, with counts only for columns whose bounds cannot be read."""
    from pyiceberg.io.pyarrow import MetricModeTypes, MetricsMode

    made = dict(plan)
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            if column.is_stats_set and bounds(column.statistics) is None:
                one = ids[column.path_in_schema]
                made[one] = replace(made[one], mode=MetricsMode(MetricModeTypes.COUNTS))
    return made


def bounds(of: Any) -> tuple[Any, Any] | None:
    """Least and greatest value of Parquet's statistics of a column; None: Python cannot hold
    them."""
    try:
        return of.min, of.max
    except BEYOND:
        return None


@contextmanager
def _without_warnings() -> Iterator[None]:
    """pyiceberg warns of each column without statistics; bodies and properties have none."""

    def other(record: logging.LogRecord) -> bool:
        return "statistics missing" not in str(record.msg)

    logger = logging.getLogger("pyiceberg.io.pyarrow")
    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)
