"""Runs into a Delta table: the same reading, counting and sorting as for Iceberg, other files and
another commit."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyrmq.tables import delta, parquet
from pyrmq.tables.counting import Counted
from pyrmq.tables.delta import Place
from pyrmq.tables.delta_commit import Staged, commit
from pyrmq.tables.durable import DurableFileIO
from pyrmq.tables.ends import Ends
from pyrmq.tables.parquet import Open, Writer
from pyrmq.tables.partitions import Field, Part
from pyrmq.tables.runs import BaseRun
from pyrmq.tables.source import Source
from pyrmq.tables.statistics import bounds

STATISTICS = (
    "brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp", "bornTimestamp",
)  # fmt: skip
"""Columns of which the log has the least and the greatest value of each file."""
MAX_TEXT = 64
"""Longer texts are no bound: Delta's readers take them as they are."""


class DeltaWriter(Writer):
    """Writes the files of one commit; `close` gives AddActions of deltalake."""

    def __init__(
        self, place: Place, columns: Any, commit: str, words: Sequence[str], codec: str
    ) -> None:
        """`columns`: pyarrow.Schema of the batches; `words`: of the partition."""
        self._words = words
        super().__init__(_Files(place, codec), columns, commit)

    def _partition(self) -> list[Field]:
        return [
            Field("day", "storeTimestamp", "day")
            if word == "day"
            else Field(delta.PARTITIONS[word], delta.PARTITIONS[word], "identity")
            for word in self._words
        ]

    def _inside(self, schema: Any) -> Any:
        import pyarrow

        outside = {field.name for field in self._fields}
        return pyarrow.schema([one for one in schema if one.name not in outside])

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.files)

    def _write_group(self, part: Part, group: Any) -> None:
        super()._write_group(part, group.select(self._schema.names))

    def _entry(self, part: Part, one: Open, size: int) -> Any:
        from deltalake.transaction import AddAction

        return AddAction(
            path=self._table.relative(one.path),
            size=size,
            partition_values={
                field.name: field.shown(value) if field.transform == "day" else str(value)
                for field, value in zip(self._fields, part, strict=True)
            },
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=_statistics(one.collected[0]),
        )


class DeltaRun(BaseRun):
    """Writes a Delta table from a source. Files of killed runs are left to VACUUM."""

    def __init__(
        self, place: Place, source: Source, words: Sequence[str], codec: str, **how: Any
    ) -> None:
        super().__init__(source, source.schema, **how)
        self._place, self._codec = place, codec
        self._words = tuple(words)

    def _load(self) -> tuple[Any, Ends | None]:
        table = self._place.create(self._source.topic, self._columns, self._words)
        delta.check(table, self._source.topic, self._columns)
        return table, delta.ends_of(table)

    def _writer(self, table: Any, commit: str) -> DeltaWriter:
        words = delta.words_of(table)
        return DeltaWriter(self._place, self._columns, commit, words, self._codec)

    def _staged(
        self, table: Any, commit: str, files: list[Any], ends: Ends | None, counted: Counted
    ) -> Staged:
        return Staged(
            commit, files, ends, counted.ends(), table.version(),
            table.metadata().partition_columns, table.schema(), counted.gaps,
        )  # fmt: skip

    def _commit(self, table: Any, staged: Staged, writer: Writer) -> Any:
        return commit(self._place, staged, self._waiting)


class _Files:
    """Where the files of a Delta table are, as `parquet.Writer` asks of an Iceberg table."""

    def __init__(self, place: Place, codec: str) -> None:
        self.properties = {parquet.CODEC: codec}
        self._root = place.local()
        self.io = _Local() if self._root is not None else _Stored(place)

    def location_provider(self) -> _Files:
        return self

    def new_data_location(self, name: str) -> str:
        return name if self._root is None else os.path.join(self._root, name)

    def relative(self, path: str) -> str:
        return path if self._root is None else os.path.relpath(path, self._root)


class _Local:
    """Files of this machine, on the disk before the log names them."""

    def __init__(self) -> None:
        self._io = DurableFileIO()

    def new_output(self, path: str) -> Any:
        return self._io.new_output(path)

    def delete(self, path: str) -> None:
        self._io.delete(path)


class _Stored:
    """Files below the table's folder on other storage, through delta-rs."""

    def __init__(self, place: Place) -> None:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        self._files = PyFileSystem(DeltaStorageHandler(place.uri, dict(place.options)))

    def new_output(self, path: str) -> Any:
        files = self._files

        class Output:
            def create(self) -> Any:
                return files.open_output_stream(path)

        return Output()

    def delete(self, path: str) -> None:
        self._files.delete_file(path)


def _statistics(meta: Any) -> str:
    """Delta's statistics of a file, from Parquet's. Columns without bounds in a row group have
    none."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(meta.num_columns):
        name = meta.schema.column(number).path
        if name not in STATISTICS:
            continue
        found = [meta.row_group(n).column(number).statistics for n in range(meta.num_row_groups)]
        if any(one is None or not one.has_min_max for one in found):
            continue
        ranges = [one for one in map(bounds, found) if one is not None]
        if len(ranges) < len(found):
            continue
        low, high = min(one[0] for one in ranges), max(one[1] for one in ranges)
        nulls[name] = sum(one.null_count for one in found)
        if isinstance(low, str) and max(len(low), len(high)) > MAX_TEXT:
            continue
        least[name], most[name] = _bound(low, up=False), _bound(high, up=True)
    return json.dumps({
        "numRecords": meta.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls,
    })  # fmt: skip


def _bound(value: Any, *, up: bool) -> Any:
    """As JSON. Times have milliseconds in Delta's statistics: a greatest one is rounded up."""
    if not isinstance(value, datetime):
        return value
    micros = value.microsecond % 1000
    value = value.astimezone(UTC)
    ms = (value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000
    whole = round(ms - micros / 1000) + (1 if up and micros else 0)
    return f"{datetime.fromtimestamp(whole / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{whole % 1000:03}Z"
