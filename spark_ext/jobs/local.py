"""The engine `local`: DuckDB in this process, over the batches that `pyrmq.scan` reads. Results
become folders of files in the forms that Spark writes.

There is no cold start, so what Spark does in half a minute takes less than a second on a small
store. Memory is bounded: batches are aggregated as they come, and what does not fit into
MEMORY goes to a folder for temporary files. The functions of Spark's SQL that jobs use are macros.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_ext.jobs import local_read
from spark_ext.jobs.archive_scan import StoredScan
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.folder import LocalFolder
from spark_ext.jobs.local_read import is_local, local_path

if TYPE_CHECKING:
    from spark_ext.jobs.folder import Folder

_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""
_UNABLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def exchange(one: Path, other: Path) -> None:
    """Swaps the names of two that exist. A reader of either name sees the one or the other; where
    the file system cannot do that, neither for a moment."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        done = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
        if done == 0:
            return
        number = ctypes.get_errno()
        if number not in _UNABLE:
            raise OSError(number, os.strerror(number), str(one), None, str(other))
    aside = one.with_name(f"{one.name}.old")
    other.rename(aside)
    try:
        one.rename(other)
    except OSError:
        aside.rename(other)
        raise
    aside.rename(one)


TYPES = {"timestamp": "timestamptz", "map<string,string>": "map(varchar, varchar)"}
"""Types of Spark's DDL that DuckDB calls otherwise."""
WAYS = {
    "parquet": "FORMAT parquet, COMPRESSION snappy",
    "csv": "FORMAT csv, HEADER",
    "json": "FORMAT json",
}
TIME = "'%Y-%m-%dT%H:%M:%S.%gZ'"
"""How Spark writes times in CSV and JSON."""


def local_folder(path: str) -> Path:
    """JobError for a place on another machine."""
    if not is_local(path):
        raise JobError(f"the engine local writes to this machine, not {path}: take --engine spark")
    return Path(local_path(path))


def write_table(table: Any, path: str, kind: str, mode: str) -> None:
    """One file in a folder, whole or not at all. Maps in CSV are JSON text, bytes are base64."""
    folder = local_folder(path)
    if mode == "error" and folder.exists():
        raise JobError(f"{path} exists: choose the mode append or overwrite")
    fresh = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    fresh.mkdir(parents=True)
    name = f"part-00000-{uuid.uuid4()}.{kind}"
    quoted = str(fresh / name).replace("'", "''")
    try:
        columns = _columns(table, kind)
        statement = f"COPY (SELECT {columns} FROM {{t}}) TO '{_doubled(quoted)}' ({WAYS[kind]})"
        table.engine.execute(statement, t=table)
        if mode == "append" and folder.exists():
            os.replace(fresh / name, folder / name)
        else:
            take_place(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def take_place(fresh: Path, folder: Path) -> None:
    """The new result is there, or the old one still is; that goes when the new one has its name."""
    if not folder.exists():
        fresh.rename(folder)
        return
    exchange(fresh, folder)
    if fresh.is_dir() and not fresh.is_symlink():
        shutil.rmtree(fresh, ignore_errors=True)
    else:
        fresh.unlink()


def read_table(engine: Any, path: str, kind: str, schema: str) -> Any:
    """What either engine wrote, with the columns of the schema (Spark's DDL, no maps)."""
    pattern = _doubled(str(local_folder(path) / f"part-*{kind}").replace("'", "''"))
    options = {
        "parquet": "union_by_name = true",
        "csv": "header = true, all_varchar = true",
        "json": "union_by_name = true",
    }
    fields = [field.split(" ", 1) for field in schema.split(", ")]
    chosen = [f"CAST(`{name}` AS {TYPES.get(word, word)}) AS `{name}`" for name, word in fields]
    # Spark's JSON has no field where the value is null.
    nothing = ", ".join(f"CAST(NULL AS varchar) AS `{name}`" for name, _ in fields)
    source = f"read_{kind}('{pattern}', {options[kind]})"
    if kind == "json":
        source = f"(SELECT {nothing} WHERE false UNION ALL BY NAME SELECT * FROM {source})"
    return engine.sql(f"SELECT {', '.join(chosen)} FROM {source}")


def _columns(table: Any, kind: str) -> str:
    if kind == "parquet":
        return "*"
    kinds = table.engine.connection.sql(f"SELECT * FROM {table.name}").types
    words = []
    for name, found in zip(table.columns, kinds, strict=True):
        word = str(found)
        if word.startswith("TIMESTAMP"):
            made = f"strftime(`{name}` AT TIME ZONE 'UTC', {TIME}) AS `{name}`"
        elif word == "BLOB":
            made = f"to_base64(`{name}`) AS `{name}`"
        elif word.startswith("MAP") and kind == "csv":
            made = f"CAST(to_json(`{name}`) AS varchar) AS `{name}`"
        else:
            made = f"`{name}`"
        words.append(made)
    return ", ".join(words)


def _doubled(text: str) -> str:
    """Braces in a path are none of a query's."""
    return text.replace("{", "{{").replace("}", "}}")


MEMORY = "1GB"
"""What DuckDB may take; then it writes to temporary files."""
MACROS = (
    "explode(a) AS unnest(a)",
    "split(t, p) AS string_split_regex(t, p)",
    "get(a, place) AS a[place + 1]",
    "size(a) AS len(a)",
    "try_element_at(m, k) AS map_extract_value(m, k)",
    "unix_millis(t) AS epoch_ms(t)",
    "timestamp_millis(n) AS make_timestamptz(CAST(n AS bigint) * 1000)",
    "percentile_approx(v, part, accuracy) AS quantile_disc(v, part)",
    "conv(t, radix, wanted) AS try_cast('0x' || t AS bigint)",
)
"""Functions of Spark's SQL in DuckDB's."""


class Row:
    """A row: values by attribute and by name."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __repr__(self) -> str:
        return f"Row({self._values})"

    def asDict(self) -> dict[str, Any]:
        return self._values


class LocalTable:
    """A table of a LocalEngine: what Spark calls a DataFrame, as far as jobs and their callers need
    it. `scan`: it is read when it is asked for, and not kept."""

    def __init__(
        self, engine: LocalEngine, name: str, columns: list[str], scan: Any = None
    ) -> None:
        self.engine, self.name, self.columns, self.scan = engine, name, columns, scan
        if scan is None:
            weakref.finalize(self, engine.drop, name).atexit = False

    def collect(self) -> list[Any]:
        return [Row(values) for values in self.to_arrow().to_pylist(maps_as_pydicts="strict")]

    def count(self) -> int:
        return int(self.engine.sql("SELECT count(*) AS n FROM {t}", t=self).collect()[0].n)

    def where(self, condition: str) -> LocalTable:
        return self.engine.sql(f"SELECT * FROM {{t}} WHERE {condition}", t=self)

    def to_arrow(self) -> Any:
        """As a pyarrow.Table; times are in UTC."""
        return self.engine.arrow(self)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child that ends leaves the parent's alone
        shutil.rmtree(folder, ignore_errors=True)


class LocalEngine:
    """A database in memory that lives as long as this object."""

    name = "local"

    def __init__(self) -> None:
        try:
            import duckdb
            import pyarrow  # noqa: F401
        except ImportError as e:
            raise JobError(
                f"the engine local needs {e.name}: pip install 'pyrmq-broker[pipeline]'"
            ) from None
        self._errors = duckdb.Error
        # Never used by name: other connections of the process have nothing to do with it.
        folder = tempfile.mkdtemp(prefix="pyrmq-pipeline-")
        weakref.finalize(self, _remove, folder, os.getpid())
        settings: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": folder}
        self.connection = duckdb.connect(":memory:", config=settings)
        self._numbers = itertools.count()
        self.connection.execute("SET TimeZone = 'UTC'")
        for macro in MACROS:
            self.connection.execute(f"CREATE MACRO {macro}")

    def load(
        self, columns: Sequence[str], options: Mapping[str, str], paths: Sequence[str]
    ) -> LocalTable:
        scan = local_read.scan(columns, options, paths)
        return LocalTable(self, self._fresh(), list(columns), scan)

    def sql(self, text: str, **tables: Any) -> LocalTable:
        name = self._fresh()
        self.execute(f"CREATE TEMP TABLE {name} AS {text}", **tables)
        return LocalTable(self, name, self._columns(name))

    def execute(self, text: str, **tables: LocalTable) -> None:
        """A statement over tables; what is read for it raises its own errors."""
        names = {word: table.name for word, table in tables.items()}
        reads = [table for table in tables.values() if table.scan is not None]
        raised: list[Exception] = []
        for table in reads:
            self.connection.register(table.name, local_read.reader(table.scan, raised))
        try:
            self.connection.execute(text.format(**names).replace("`", '"'))
        except self._errors as e:
            if raised:
                raise raised[0] from None
            raise JobError(str(e).splitlines()[0]) from e
        finally:
            for table in reads:
                self.connection.unregister(table.name)

    def values(self, rows: Sequence[tuple[Any, ...]], schema: str) -> LocalTable:
        name = self._fresh()
        fields = [field.split(" ", 1) for field in schema.split(", ")]
        words = [f"`{column.strip('`')}` {TYPES.get(kind, kind)}" for column, kind in fields]
        self.execute(f"CREATE TEMP TABLE {name} ({', '.join(words)})")
        if rows:
            self._insert(name, fields, rows)
        return LocalTable(self, name, self._columns(name))

    def keep(self, table: Any) -> LocalTable:
        kept: LocalTable = table
        return kept if kept.scan is None else self.sql("SELECT * FROM {t}", t=kept)

    def text(self, binary: str) -> str:
        # Bytes that are no UTF-8 are shown by DuckDB as \xNN; separators become themselves again.
        shown = f"CAST({binary} AS varchar)"
        for number in (1, 2):
            shown = f"replace({shown}, '\\x{number:02X}', chr({number}))"
        return f"coalesce(try(decode({binary})), {shown})"

    def write(self, table: Any, path: str, kind: str, mode: str) -> None:
        write_table(table, path, kind, mode)

    def read(self, path: str, kind: str, schema: str) -> LocalTable:
        found: LocalTable = read_table(self, path, kind, schema)
        return found

    def folder(self, root: str) -> Folder:
        return LocalFolder(root)

    def stored(
        self, root: str, names: Sequence[str], columns: Sequence[str], *, paths: bool = False
    ) -> LocalTable:
        found = StoredScan(self.folder(root), names, columns, paths)
        return LocalTable(self, self._fresh(), list(found.schema.names), found)

    def arrow(self, table: LocalTable) -> Any:
        kept = self.keep(table)
        return self.connection.sql(f"SELECT * FROM {kept.name}").to_arrow_table()

    def batches(self, table: LocalTable, rows: int) -> Iterator[Any]:
        """A table that was computed, in its order; until the last one no other query may run."""
        found: Any = self.connection.sql(f"SELECT * FROM {table.name}")
        # DuckDB before 1.5 has another name for it.
        read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
        yield from read(rows)

    def drop(self, name: str) -> None:
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")

    def _columns(self, name: str) -> list[str]:
        return list(self.connection.sql(f"SELECT * FROM {name}").columns)

    def _insert(self, name: str, fields: list[list[str]], rows: Sequence[tuple[Any, ...]]) -> None:
        import pyarrow

        kinds = {
            "string": pyarrow.string(), "int": pyarrow.int32(), "bigint": pyarrow.int64(),
            "binary": pyarrow.binary(), "timestamp": pyarrow.timestamp("us", "UTC"),
            "map<string,string>": pyarrow.map_(pyarrow.string(), pyarrow.string()),
            "date": pyarrow.date32(),
        }  # fmt: skip
        arrays = []
        for place, (_, kind) in enumerate(fields):
            column = [row[place] for row in rows]
            if kind.startswith("map"):
                column = [None if v is None else list(v.items()) for v in column]
            arrays.append(pyarrow.array(column, kinds[kind]))
        made = pyarrow.table(arrays, names=[column.strip("`") for column, _ in fields])
        self.connection.register("fresh_rows", made)
        self.connection.execute(f"INSERT INTO {name} SELECT * FROM fresh_rows")
        self.connection.unregister("fresh_rows")

    def _fresh(self) -> str:
        return f"t{next(self._numbers)}"


def engine() -> LocalEngine:
    """For programs: what a job is given in the place of a Spark session."""
    return LocalEngine()
