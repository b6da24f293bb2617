"""`pyrmq pipeline table write --body …`: forms, the dead table, errors, columns that change."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from click.testing import Result
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import pyrmq
from pyrmq.errors import PyrmqError
from pyrmq.tables.errors import TableSchemaError
from tests.tables.commands import command, into
from tests.tables.dead import DEAD, SCHEMA, bodies, check, fill
from tests.tables.making import TABLE, World
from tests.tables.unit.test_body_avro import ALL, VALUE, encoded

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def run(world: World, *arguments: Any) -> Result:
    return command("write", world.log().root, "-t", "orders", *into(world), *arguments)


def file(world: World, content: Any, name: str = "schema") -> Path:
    path = world.folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def said(result: Result) -> str:
    return result.output + (str(result.exception) if result.exception else "")


def values(world: World, table: str = TABLE) -> list[Any]:
    rows = world.catalog.load(table).scan().to_arrow().to_pylist()
    rows.sort(key=lambda row: (row["queueOffset"], row["queueId"]))
    return [row["value"] for row in rows]


def test_json_with_a_dead_table(world: World) -> None:
    first, second = bodies(0, 20), bodies(20, 10)
    fill(world, first)
    schema = file(world, SCHEMA)
    stopped = run(world, "--body", "json", "--body-schema", schema)
    assert stopped.exit_code != 0
    assert "the message at offset 0 of queue 0 of broker-a" in said(stopped)
    done = run(world, "--body", "json", "--body-schema", schema, "--on-error", "dlq")
    assert done.exit_code == 0, said(done)
    assert "added 16 messages" in done.output
    assert "4 bodies in mq.orders_dlq" in done.output
    fill(world, second)
    run(world, "--body", "json", "--body-schema", schema, "--on-error", "dlq")
    check(world, [first, second])
    names = [field.name for field in world.table().schema().fields]
    assert "value" in names
    assert "body" not in names


def test_the_dead_table_is_not_written_or_read_as_a_topic(world: World) -> None:
    """Messages that fit would count as dead then, and the table itself would never get them."""
    fill(world, bodies(0, 20))
    how = ["--body", "json", "--body-schema", file(world, SCHEMA), "--on-error", "dlq"]
    run(world, *how)
    fill(world, bodies(20, 10))
    before = world.catalog.load(DEAD).metadata
    for more in ([], how):
        refused = run(world, *more, "--table", DEAD)
        assert refused.exit_code != 0
        assert f"only the messages whose bodies do not fit {TABLE}" in said(refused)
        assert world.catalog.load(DEAD).metadata == before
    with pytest.raises(TableSchemaError, match="read it with pyiceberg"):
        pyrmq.table(DEAD, world.log().root, catalog=world.catalog)
    run(world, *how)
    check(world, [bodies(0, 20), bodies(20, 10)])


def test_skip(world: World) -> None:
    fill(world, bodies(0, 20))
    schema = file(world, SCHEMA)
    done = run(world, "--body", "json", "--body-schema", schema, "--on-error", "skip")
    assert "added 16 messages" in done.output
    assert "left out 4 bodies that do not fit" in done.output
    assert len(values(world)) == 16
    assert world.catalog.find(DEAD) is None


def test_flat_columns_with_the_bytes(world: World) -> None:
    fill(world, [b'{"id":1}'])
    how = ["--body", "json", "--body-schema", file(world, SCHEMA)]
    done = run(world, *how, "--body-columns", "flat", "--keep-body", "--columns", "tags")
    assert done.exit_code == 0, said(done)
    (row,) = world.table().scan().to_arrow().to_pylist()
    assert (row["id"], row["body"], row["tags"]) == (1, b'{"id":1}', "t")
    assert "keys" not in row


def test_columns_follow_the_schema(world: World) -> None:
    fill(world, [b'{"id":1}'])
    old = {"type": "object", "properties": {"id": {"type": "integer", "format": "int32"}}}
    run(world, "--body", "json", "--body-schema", file(world, old))
    fill(world, [b'{"id":5000000000,"name":"x"}'])
    new = {"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "integer"}}}
    done = run(world, "--body", "json", "--body-schema", file(world, new))
    assert "mq.orders: column value.id: int is long" in done.output
    assert "mq.orders: column value.name is new" in done.output
    assert values(world) == [{"id": 1, "name": None}, {"id": 5000000000, "name": "x"}]
    fill(world, [b'{"id":7}'])
    assert run(world, "--body", "json", "--body-schema", file(world, old)).exit_code == 0
    assert values(world)[-1] == {"id": 7, "name": None}
    wrong = {"type": "object", "properties": {"id": {"type": "string"}}}
    refused = run(world, "--body", "json", "--body-schema", file(world, wrong))
    assert refused.exit_code != 0
    assert "column value.id of table mq.orders is long, and the schema makes it string" in said(
        refused
    )
    assert "--body binary decodes none" in said(run(world))


def test_bytes_that_are_decoded_from_now_on(world: World) -> None:
    """The table keeps the column `body`, which goes on."""
    fill(world, [b'{"id":1}'])
    assert run(world).exit_code == 0
    fill(world, [b'{"id":2}'])
    done = run(world, "--body", "json", "--body-schema", file(world, SCHEMA))
    assert done.exit_code == 0, said(done)
    rows = world.table().scan().to_arrow().to_pylist()
    rows.sort(key=lambda row: row["queueOffset"])
    assert [(row["body"], row["value"]) for row in rows] == [
        (b'{"id":1}', None),
        (b'{"id":2}', {"id": 2}),
    ]


def test_avro(world: World) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": 77})
    fill(world, [b"\0\0\0\0\7" + out.getvalue(), b"\0\0\0\0\x09" + out.getvalue()])
    how = ["--body", "avro", "--body-header", "confluent", "--on-error", "dlq"]
    done = run(world, *how, "--body-schema", f"7={file(world, AVRO)}")
    assert done.exit_code == 0, said(done)
    assert values(world) == [{"id": 77}]
    (dead,) = world.catalog.load(DEAD).scan().to_arrow().to_pylist()
    assert dead["error"] == "no --body-schema has the id 9"


def test_every_type_in_the_table(world: World) -> None:
    """What fastavro decodes is what pyiceberg reads, nested as deep as the schema has it."""
    nested = {
        "type": "record",
        "name": "Outer",
        "fields": [
            {"name": "all", "type": ALL},
            {
                "name": "byName",
                "type": {"type": "map", "values": {"type": "array", "items": "Line"}},
            },
            {"name": "maybe", "type": ["null", "Line"]},
        ],
    }
    rows = [
        {"all": VALUE, "byName": {"a": [{"q": 1}, {"q": None}], "b": []}, "maybe": None},
        {"all": VALUE, "byName": {}, "maybe": {"q": 2}},
    ]
    fill(world, [encoded(nested, row) for row in rows])
    done = run(world, "--body", "avro", "--body-schema", file(world, nested))
    assert done.exit_code == 0, said(done)
    found = world.table().scan().to_arrow().to_pylist(maps_as_pydicts="strict")
    assert [row["value"] for row in sorted(found, key=lambda row: row["queueId"])] == rows
    narrow = world.table().scan(row_filter="value.all.small = -5", limit=1).to_arrow()
    assert narrow.num_rows == 1
    assert world.table().scan(row_filter="value.all.id > 0").to_arrow().num_rows == 0


def test_protobuf(world: World) -> None:
    one = descriptor_pb2.FileDescriptorProto(name="a.proto", package="shop", syntax="proto3")
    message = one.message_type.add(name="Order")
    message.field.add(name="id", number=1, label=1, type=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(one)
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    fill(world, [make(id=77).SerializeToString()])
    content = descriptor_pb2.FileDescriptorSet(file=[one]).SerializeToString()
    how = ["--body", "protobuf", "--body-schema", file(world, content)]
    done = run(world, *how, "--message", "shop.Order")
    assert done.exit_code == 0, said(done)
    assert values(world) == [{"id": 77}]


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (["--body", "json"], "give --body-schema FILE"),
        (["--body", "json", "--body-schema", "nowhere"], "nowhere cannot be read"),
        (["--body", "json", "--body-schema", "{avro}"], "is an Avro schema"),
        (["--body", "avro", "--body-schema", "{schema}"], "must be a record"),
        (["--body", "protobuf", "--body-schema", "{schema}"], "protoc --include_imports"),
        (["--body", "json", "--body-schema", "{empty}"], "is empty"),
        (["--body", "json", "--body-schema", "{large}"], "is larger than 1 MiB"),
        (["--body", "json", "--body-schema", "{tags}", "--body-columns", "flat"], "field tags"),
        (["--body-schema", "{schema}"], "give --body json, avro or protobuf"),
        (["--on-error", "dlq"], "give --body as well"),
        (["--message", "x"], "--message says how bodies are decoded"),
        (["--body", "json", "--body-schema", "9={schema}"], "a schema with an id is for"),
        (["--body", "avro", "--body-schema", "99999999999={avro}"], "cannot be read"),
        (["--body", "avro", "--body-schema", "9999999999={avro}"], "an id has 32 bits"),
    ],
)
def test_what_cannot_be_meant(world: World, how: list[str], text: str) -> None:
    fill(world, bodies(0, 3))
    tags = {"type": "object", "properties": {"tags": {"type": "string"}}}
    contents = {
        "schema": SCHEMA, "avro": AVRO, "empty": b" \n", "large": b" " * (2 << 20), "tags": tags,
    }  # fmt: skip
    for name, content in contents.items():
        path = file(world, content, name)
        how = [word.replace(f"{{{name}}}", str(path)) for word in how]
    result = run(world, *how)
    assert result.exit_code != 0
    assert text in said(result)
    assert isinstance(result.exception, PyrmqError | SystemExit)
    assert world.catalog.find(TABLE) is None
