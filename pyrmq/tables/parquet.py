"""Rows into Parquet files of a table.

Rows are held up to HELD_BYTES, sorted by partition, broker, queue and offset, and written as row
groups by a thread of the writer, while the next ones are held. So memory is bounded for any number
of rows, and the statistics of a row group cover few queues. A file is closed when it has
TARGET_BYTES, or MAX_CHUNKS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from pyrmq.tables import names
from pyrmq.tables.errors import TableError
from pyrmq.tables.partitions import Field, Key, Part, fields_of, in_order
from pyrmq.tables.schema import file_schema, sort_order
from pyrmq.tables.statistics import statistics

FRESH_BYTES = 16 << 20
"""Bytes of rows (as Arrow) that are sorted at a time, while they are in a cache."""
HELD_BYTES = 192 << 20
"""Bytes of rows (as Arrow) that are held, sorted. As many are written meanwhile."""
GROUP_BYTES = 32 << 20
"""Bytes of rows (as Arrow) of a row group."""
GROUP_ROWS = 1 << 20
TARGET_BYTES = 256 << 20
"""Bytes of a file after which it is closed. Files have from half of it to one row group more, but
for the last of a commit and those of small partitions."""
MAX_CHUNKS = 50_000
"""Leaf columns of all row groups after which a file is closed, too: the footer is held until then.
Wide structs in lists may be large in memory and small in the file."""
OPEN_FILES = 32
"""Files that are open at the same time, one a partition. A file of another partition closes the one
that was written to longest ago."""
CODECS = ("snappy", "zstd", "gzip", "lz4", "none")
CODEC = "write.parquet.compression-codec"
"""Iceberg's property of a table."""
_UNIQUE = ("body", "msgId", "keys", "queueOffset", "commitLogOffset", "storeTimestamp")
"""Columns whose values repeat so rarely that a dictionary costs time and saves nothing."""


@dataclass
class Open:
    """A file that is being written."""

    path: str
    file: Any
    writer: Any
    collected: list[Any]
    last: tuple[str, int] = ("", -1)
    """Broker and queue of its last row."""
    chunks: int = 0
    """Leaf columns of all row groups."""


class Writer:
    """Writes the rows of one commit. `close` gives pyiceberg's DataFiles; `discard` deletes what
    was written. `schema`: the pyarrow schema of the batches."""

    def __init__(
        self, table: Any, schema: Any, commit: str, name: Callable[[int], str] | None = None
    ) -> None:
        """`name`: of a file, by its number. Default: that of this process and `commit`."""
        self._table = table
        self._name = name or partial(names.data_file, commit)
        self._columns = list(schema.names)
        self._fields = self._partition()
        self._schema = self._inside(schema)
        self._leaves = len(_leaves(self._schema, self._schema.names))
        codec = str(table.properties.get(CODEC, "zstd")).lower()
        self._codec = "none" if codec == "uncompressed" else codec
        if self._codec not in CODECS:
            raise TableError(
                f"{CODEC}={codec} of the table is not supported", f"set it to one of {CODECS}"
            )
        self._thread = ThreadPoolExecutor(1, "parquet")
        self._writing: Future[None] | None = None
        # What the thread changes. Nobody else does while it writes.
        self._open: dict[Part, Open] = {}
        self._number = 0
        self.files: list[Any] = []
        """The files that are complete, once it is closed."""
        self._paths: list[str] = []
        """Of all files that were begun."""
        self._statistics: Any = None
        # What `write` changes.
        self._fresh: list[Any] = []
        self._fresh_bytes = 0
        self._groups: dict[Key, list[Any]] = {}
        self._held = self._rows = 0

    def _partition(self) -> list[Field]:
        """The fields of the partition."""
        return fields_of(self._table)

    def _inside(self, schema: Any) -> Any:
        """pyarrow.Schema of the files."""
        return file_schema(self._table, schema)

    @property
    def bytes(self) -> int:
        """Bytes of the complete files."""
        return sum(one.file_size_in_bytes for one in self.files)

    def write(self, batch: Any) -> None:
        """Takes the rows of a pyarrow.RecordBatch. Those of one queue come in order."""
        if not batch.num_rows:
            return
        self._fresh.append(batch)
        self._fresh_bytes += batch.nbytes
        if self._fresh_bytes >= FRESH_BYTES:
            self._split()

    def close(self) -> list[Any]:
        """Completes all files."""
        self._split()
        self._flush()
        self._written()
        self._thread.shutdown()
        for part in list(self._open):
            self._finish(part)
        return self.files

    def discard(self) -> None:
        """Deletes what was written. It must not be in a table."""
        self._fresh, self._groups = [], {}
        self._thread.shutdown()
        for one in self._open.values():
            _abandon(one.writer.close, one.file.close)
        self._open = {}
        delete(self._table.io, self._paths)
        self._paths, self.files = [], []

    def _split(self) -> None:
        """Puts rows to those of their partition, broker and queue."""
        import pyarrow

        if not self._fresh:
            return
        whole = pyarrow.Table.from_batches(self._fresh).select(self._columns).combine_chunks()
        self._fresh, self._fresh_bytes = [], 0
        order, cuts = in_order(whole, self._fields)
        if order is not None:
            whole = whole.take(pyarrow.array(order))
        for key, start, stop in cuts:
            self._groups.setdefault(key, []).append(whole.slice(start, stop - start))
        self._held += whole.nbytes
        self._rows += whole.num_rows
        if self._held >= HELD_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Has what is held written, after what is written now."""
        if not self._rows:
            return
        most = max(1, min(GROUP_ROWS, GROUP_BYTES * self._rows // max(1, self._held)))
        self._written()
        groups, self._groups, self._held, self._rows = self._groups, {}, 0, 0
        self._writing = self._thread.submit(self._write_groups, groups, most)

    def _written(self) -> None:
        """Waits for what is written now. Raises what failed there."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write_groups(self, groups: dict[Key, list[Any]], most: int) -> None:
        """Writes rows in order, as row groups of `most` rows."""
        import pyarrow

        for part, each in groupby(sorted(groups), key=lambda key: key[0]):
            keys = list(each)
            if part in self._open and self._open[part].last > keys[0][1:]:
                self._finish(part)  # its rows would not be sorted any more
            pieces: list[Any] = []
            room = most
            for piece in (piece for key in keys for piece in groups.pop(key)):
                at = 0
                while at < piece.num_rows:
                    pieces.append(piece.slice(at, room))
                    at += pieces[-1].num_rows
                    room -= pieces[-1].num_rows
                    if not room:
                        self._write_group(part, pyarrow.concat_tables(pieces))
                        pieces, room = [], most
            if pieces:
                self._write_group(part, pyarrow.concat_tables(pieces))
            self._ends_with(part, keys[-1])

    def _ends_with(self, part: Part, key: Key) -> None:
        if part in self._open:
            self._open[part].last = key[1:]

    def _write_group(self, part: Part, group: Any) -> None:
        one = self._open.pop(part, None) or self._begin(part)
        self._open[part] = one
        one.writer.write_table(group.cast(self._schema), row_group_size=max(1, group.num_rows))
        one.chunks += self._leaves
        if one.file.tell() >= TARGET_BYTES or one.chunks >= MAX_CHUNKS:
            self._finish(part)

    def _begin(self, part: Part) -> Open:
        from pyarrow.parquet import ParquetWriter

        if len(self._open) >= OPEN_FILES:
            self._finish(next(iter(self._open)))
        name = self._name(self._number)
        self._number += 1
        folder = "/".join(
            f"{field.name}={field.shown(value)}"
            for field, value in zip(self._fields, part, strict=True)
        )
        provider = self._table.location_provider()
        path = provider.new_data_location(f"{folder}/{name}" if folder else name)
        self._paths.append(path)
        file = self._table.io.new_output(path).create()
        collected: list[Any] = []
        plain = [name for name in self._schema.names if name not in ("body", "properties")]
        try:
            writer = ParquetWriter(
                file,
                self._schema,
                compression=self._codec.upper() if self._codec != "none" else "NONE",
                use_dictionary=_dictionaries(self._schema),
                write_statistics=_leaves(self._schema, plain),
                store_schema=False,
                metadata_collector=collected,
            )
        except BaseException:
            _abandon(file.close)
            raise
        return Open(path, file, writer, collected)

    def _finish(self, part: Part) -> None:
        one = self._open[part]
        one.writer.close()
        size = one.file.tell()
        one.file.close()
        del self._open[part]
        self.files.append(self._entry(part, one, size))

    def _entry(self, part: Part, one: Open, size: int) -> Any:
        """A complete file as a commit takes it."""
        from pyiceberg.io import pyarrow as iceberg
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        schema = self._table.schema()
        if self._statistics is None:
            order = self._table.sort_order()
            self._statistics = (
                iceberg.compute_statistics_plan(schema, self._table.properties),
                iceberg.parquet_path_to_id_mapping(schema),
                order.order_id if order.fields == sort_order(schema).fields else None,
            )
        plan, paths, sorted_by = self._statistics
        found = statistics(one.collected[0], plan, paths)
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=one.path,
            file_format=FileFormat.PARQUET,
            partition=Record(*part),
            file_size_in_bytes=size,
            sort_order_id=sorted_by,
            spec_id=self._table.spec().spec_id,
            equality_ids=None,
            key_metadata=None,
            **found.to_serialized_dict(),
        )


def delete(io: Any, paths: Sequence[str]) -> list[str]:
    """Deletes files; returns those that could not be deleted."""
    left = []
    for path in paths:
        try:
            io.delete(path)
        except FileNotFoundError:
            continue
        except Exception:  # whatever the file system raises: the file is left over
            left.append(path)
    return left


def _abandon(*closes: Callable[[], Any]) -> None:
    """Closes what will be deleted, whatever it raises."""
    for close in closes:
        with suppress(Exception):
            close()


def _dictionaries(schema: Any) -> list[str]:
    """Leaf columns that get a dictionary."""
    return _leaves(schema, [name for name in schema.names if name not in _UNIQUE])


def _leaves(schema: Any, columns: Sequence[str]) -> list[str]:
    """The paths of Parquet's leaf columns below some columns."""
    return [path for name in columns for path in _paths(name, schema.field(name).type)]


def _paths(path: str, kind: Any) -> Iterator[str]:
    import pyarrow

    if pyarrow.types.is_map(kind):
        yield from _paths(f"{path}.key_value.key", kind.key_type)
        yield from _paths(f"{path}.key_value.value", kind.item_type)
    elif pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        yield from _paths(f"{path}.list.element", kind.value_type)
    elif pyarrow.types.is_struct(kind):
        for one in kind:
            yield from _paths(f"{path}.{one.name}", one.type)
    else:
        yield path
