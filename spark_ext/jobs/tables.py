"""A result as a table of files: Parquet, CSV or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_ext.jobs.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
