"""Columns and types: the default, a user's own schema, what the error says about a wrong one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyrmq.errors import PyrmqError
from spark_ext import schema as schemas
from spark_ext.option import Query
from spark_ext.options import Options


def options(**given: str) -> Options:
    return Options({"path": "/store", **given}, Query.BATCH)


def test_the_default_columns() -> None:
    found = schemas.of_options(options())
    assert [(f.name, f.dataType, f.nullable) for f in found] == [
        ("topic", StringType(), True),
        ("flag", IntegerType(), True),
        ("body", BinaryType(), True),
        ("brokerName", StringType(), True),
        ("queueId", IntegerType(), True),
        ("queueOffset", LongType(), True),
        ("bornTimestamp", TimestampType(), True),
        ("storeTimestamp", TimestampType(), True),
        ("tags", StringType(), True),
        ("keys", StringType(), True),
        ("commitLogOffset", LongType(), True),
    ]


def test_the_engine_has_the_same_columns() -> None:
    from pyrmq.engine import ALL_COLUMNS, DEFAULT_COLUMNS

    assert tuple(schemas.COLUMNS) == tuple(ALL_COLUMNS)
    assert tuple(DEFAULT_COLUMNS) == schemas.WITH_PROPERTIES


def test_columns_and_properties_by_option() -> None:
    found = schemas.of_options(options(columns="body,topic,properties", properties="json"))
    assert [f.name for f in found] == ["body", "topic", "properties"]
    assert found["properties"].dataType == StringType()
    assert "properties" not in schemas.of_options(options(properties="none")).fieldNames()


@pytest.mark.parametrize("how", [{"properties": "map"}, {"includeHeaders": "true"}])
def test_a_form_of_properties_adds_the_column(how: dict[str, str]) -> None:
    found = schemas.of_options(options(**how))
    assert tuple(found.fieldNames()) == schemas.WITH_PROPERTIES
    assert found["properties"].dataType == MapType(StringType(), StringType(), True)


def test_the_name_of_properties_asks_for_a_map() -> None:
    found = schemas.of_options(options(columns="properties"))
    assert found["properties"].dataType == MapType(StringType(), StringType(), True)
    schemas.check(found, options())
    assert schemas.form_of(options()) == "map"


def test_a_star_is_all_columns() -> None:
    found = schemas.of_options(options(columns="*"))
    assert found.fieldNames() == list(schemas.COLUMNS)
    schemas.check(found, options(columns=" * "))
    without = schemas.of_options(options(columns="*", properties="none")).fieldNames()
    assert set(schemas.COLUMNS) - set(without) == {"properties"}
    with pytest.raises(PyrmqError, match="give it alone"):
        schemas.of_options(options(columns="*,topic"))


def test_names_in_any_case() -> None:
    found = schemas.of_options(options(columns="QUEUEID,Body"))
    assert found.fieldNames() == ["queueId", "body"]
    given = StructType([*one("QUEUEID", IntegerType()), *one("body", BinaryType())])
    schemas.check(given, options(columns="queueid,body"))
    assert schemas.column_names(given) == ("queueId", "body")
    batch = pa.record_batch({"queueId": pa.array([1], pa.int32()), "body": pa.array([b"x"])})
    (back,) = schemas.as_given(iter([batch]), given)
    assert back.schema.names == ["QUEUEID", "body"]
    assert back.column(0) == batch.column(0)


def test_any_order_of_known_columns_is_taken() -> None:
    given = schemas.spark_schema(["storeSize", "topic", "body"], "map")
    schemas.check(given, options())
    assert schemas.column_names(given) == ("storeSize", "topic", "body")


def one(name: str, kind: object, nullable: bool = True) -> StructType:
    return StructType([StructField(name, kind, nullable)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (one("queue", IntegerType()), "unknown column 'queue'.*did you mean queueId"),
        (one("queueId", LongType()), "queueId is bigint in the schema, but must be int; .*topic"),
        (one("body", StringType()), "body is string in the schema, but must be binary"),
        (one("storeTimestamp", TimestampNTZType()), "must be timestamp"),
        (one("properties", StringType()), "set option properties to json or raw"),
        (one("properties", MapType(StringType(), StringType(), False)), "may be null"),
        (one("topic", StringType(), False), "NOT NULL"),
        (StructType([]), "no column; the columns are: topic string"),
        (StructType([*one("topic", StringType()), *one("Topic", StringType())]), "topic twice"),
    ],
)
def test_a_wrong_schema_is_reported(schema: StructType, told: str) -> None:
    with pytest.raises(PyrmqError, match=told):
        schemas.check(schema, options())


def test_schema_and_columns_must_agree() -> None:
    given = schemas.spark_schema(["topic", "body"], "map")
    schemas.check(given, options(columns="topic,body"))
    with pytest.raises(PyrmqError, match="give one of the two"):
        schemas.check(given, options(columns="body,topic"))


def test_properties_cannot_be_asked_for_and_left_out() -> None:
    with pytest.raises(PyrmqError, match="leaves it out"):
        schemas.of_options(options(columns="properties", properties="none"))
    with pytest.raises(PyrmqError, match="unknown column 'props'"):
        schemas.of_options(options(columns="props"))
