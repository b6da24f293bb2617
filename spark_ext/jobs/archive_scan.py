"""The files of an archive on this machine, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pyrmq.segments.read_options import ReadOptions
from spark_ext.jobs.archive_contents import partitions
from spark_ext.jobs.engine import schema_of
from spark_ext.jobs.errors import JobError

if TYPE_CHECKING:
    from spark_ext.jobs.folder import Folder

ROWS = 10_000


def schema(columns: Sequence[str]) -> Any:
    """The pyarrow schema of these columns, as the engine builds them from a log; JobError for one
    that is unknown."""
    schema_of(columns)
    return ReadOptions(columns=tuple(columns)).schema()


class StoredScan:
    """Rows of some files: the columns, run (int), day (date), with `paths` also path."""

    def __init__(
        self, folder: Folder, names: Sequence[str], columns: Sequence[str], paths: bool
    ) -> None:
        import pyarrow

        self._folder, self._names = folder, names
        self._own = schema(columns)
        self.schema = self._own
        said = [("run", pyarrow.int32()), ("day", pyarrow.date32()), ("path", pyarrow.string())]
        for name, kind in said if paths else said[:2]:
            self.schema = self.schema.append(pyarrow.field(name, kind))

    def to_reader(self) -> Iterator[Any]:
        """JobError for a file that cannot be read; it names it."""
        import pyarrow
        from pyarrow.parquet import ParquetFile

        inside = [name for name in self._own.names if name != "topic"]
        for name in self._names:
            path = self._folder.path_of(name)
            try:
                # With no column at all a file has its rows all the same.
                with ParquetFile(path) as file:
                    for batch in file.iter_batches(ROWS, columns=inside):
                        yield self._completed(name, batch)
            except (pyarrow.ArrowException, OSError, KeyError) as error:
                text = str(error).splitlines()[0] if str(error) else repr(error)
                raise JobError(f"{path} cannot be read: {text}") from error

    def _completed(self, name: str, batch: Any) -> Any:
        import pyarrow

        topic, day = partitions(name)
        run = int(name.partition("/")[0].removeprefix("run="))
        said = {
            "topic": topic, "run": run, "day": date.fromisoformat(day), "path": quote(name),
        }  # fmt: skip
        arrays = []
        for field in self.schema:
            if field.name in said:
                value = pyarrow.scalar(said[field.name], field.type)
                arrays.append(pyarrow.repeat(value, batch.num_rows))
            else:
                arrays.append(batch.column(field.name).cast(field.type))
        return pyarrow.record_batch(arrays, schema=self.schema)
