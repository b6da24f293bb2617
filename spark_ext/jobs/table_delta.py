"""`pyrmq pipeline table write --format delta`: the same runs into a Delta table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyrmq.escape import escape
from pyrmq.tables import delta
from pyrmq.tables.commit import Waiting
from pyrmq.tables.delta_write import DeltaRun
from pyrmq.tables.ends import Ends
from pyrmq.tables.runs import Added
from spark_ext.jobs import report
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.table_service import Stopping, repeat

if TYPE_CHECKING:
    from pyrmq.tables.source import Source


def write_delta(
    root: str,
    options: Mapping[str, str],
    name: str,
    source: Source,
    *,
    partition: Sequence[str] | None,
    codec: str,
    every: float | None,
    stopping: Stopping,
    waiting: Waiting,
    said: Callable[[str], None],
) -> tuple[Added, Ends | None]:
    """Adds to the Delta table in the folder `root`/`name` what it has not; returns what was added
    and what the table has. `options`: of delta-rs for this storage."""
    words = ("day",) if partition is None else tuple(partition)
    _need_plain(words)
    place = delta.Place(root, name, options)
    there = place.find()
    if there is None:
        source.start(None)  # a topic that does not exist makes no table
    elif partition is not None and set(delta.words_of(there)) != set(words):
        raise JobError(
            f"Delta table {escape(name)} has the partitions "
            f"{','.join(delta.words_of(there)) or 'none'}, not {','.join(words) or 'none'}: leave "
            "out --partition, or write another table"
        )
    if every is None:
        source.pin()
    run = DeltaRun(place, source, words, codec, waiting=waiting, stop=stopping.is_asked)
    commits = 0

    def once() -> None:
        nonlocal commits
        before = run.added.rows
        run.catch_up()
        if every is not None and run.added.commits > commits:
            said(f"{escape(name)}: {report.number(run.added.rows - before, 'message')}")
        commits = run.added.commits

    repeat(once, every, stopping)
    table = place.find()
    return run.added, delta.ends_of(table) if table is not None else None


def _need_plain(partition: Sequence[str]) -> None:
    """JobError for options that a Delta table does not have."""
    wrong = [word for word in partition if word not in delta.PARTITIONS]
    if wrong:
        raise JobError(
            f"--partition {','.join(partition)}: a Delta table is partitioned by none or some of "
            f"{', '.join(delta.PARTITIONS)}"
        )
