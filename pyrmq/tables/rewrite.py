"""Reads data files of one partition as sorted streams and writes their rows into fewer files.

The rows of each file are sorted; so are those of the new ones. Of each file only a small part is in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyrmq.escape import escape
from pyrmq.tables import private
from pyrmq.tables.errors import TableError
from pyrmq.tables.merge import KEYS, merged
from pyrmq.tables.parquet import GROUP_BYTES, Writer
from pyrmq.tables.partitions import Part

if TYPE_CHECKING:
    import pyarrow as pa

READ_BYTES = 64 << 20
"""Bytes of rows, over all files that are read, which are in memory at a time."""
HELD_BYTES = 2 * GROUP_BYTES
"""Bytes of rows that are held before they are written."""
ROW = 150
"""Bytes that a row has as Arrow beside those that its values take in Parquet."""
MAX_ROWS = 1 << 16
"""Rows of a batch that is read."""
BUFFER = 1 << 16
"""Bytes that are read of each column of a file at a time."""


def rewrite(table: Any, files: Sequence[Any], target: int, uuid: str) -> list[Any]:
    """Writes the rows of data files of one partition, which have no deletes, into new files of
    about `target` bytes; returns pyiceberg's DataFiles for a commit. If it fails, what it wrote is
    deleted. Raises NotSortedError for a file whose rows are not sorted."""
    streams = [(one.file_path, _rows(table, one, READ_BYTES // len(files))) for one in files]
    out: _Writer | None = None
    try:
        for batch in merged(streams, KEYS):
            if out is None:
                schema = batch.schema
                out = _Writer(table, schema, uuid, target)
            out.write(batch if batch.schema == schema else batch.cast(schema))
        written = out.close() if out is not None else []
        _check(files, written)
        return written
    except BaseException:
        if out is not None:
            out.discard()
        raise


class _Writer(Writer):
    """Closes files at a size of its own."""

    def __init__(self, table: Any, schema: Any, commit: str, target: int) -> None:
        super().__init__(table, schema, commit)
        self._target = target

    def write(self, batch: pa.RecordBatch) -> None:
        super().write(batch)
        if self._held >= HELD_BYTES:  # they are sorted already: no more need to be held
            self._flush()

    def _write_group(self, part: Part, group: Any) -> None:
        super()._write_group(part, group)
        if part in self._open and self._open[part].file.tell() >= self._target:
            self._finish(part)


def _check(files: Sequence[Any], written: Sequence[Any]) -> None:
    """TableError unless the new files can stand for the old ones."""
    before = sum(file.record_count for file in files)
    after = sum(file.record_count for file in written)
    if before != after:
        raise TableError(
            f"files with {before} rows gave {after}", "the table is as it was: report this"
        )
    if {file.partition for file in written} - {file.partition for file in files}:
        raise TableError(
            f"{escape(files[0].file_path)} has rows of another partition",
            "the table is as it was: look for who wrote this file",
        )


def _rows(table: Any, file: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Rows of a file with the columns of the table as they are now."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    wanted = table.schema()
    with table.io.new_input(file.file_path).open() as stream:
        parquet = pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False)
        meta = parquet.metadata
        whole = sum(meta.row_group(n).total_byte_size for n in range(meta.num_row_groups))
        rows = max(1, min(MAX_ROWS, size * meta.num_rows // (whole + ROW * meta.num_rows + 1)))
        own = pyarrow_to_schema(parquet.schema_arrow, table.name_mapping(), format_version=2)
        for batch in parquet.iter_batches(batch_size=rows, use_threads=False):
            yield private.as_requested(wanted, own, batch)
