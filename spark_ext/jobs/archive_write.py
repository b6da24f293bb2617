"""Writing a run of an archive in this process: Parquet by topic and day, as Spark writes it.

Rows are kept by topic and day until a row group is full. What is counted for the manifest is
counted on the way.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from types import TracebackType
from typing import Any

from spark_ext.jobs.archive_manifest import OPEN_FILES, UNIQUE
from spark_ext.jobs.archive_scan import PLACE, Contents, counted, escaped
from spark_ext.jobs.folder import sync_folder

FRESH_BYTES = 16 << 20
"""Bytes of rows that are split by topic and day at a time: many small splits take longer."""
GROUP_BYTES = 32 << 20
"""Bytes of rows that become a row group."""
GROUP_ROWS = 1 << 20
HELD_BYTES = 96 << 20
"""Bytes of rows that are held at most, over all topics and days."""
DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1).toordinal()
DAYS = (date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH)
"""Days since 1970 that Python knows; times beyond are of the first or the last of them."""
NAMES = {"none": "", "gzip": ".gz"}
"""What a codec is called in the name of a file, where it is not its own name."""


@dataclass
class _Part:
    """Rows of one topic and day."""

    topic: str
    day: str
    batches: list[Any] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    files: int = 0
    """How many files it has, the open one included."""
    path: str = ""
    """Of the open file, relative to the archive."""


class RunWriter:
    """A context manager. `contents` and `sizes` are whole when it is left."""

    def __init__(self, root: str, data: str, schema: Any, codec: str) -> None:
        names = [name for name in schema.names if name != "topic"]
        self._root, self._data, self._codec = root, data, codec
        self._names = names
        self._schema = _without_topic(schema, names)
        self._id = uuid.uuid4()
        self._parts: dict[tuple[str, int], _Part] = {}
        self._open: dict[tuple[str, int], tuple[Any, Any]] = {}
        """Parquet writer and file; the one that was written to last is last."""
        self._held = 0
        self._fresh: list[Any] = []
        self._fresh_bytes = 0
        self.contents = Contents()
        self.sizes: dict[str, int] = {}

    def __enter__(self) -> RunWriter:
        os.makedirs(os.path.join(self._root, self._data))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if error is None:
            self._split()
            for key in self._parts:
                self._flush(key)
            for key in list(self._open):
                self._close(key)
            folder = os.path.join(self._root, self._data)
            with open(os.path.join(folder, "_SUCCESS"), "wb"):
                pass
            for place, _, _ in os.walk(folder):
                sync_folder(place)
            sync_folder(self._root)
        else:
            for _, file in self._open.values():
                file.close()

    def write(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        self._fresh.append(batch)
        self._fresh_bytes += batch.nbytes
        if self._fresh_bytes >= FRESH_BYTES:
            self._split()

    def _split(self) -> None:
        """Puts rows to those of their topic and day."""
        import pyarrow

        if not self._fresh:
            return
        table = pyarrow.Table.from_batches(self._fresh).combine_chunks()
        self._fresh, self._fresh_bytes = [], 0
        for key, rows in (found for b in table.to_batches() for found in by_topic_and_day(b)):
            part = self._parts.get(key)
            if part is None:
                part = self._parts[key] = _Part(key[0], day_text(key[1]))
            part.batches.append(rows)
            part.rows += rows.num_rows
            part.bytes += rows.nbytes
            self._held += rows.nbytes
            if part.bytes >= GROUP_BYTES or part.rows >= GROUP_ROWS:
                self._flush(key)
        while self._held > HELD_BYTES:
            self._flush(max(self._parts, key=lambda key: self._parts[key].bytes))

    def _flush(self, key: tuple[str, int]) -> None:
        """Writes what is held of a topic and day, as a row group."""
        import pyarrow

        part = self._parts[key]
        if not part.rows:
            return
        table = pyarrow.Table.from_batches(part.batches)
        writer = self._writer(key, part)
        writer.write_table(table.select(self._names).cast(self._schema), row_group_size=part.rows)
        self.contents.add(part.path, part.topic, part.day, counted(table.select(list(PLACE))))
        self._held -= part.bytes
        part.batches, part.rows, part.bytes = [], 0, 0

    def _writer(self, key: tuple[str, int], part: _Part) -> Any:
        from pyarrow.parquet import ParquetWriter

        found = self._open.pop(key, None)
        if found is None:
            if len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open)))
            folder = f"{self._data}/topic={escaped(part.topic)}/day={part.day}"
            codec = NAMES.get(self._codec, f".{self._codec}")
            part.path = f"{folder}/part-00000-{self._id}.c{part.files:03}{codec}.parquet"
            part.files += 1
            os.makedirs(os.path.join(self._root, folder), exist_ok=True)
            file = open(os.path.join(self._root, part.path), "xb")  # noqa: SIM115
            plain = [name for name in self._schema.names if name not in ("body", "properties")]
            writer = ParquetWriter(
                file,
                self._schema,
                compression=self._codec,
                use_dictionary=dictionaries(self._schema.names),
                write_statistics=plain,
                store_schema=False,
            )
            found = writer, file
        self._open[key] = found
        return found[0]

    def _close(self, key: tuple[str, int]) -> None:
        writer, file = self._open.pop(key)
        writer.close()
        file.flush()
        os.fsync(file.fileno())
        self.sizes[self._parts[key].path] = file.tell()
        file.close()


def _without_topic(schema: Any, names: list[str]) -> Any:
    import pyarrow

    return pyarrow.schema([schema.field(name) for name in names])


def day_text(day: int) -> str:
    """A day since 1970, as folders have it."""
    return date.fromordinal(day + _EPOCH).isoformat()


def dictionaries(names: list[str]) -> list[str]:
    """Columns that get a dictionary; a map's are two."""
    chosen = [name for name in names if name not in UNIQUE]
    if "properties" in chosen:
        chosen.remove("properties")
        chosen += [f"properties.key_value.{part}" for part in ("key", "value")]
    return chosen


def by_topic_and_day(batch: Any) -> Iterator[tuple[tuple[str, int], Any]]:
    """Parts of a batch with their topic and day (UTC, since 1970), rows in order."""
    import numpy as np
    import pyarrow

    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    micros = batch.column("storeTimestamp").cast(pyarrow.int64()).to_numpy()
    # As Spark divides: whole milliseconds, then towards 1970.
    days = np.clip(np.trunc(micros // 1000 / DAY_MS), *DAYS).astype("i8")
    codes = topics.indices.to_numpy().astype("i8")
    if len(names) == 1 and days[0] == days[-1] and (days == days[0]).all():
        yield (names[0], int(days[0])), batch
        return
    first, span = days.min(), days.max() - days.min() + 1
    keys, inverse = np.unique(codes * span + (days - first), return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse))
    for key, rows in zip(keys.tolist(), np.split(order, ends[:-1]), strict=True):
        code, day = divmod(key, int(span))
        yield (names[code], day + int(first)), batch.take(pyarrow.array(rows))
