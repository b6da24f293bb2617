"""What the files of a run hold, as its manifest says it: counts by file, queue and log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from spark_ext.jobs.archive_manifest import File, LogRange, QueueRange, Run
from spark_ext.jobs.errors import JobError

PLACE = ("brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp")
"""Columns of a file that its counts are made of."""
ROWS = 1 << 17
"""Rows of a file that are counted at a time."""


class Counted(NamedTuple):
    """Rows of one queue; times are ms."""

    brokerName: str
    queueId: int
    rows: int
    first: int
    last: int
    logFirst: int
    logLast: int
    timeFirst: int
    timeLast: int


class Contents:
    """Sums of what is counted, in any number of pieces."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}
        self._queues: dict[tuple[str, str, int], QueueRange] = {}
        self._log: dict[str, LogRange] = {}

    def add(self, path: str, topic: str, day: str, found: Iterable[Counted]) -> None:
        """Rows of a file; `path` is relative to the archive."""
        for c in found:
            f = self._files.get(path)
            self._files[path] = File(
                path,
                topic,
                day,
                c.rows + (f.rows if f else 0),
                0,
                min(c.timeFirst, f.firstTimestamp) if f else c.timeFirst,
                max(c.timeLast, f.lastTimestamp) if f else c.timeLast,
            )
            key = topic, c.brokerName, c.queueId
            q = self._queues.get(key)
            self._queues[key] = QueueRange(
                *key,
                min(c.first, q.first) if q else c.first,
                max(c.last, q.last) if q else c.last,
                c.rows + (q.rows if q else 0),
            )
            there = self._log.get(c.brokerName)
            self._log[c.brokerName] = LogRange(
                min(c.logFirst, there.first) if there else c.logFirst,
                max(c.logLast, there.last) if there else c.logLast,
            )

    def run(self, number: int, sizes: Mapping[str, int]) -> Run:
        """The manifest. `sizes`: bytes of the files, by the same paths."""
        files = [
            File(**{**vars(self._files[path]), "fileBytes": sizes[path]})
            for path in sorted(self._files)
        ]
        return Run(
            run=number,
            finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
            rows=sum(f.rows for f in files),
            fileBytes=sum(f.fileBytes for f in files),
            log=self._log,
            queues=[self._queues[key] for key in sorted(self._queues)],
            files=files,
        )


def counted(table: Any) -> list[Counted]:
    """By queue, of a pyarrow.Table with the columns PLACE."""
    import pyarrow

    place = table.column_names.index("storeTimestamp")
    micros = table.column(place).cast(pyarrow.int64())
    grouped = table.set_column(place, "storeTimestamp", micros).group_by(["brokerName", "queueId"])
    spans = [(name, how) for name in PLACE[2:] for how in ("min", "max")]
    sums = grouped.aggregate([("queueOffset", "count"), *spans])
    return [
        Counted(
            row["brokerName"], row["queueId"], row["queueOffset_count"],
            row["queueOffset_min"], row["queueOffset_max"],
            row["commitLogOffset_min"], row["commitLogOffset_max"],
            row["storeTimestamp_min"] // 1000, row["storeTimestamp_max"] // 1000,
        )
        for row in sums.to_pylist()
    ]  # fmt: skip


def of_files(root: str, paths: Sequence[str]) -> Contents:
    """Of Parquet files on this machine: five narrow columns are read, bodies are not."""
    from pyarrow.parquet import ParquetFile

    contents = Contents()
    for path in paths:
        topic, day = partitions(path)
        with ParquetFile(os.path.join(root, path)) as file:
            for table in _tables(file.iter_batches(ROWS, columns=list(PLACE))):
                contents.add(path, topic, day, counted(table))
    return contents


def _tables(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow

    for batch in batches:
        table = pyarrow.Table.from_batches([batch])
        # Spark and pyarrow write times in microseconds; what others wrote is read as such.
        place = table.column_names.index("storeTimestamp")
        times = table.column(place).cast(pyarrow.timestamp("us", "UTC"))
        yield table.set_column(place, "storeTimestamp", times)


_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_SPECIAL = re.compile(r'[\x01-\x1f"#%\'*/:=?\\\x7f{\[\]^]')
NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""Name of the folder of an empty value."""


def escaped(value: str) -> str:
    """A value as part of a folder's name. [ExternalCatalogUtils.escapePathName of Spark]"""
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", value) or NOTHING


def partitions(path: str) -> tuple[str, str]:
    """Topic and day, by the folders of a file's path in the archive."""
    values = dict(part.partition("=")[::2] for part in path.split("/"))
    try:
        topic, day = values["topic"], values["day"]
    except KeyError:
        raise JobError(f"{path} is no file of an archive") from None
    plain = "" if topic == NOTHING else topic
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), plain), day
