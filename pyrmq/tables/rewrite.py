"""Reads data files of one partition as sorted streams and writes their rows into fewer files.

The rows of each file are sorted; so are those of the new ones. Of each file only a small part is in
memory, and of a new file one row group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyrmq.escape import escape
from pyrmq.tables.errors import TableError
from pyrmq.tables.merge import KEYS, merged

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

READ_BYTES = 192 << 20
"""Bytes of rows, over all files that are read, which are in memory at a time."""
MAX_ROWS = 1 << 16
"""Rows of a batch that is read."""
ROW_GROUP_BYTES = 64 << 20
"""Bytes of rows of a row group."""
UNIQUE = ("body", "keys", "commitLogOffset")
"""Columns whose values hardly repeat: a dictionary of them would be for nothing."""
BUFFER = 1 << 16
"""Bytes that are read of each column of a file at a time."""


def rewrite(table: Any, files: Sequence[Any], target: int, uuid: str) -> list[Any]:
    """Writes the rows of data files of one partition, which have no deletes, into new files of
    about `target` bytes; returns pyiceberg's DataFiles for a commit. If it fails, what it wrote is
    deleted. Raises NotSortedError for a file whose rows are not sorted."""
    out = _Output(table, files[0].partition, target, uuid)
    try:
        rows = sum(file.record_count for file in files)
        sizes = READ_BYTES // len(files)
        streams = [(file.file_path, _rows(table, file, sizes)) for file in files]
        for batch in merged(streams, KEYS):
            out.write(batch)
        written = out.finish()
        if (count := sum(file.record_count for file in written)) != rows:
            raise TableError(
                f"files with {rows} rows gave {count}", "the table is unchanged: report this"
            )
        return written
    except BaseException:
        out.discard()
        raise


def _rows(table: Any, file: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Rows of a file with the columns of the table as they are now."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import (
        ParquetFormatModel,
        _to_requested_schema,
        pyarrow_to_schema,
    )

    wanted = table.schema()
    with table.io.new_input(file.file_path).open() as stream:
        parquet = pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False)
        meta = parquet.metadata
        whole = sum(meta.row_group(n).total_byte_size for n in range(meta.num_row_groups))
        rows = max(1, min(MAX_ROWS, size * meta.num_rows // (whole + 1)))
        own = pyarrow_to_schema(parquet.schema_arrow, table.name_mapping(), format_version=2)
        for batch in parquet.iter_batches(batch_size=rows, use_threads=False):
            yield _to_requested_schema(
                wanted, own, batch, include_field_ids=True, format_model=ParquetFormatModel()
            )


class _Output:
    """New files of one partition, one after the other."""

    def __init__(self, table: Any, partition: Any, target: int, uuid: str) -> None:
        self._table = table
        self._partition = partition
        self._target = target
        self._uuid = uuid
        self._parts: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: _File | None = None
        self._paths: list[str] = []
        self._done: list[Any] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._parts.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= min(ROW_GROUP_BYTES, self._target):
            self._flush()

    def finish(self) -> list[Any]:
        """The files that were written."""
        self._flush()
        self._close()
        return self._done

    def discard(self) -> None:
        """Deletes what was written."""
        if self._file is not None:
            self._file.abandon()
        discard(self._table, self._paths)

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._parts:
            return
        rows = pa.Table.from_batches(self._parts)
        self._parts, self._bytes = [], 0
        if self._file is None:
            name = f"pyrmq-{self._uuid}-{len(self._paths):05d}.parquet"
            path = _location(self._table, self._partition, name)
            self._paths.append(path)
            self._file = _File(self._table, self._partition, path, rows.schema)
        self._file.write(rows)
        if self._file.size >= self._target:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._done.append(self._file.finish())
            self._file = None


class _File:
    """One Parquet file that is written."""

    def __init__(self, table: Any, partition: Any, path: str, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq
        from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs

        self._table = table
        self._partition = partition
        self._output = table.io.new_output(path)
        self._stream = self._output.create(overwrite=False)
        settings = _get_parquet_writer_kwargs(table.properties)
        names = [name for name in schema.names if name not in UNIQUE]
        self._writer = pq.ParquetWriter(
            self._stream, schema, **settings, use_dictionary=names, store_decimal_as_integer=True
        )

    @property
    def size(self) -> int:
        """Bytes so far."""
        return int(self._stream.tell())

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def finish(self) -> Any:
        from pyiceberg.io.pyarrow import (
            compute_statistics_plan,
            data_file_statistics_from_parquet_metadata,
            parquet_path_to_id_mapping,
        )
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

        self._writer.close()
        size = self.size
        self._stream.close()
        schema = self._table.schema()
        found = data_file_statistics_from_parquet_metadata(
            parquet_metadata=self._writer.writer.metadata,
            stats_columns=compute_statistics_plan(schema, self._table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._output.location,
            file_format=FileFormat.PARQUET,
            partition=self._partition,
            file_size_in_bytes=size,
            sort_order_id=None,
            spec_id=self._table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **found.to_serialized_dict(),
        )

    def abandon(self) -> None:
        with suppress(Exception):
            self._stream.close()


def _location(table: Any, partition: Any, name: str) -> str:
    spec, folder = table.spec(), ""
    if spec.fields:
        folder = spec.partition_to_path(partition, table.schema()) + "/"
    where: str = table.location_provider().new_data_location(folder + name)
    return where


def discard(table: Any, paths: Iterable[str]) -> None:
    """Deletes files that no snapshot has. What cannot be deleted is found by an expiry later."""
    for path in paths:
        try:
            table.io.delete(path)
        except FileNotFoundError:
            continue
        except Exception as error:
            log.warning("%s stays behind: %s", escape(path), escape(error))
