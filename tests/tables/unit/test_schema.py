"""Columns of a table as Iceberg's, their ids, and partitions."""

from __future__ import annotations

import pyarrow
import pytest

from pyrmq.engine import scan_columns
from pyrmq.tables import schema
from pyrmq.tables.errors import TableSchemaError


def test_all_columns_have_stable_ids() -> None:
    names = [name for name, _ in scan_columns()]
    wanted = schema.iceberg_schema(schema.message_schema(names))
    assert [(f.name, f.field_id) for f in wanted.fields] == [
        (n, i + 1) for i, n in enumerate(names)
    ]


def test_columns_that_a_table_needs_are_added() -> None:
    assert schema.columns_of(("body", "queueId")) == (
        "topic", "brokerName", "queueOffset", "commitLogOffset", "storeTimestamp", "body",
        "queueId",
    )  # fmt: skip
    assert schema.columns_of() == schema.COLUMNS
    with pytest.raises(TableSchemaError, match="no such columns: nope"):
        schema.columns_of(("nope",))


def test_ids_of_files_are_those_of_the_table(world, log) -> None:  # type: ignore[no-untyped-def]
    """Also of nested columns, and after a column of the same name was dropped and added again."""
    from pyiceberg.types import StringType

    from tests.tables.making import source_of, write

    write(world, log)
    nested = pyarrow.list_(
        pyarrow.struct(
            [("a", pyarrow.int64()), ("b", pyarrow.map_(pyarrow.string(), pyarrow.int32()))]
        )
    )
    table = world.table()
    with table.update_schema() as update:
        update.delete_column("keys")
    with table.update_schema() as update:
        update.add_column("keys", StringType())
        update.union_by_name(pyarrow.schema([("items", nested)]))
    given = source_of(log).schema.append(pyarrow.field("items", nested))
    found = schema.file_schema(world.table(), given)
    ids = world.table().schema()
    assert int(found.field("keys").metadata[b"PARQUET:field_id"]) == ids.find_field("keys").field_id
    assert ids.find_field("keys").field_id > len(schema.COLUMNS)
    inner = found.field("items").type.value_type.field("b").type
    want = ids.find_field("items.element.b.value").field_id
    assert int(inner.item_field.metadata[b"PARQUET:field_id"]) == want
    schema.check(world.table(), "orders", given)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("none", ()),
        ("day", ("day",)),
        ("day,queue", ("day", "queue")),
        (" hour , broker", ("hour", "broker")),
    ],
)
def test_partitions(text: str, words: tuple[str, ...]) -> None:
    assert schema.parse_partition(text) == words


@pytest.mark.parametrize("text", ["", "week", "day,day", "day,hour", "none,day", "day;queue"])
def test_partitions_that_are_not_known(text: str) -> None:
    with pytest.raises(TableSchemaError, match="is no partition"):
        schema.parse_partition(text)


def test_a_type_that_iceberg_does_not_have() -> None:
    with pytest.raises(TableSchemaError, match="cast it"):
        schema.iceberg_schema(pyarrow.schema([("x", pyarrow.duration("s"))]))
