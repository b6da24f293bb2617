"""What a table has, read file by file: one batch at a time, with only the columns and row groups
that are wanted.

pyiceberg plans; a file is read by pyarrow, as pyiceberg keeps all rows of several files in memory.
A file from which another program deleted rows (delete files, deletion vectors), or whose nested
fields are other ones than the table's, is read by pyiceberg.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyrmq.tables import rows as conditions_of
from pyrmq.tables.errors import TableError
from pyrmq.tables.rows import Condition, Rows
from pyrmq.tables.schema import FIELD_ID, ORDER

BATCH_BYTES = 8 << 20
"""About so many bytes of Parquet pages, not compressed, become one batch."""
MAX_ROWS = 1 << 16


@dataclass(frozen=True)
class Whole:
    """What pyiceberg needs to read a file."""

    metadata: Any
    projected: Any
    row_filter: Any
    nested: Mapping[int, str]
    """Names of the fields inside of the columns, with dots, by field id."""


@dataclass(frozen=True, repr=False)
class StoredPart:
    """One data file of a snapshot. Can be sent to another process, with the credentials of its
    place."""

    io: Any
    task: Any
    """pyiceberg's FileScanTask."""
    columns: tuple[tuple[int, Any], ...]
    """Field id and pyarrow.Field of each column, in the order in which they come."""
    conditions: tuple[tuple[int, Condition], ...]
    """With the field id of the column."""
    whole: Whole

    def __repr__(self) -> str:
        return f"<StoredPart {self.path}>"

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self.task.file.file_size_in_bytes)

    @property
    def path(self) -> str:
        return str(self.task.file.file_path)

    def only(self, schema: Any) -> StoredPart:
        """With some of the columns."""
        by_name = {field.name: (number, field) for number, field in self.columns}
        return replace(self, columns=tuple(by_name[name] for name in schema.names))

    def read(self) -> Iterator[Any]:
        """Its rows as pyarrow record batches. TableError names a file that cannot be read."""
        import pyarrow

        try:
            yield from self._by_pyiceberg() if _needs_pyiceberg(self.task) else self._read()
        except FileNotFoundError:
            raise TableError(
                f"{self.path}: the file was deleted before it was read",
                "ask again: an expiry of snapshots has removed it",
            ) from None
        except (pyarrow.ArrowException, OSError) as error:
            lines = str(error).splitlines()
            text = lines[0] if lines else type(error).__name__
            raise TableError(
                f"{self.path} cannot be read: {text}", "restore the file from a copy"
            ) from error

    def _read(self) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        with (
            self.io.new_input(self.path).open() as source,
            ParquetFile(source, pre_buffer=True) as file,
        ):
            places = _places(file.schema_arrow)
            names = [places(number, field.name) for number, field in self.columns]
            moved = any(
                _has_moved(file.schema_arrow.field(name), self.whole.nested)
                for name in names
                if name is not None
            )
            if moved:
                yield from self._by_pyiceberg()
                return
            where = [
                (places(number, column), sign, value)
                for number, (column, sign, value) in self.conditions
            ]
            if any(column is None for column, _, _ in where):
                return  # a column that is not there is null, which no condition takes
            wanted = dict.fromkeys(name for name in names if name is not None)
            wanted |= dict.fromkeys(column for column, _, _ in where)
            if not wanted:  # only columns that are not there: the rows are counted by another
                wanted[file.schema_arrow.names[0]] = None
            groups = _groups(source, file, where)
            size = _rows_of_batch(file, groups, set(wanted))
            for group in groups:
                for batch in file.iter_batches(size, row_groups=[group], columns=list(wanted)):
                    chosen = conditions_of.mask(where, batch)
                    kept = batch if chosen is None else batch.filter(chosen)
                    if kept.num_rows:
                        yield self._shaped(kept, names)

    def _shaped(self, batch: Any, names: list[str | None]) -> Any:
        import pyarrow

        arrays = []
        for (_, field), name in zip(self.columns, names, strict=True):
            if name is None:
                arrays.append(pyarrow.nulls(batch.num_rows, field.type))
                continue
            values = batch.column(name)
            arrays.append(values if values.type == field.type else values.cast(field.type))
        return pyarrow.record_batch(arrays, schema=pyarrow.schema([f for _, f in self.columns]))

    def _by_pyiceberg(self) -> Iterator[Any]:
        from pyiceberg.io.pyarrow import ArrowScan

        whole = self.whole
        wanted = whole.projected.select(*(field.name for _, field in self.columns))
        scan = ArrowScan(whole.metadata, self.io, wanted, whole.row_filter)
        names: list[str | None] = [field.name for _, field in self.columns]
        for batch in scan.to_record_batches([self.task]):
            if batch.num_rows:
                yield self._shaped(batch, names)


def parts(table: Any, rows: Rows, schema: Any) -> list[StoredPart]:
    """The files of the table's current snapshot that may have rows that are wanted, by broker,
    queue and offset of their first rows as far as statistics say them. `schema`: the columns that
    come, as a pyarrow.Schema; each is one of the table's."""
    from pyiceberg.schema import index_name_by_id

    ids = table.schema()
    wanted = rows.conditions()
    known = {field.name for field in ids.fields}
    unknown = next((column for column, _, _ in wanted if column not in known), None)
    if unknown is not None:
        raise TableError(
            f"table {'.'.join(table.name())} has no column {unknown}, by which rows are chosen",
            "leave this condition out",
        )
    condition = conditions_of.iceberg(wanted)
    tasks = list(table.scan(row_filter=condition).plan_files())
    columns = tuple((ids.find_field(field.name).field_id, field) for field in schema)
    numbered = tuple((ids.find_field(one[0]).field_id, one) for one in wanted)
    # Summaries of snapshots are long, and a part may travel.
    lean: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}}
    metadata = table.metadata.model_copy(update=lean)
    nested = {number: name for number, name in index_name_by_id(ids).items() if "." in name}
    whole = Whole(metadata, ids, condition, nested)
    found = [StoredPart(table.io, task, columns, numbered, whole) for task in tasks]
    return sorted(found, key=_order(ids))


def _order(ids: Any) -> Any:
    keys = [ids.find_field(name) for name in ORDER]

    def key(part: StoredPart) -> tuple[Any, ...]:
        bounds = part.task.file.lower_bounds or {}
        return tuple(bounds.get(field.field_id, b"")[:: _step(field)] for field in keys)

    return key


def _step(field: Any) -> int:
    """Numbers are little-endian: they are compared from their last byte."""
    return 1 if str(field.field_type) == "string" else -1


def _needs_pyiceberg(task: Any) -> bool:
    return bool(task.delete_files) or str(task.file.file_format).rpartition(".")[2] != "PARQUET"


def _places(schema: Any) -> Any:
    """A function that gives the name in a file of a field id, None if the file has none of it. A
    file without ids (of an import) has the table's names."""
    by_id = {
        int(field.metadata[FIELD_ID]): field.name
        for field in schema
        if field.metadata and FIELD_ID in field.metadata
    }
    names = set(schema.names)

    def place(number: int, name: str) -> str | None:
        if by_id:
            return by_id.get(number)
        return name if name in names else None

    return place


def _has_moved(field: Any, nested: Mapping[int, str]) -> bool:
    """Whether a field inside of a column has another name in the table, or another one its name."""
    taken = set(nested.values())
    for number, name in _inside(field, field.name):
        if nested.get(number, name) != name or (number not in nested and name in taken):
            return True
    return False


def _inside(field: Any, path: str) -> Iterator[tuple[int, str]]:
    """Field ids and names, with dots, of what is inside of a column of a file."""
    from pyarrow import types

    kind = field.type
    if types.is_struct(kind):
        parts = [(one, one.name) for one in kind]
    elif types.is_map(kind):
        parts = [(kind.key_field, "key"), (kind.item_field, "value")]
    elif types.is_list(kind) or types.is_large_list(kind):
        parts = [(kind.value_field, "element")]
    else:
        return
    for part, name in parts:
        at = f"{path}.{name}"
        if part.metadata and FIELD_ID in part.metadata:
            yield int(part.metadata[FIELD_ID]), at
        yield from _inside(part, at)


def _groups(source: Any, file: Any, where: list[Any]) -> list[int]:
    """Row groups that may have a row that is wanted, by their statistics."""
    every = list(range(file.metadata.num_row_groups))
    condition = conditions_of.arrow(where, file.schema_arrow)
    if condition is None:
        return every
    from pyarrow.dataset import ParquetFileFormat

    source.seek(0)
    fragment = ParquetFileFormat().make_fragment(source)
    return [group.id for group in fragment.subset(condition).row_groups]


def _rows_of_batch(file: Any, groups: list[int], wanted: set[str]) -> int:
    size = rows = 0
    for number in groups:
        group = file.metadata.row_group(number)
        rows += group.num_rows
        for at in range(group.num_columns):
            column = group.column(at)
            if column.path_in_schema.partition(".")[0] in wanted:
                size += column.total_uncompressed_size
    each = max(1, size // max(rows, 1))
    return max(1, min(MAX_ROWS, BATCH_BYTES // each))
