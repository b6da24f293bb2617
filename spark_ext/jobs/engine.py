"""The two engines of the jobs: Spark, and DuckDB in this process (`local`).

A job says once what it computes: in SQL that both engines know, step by step. `{name}` in it stands
for a table, backticks are around names that are words of SQL. What an engine gives back is its own:
a DataFrame of Spark, or a LocalTable, which has as much of a DataFrame as is in `Table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from spark_ext.jobs.errors import JobError
from spark_ext.schema import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_ext.jobs.folder import Folder

FORMATS = ("parquet", "csv", "json")
MODES = ("error", "append", "overwrite")


def write_table(frame: DataFrame, path: str, kind: str = "parquet", mode: str = "error") -> None:
    """Writes a frame as a folder of files. In CSV maps are JSON text and bytes are base64."""
    from pyspark.errors import AnalysisException

    if kind not in FORMATS or mode not in MODES:
        raise JobError(f"no table of kind {kind} and mode {mode}: {FORMATS}, {MODES}")
    writer = (_flat(frame) if kind == "csv" else frame).write.mode(mode)
    if kind == "csv":
        writer = writer.option("header", True)
    try:
        writer.format(kind).save(path)
    except AnalysisException as e:
        if e.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise JobError(f"{path} exists: choose the mode append or overwrite") from None


def read_table(spark: SparkSession, path: str, kind: str, schema: str) -> DataFrame:
    """What `write_table` wrote."""
    reader = spark.read.format(kind).schema(schema)
    return (reader.option("header", True) if kind == "csv" else reader).load(path)


def _flat(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, MapType

    columns = []
    for field in frame.schema.fields:
        column = F.col(f"`{field.name}`")
        if isinstance(field.dataType, MapType):
            column = F.to_json(column).alias(field.name)
        elif isinstance(field.dataType, BinaryType):
            column = F.base64(column).alias(field.name)
        columns.append(column)
    return frame.select(columns)


FORMAT = "rocketmq"
STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""A session may be set to read past files that are gone or damaged: not those of an archive."""


class Table(Protocol):
    """What both engines' tables have. Rows have their values by attribute and by name."""

    @property
    def columns(self) -> list[str]: ...

    def collect(self) -> list[Any]: ...

    def count(self) -> int: ...

    def where(self, condition: str, /) -> Any: ...


class Engine(Protocol):
    """Reads, computes, writes. What a table is may be computed later, when it is asked for."""

    name: str

    def load(
        self, columns: Sequence[str], options: Mapping[str, str], paths: Sequence[str]
    ) -> Table:
        """Messages by options of the source. In one query it may be named once: it is read there,
        and is not kept unless `keep` is called."""

    def sql(self, text: str, **tables: Table) -> Table:
        """The result of a query."""

    def values(self, rows: Sequence[tuple[Any, ...]], schema: str) -> Table:
        """A small table by its rows; the schema in Spark's DDL."""

    def keep(self, table: Table) -> Table:
        """The same table, which is computed once however often it is asked."""

    def text(self, binary: str) -> str:
        """SQL for bytes as text, whatever is in them."""

    def write(self, table: Table, path: str, kind: str, mode: str) -> None:
        """As a folder of files. JobError if it exists and the mode is `error`."""

    def read(self, path: str, kind: str, schema: str) -> Table:
        """What `write` wrote, also by the other engine."""

    def folder(self, root: str) -> Folder:
        """The place of an archive."""

    def stored(
        self, root: str, names: Sequence[str], columns: Sequence[str], *, paths: bool = False
    ) -> Table:
        """Rows of an archive's files: these columns of them, run and day, with `paths` also
        `path`, the file's, escaped as in URIs."""


Where: TypeAlias = "SparkSession | Engine"
"""What a job is computed by: a session of Spark, or `local.engine()`."""


class SparkEngine:
    """A session of Spark."""

    name = "spark"

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def load(
        self, columns: Sequence[str], options: Mapping[str, str], paths: Sequence[str]
    ) -> Table:
        reader = self.session.read.format(FORMAT).schema(schema_of(columns)).options(**options)
        return cast(Table, reader.load(paths[0]) if len(paths) == 1 else reader.load())

    def sql(self, text: str, **tables: Table) -> Table:
        return cast(Table, self.session.sql(text, **cast(Any, tables)))

    def values(self, rows: Sequence[tuple[Any, ...]], schema: str) -> Table:
        return cast(Table, self.session.createDataFrame(list(rows), schema))

    def keep(self, table: Table) -> Table:
        kept: Table = cast(Any, table).cache()
        return kept

    def text(self, binary: str) -> str:
        return f"CAST({binary} AS string)"

    def write(self, table: Table, path: str, kind: str, mode: str) -> None:

        write_table(cast(Any, table), path, kind, mode)

    def read(self, path: str, kind: str, schema: str) -> Table:

        return cast(Table, read_table(self.session, path, kind, schema))

    def folder(self, root: str) -> Folder:
        from spark_ext.jobs.files import Folder as HadoopFolder

        return HadoopFolder(self.session, root)

    def stored(
        self, root: str, names: Sequence[str], columns: Sequence[str], *, paths: bool = False
    ) -> Table:
        from pyspark.sql import functions as F

        folder, schema = self.folder(root), stored_schema(columns, "run int")
        wanted: list[Any] = [*columns, "run", "day"]
        if not names:
            empty = self.session.createDataFrame([], f"{schema}, path string")
            return cast(Table, empty.select(*wanted, *(["path"] if paths else [])))
        reader = self.session.read.schema(schema).options(**STRICT).option("basePath", folder.uri)
        frame = reader.parquet(*[folder.path_of(name) for name in names])
        if paths:
            wanted.append(F.col("_metadata.file_path").alias("path"))
        return cast(Table, frame.select(*wanted))


def engine_of(what: object) -> Engine:
    """The engine that a session of Spark stands for, or that a table is of."""
    if hasattr(what, "keep") and hasattr(what, "load"):
        return cast(Engine, what)
    own = getattr(what, "engine", None)
    if own is not None:
        return cast(Engine, own)
    session: Any = getattr(what, "sparkSession", what)
    return SparkEngine(session)


def schema_of(columns: Iterable[str]) -> str:
    """Columns as the DDL of a schema; JobError for a name that the source does not know."""
    columns = list(columns)
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise JobError(f"no such columns: {', '.join(unknown)}; there are {', '.join(COLUMNS)}")
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in columns)


def stored_schema(columns: Sequence[str], *partitions: str) -> str:
    """The schema of an archive's files with what their folders say; topic is one of those."""
    inside = [name for name in columns if name != "topic"]
    return ", ".join((schema_of(inside), *partitions, "topic string", "day date"))
