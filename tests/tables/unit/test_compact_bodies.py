"""Compaction of tables with decoded bodies, whose columns change, and of their dead tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyrmq.tables.compact import compact
from tests.tables.commands import command, into
from tests.tables.making import TABLE, World
from tests.tables.small_tables import content

ITEM = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
FIRST = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "items": {"type": "array", "items": ITEM},
        "buyer": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
SECOND = json.loads(json.dumps(FIRST))
SECOND["properties"]["buyer"]["properties"]["age"] = {"type": "integer"}
SECOND["properties"]["items"]["items"]["properties"]["price"] = {"type": "number"}
SECOND["properties"]["note"] = {"type": "string"}


def _write(world: World, schema: Any) -> None:
    file = world.folder / "schema.json"
    file.write_text(json.dumps(schema))
    body = ["--body", "json", "--body-schema", file, "--on-error", "dlq"]
    done = command("write", world.log().root, "-t", "orders", *into(world), *body)
    assert done.exit_code == 0, done.output


def _put(world: World, *bodies: Any) -> None:
    from tests.segments.making import put, small

    with small(world.log().root) as store:
        for number, body in enumerate(bodies):
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            put(store, "orders", number % 2, text)


def test_nested_columns_that_came_later(world: World) -> None:
    old = {"id": 1, "items": [{"sku": "a", "count": 2}], "buyer": {"name": "Ann"}}
    new = {
        "id": 2, "items": [{"sku": "b", "count": 1, "price": 2.5}, {"sku": "c"}],
        "buyer": {"name": "Bo", "age": 40}, "note": "x",
    }  # fmt: skip
    for schema, body in ((FIRST, old), (FIRST, {"id": 3}), (SECOND, new), (SECOND, {"items": []})):
        _put(world, body, b"not JSON", body, b"[]")
        _write(world, schema)
    table = world.table()
    before = content(table)
    assert len(before) == 8
    assert compact(table, files=2).removed == 4
    assert content(world.table()) == before
    by_id = {row["value"]["id"]: row["value"] for row in before}
    assert by_id[1]["buyer"] == {"name": "Ann", "age": None}
    assert by_id[2]["items"][0]["price"] == 2.5
    dead = world.catalog.load(f"{TABLE}_dlq")
    before = content(dead)
    assert len(before) == 8
    assert compact(dead, files=2).removed >= 4
    assert content(world.catalog.load(f"{TABLE}_dlq")) == before
    # Both go on.
    _put(world, new, b"not JSON")
    _write(world, SECOND)
    assert len(content(world.table())) == 9
    assert len(content(world.catalog.load(f"{TABLE}_dlq"))) == 9


@pytest.mark.parametrize("order", ["compacted first", "changed first"])
def test_types_that_were_widened(world: World, order: str) -> None:
    from pyiceberg.types import LongType

    small = {"type": "object", "properties": {"n": {"type": "integer", "format": "int32"}}}
    for number in range(3):
        _put(world, {"n": number}, {"n": -number})
        _write(world, small)
    table = world.table()
    before = content(table)
    if order == "compacted first":
        compact(table, files=2)
    assert str(table.schema().find_field("value.n").field_type) == "int"
    with table.update_schema() as change:
        change.update_column(("value", "n"), LongType())
    compact(table, files=2)
    assert content(world.table()) == before
