"""Columns of a table that follow the schema of its bodies, as far as Iceberg allows it."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrmq.tables.bodies import evolve, kinds
from pyrmq.tables.bodies.conform import conform
from pyrmq.tables.bodies.kinds import Field, Many, Named, Plain, Record
from pyrmq.tables.bodies.plan import BodyPlan, of_table
from pyrmq.tables.bodies.spec import BODY, BodySpec
from pyrmq.tables.errors import TableError, TableSchemaError
from tests.support.thorough import examples
from tests.tables.bodies import schema_file
from tests.tables.making import TABLE, World

NAMES = (
    "int", "long", "float", "double", "decimal(5,2)", "decimal(9,2)", "decimal(9,3)", "string",
    "json", "binary", "boolean", "date", "time", "timestamp", "timestamp_ntz",
)  # fmt: skip
ALLOWED = {
    ("int", "long"), ("float", "double"), ("decimal(5,2)", "decimal(9,2)"),
}  # fmt: skip
"""Pairs of a column and a field for which the column is widened."""
KEPT = {
    ("long", "int"), ("double", "float"), ("decimal(9,2)", "decimal(5,2)"), ("string", "json"),
    ("json", "string"),
}  # fmt: skip
"""Pairs for which the column takes the field as it is."""


def table_of(world: World, *fields: Field) -> Any:
    ids = itertools.count(1)
    from pyiceberg.schema import Schema

    columns = [kinds.iceberg_field(one, lambda: next(ids)) for one in fields]
    return world.catalog.create(TABLE, Schema(*columns))


def grown(world: World, *fields: Field) -> list[str]:
    return evolve.evolve(world.catalog, TABLE, fields, {})[1]


def column(world: World, *path: str) -> Any:
    return world.table().schema().find_field(".".join(path))


def test_every_pair_of_types(tmp_path: Path) -> None:
    """Each one is widened, kept, or an error that names the column. Nothing is lost by it."""
    world = World(tmp_path)
    pairs = list(itertools.product(NAMES, NAMES))
    table_of(world, *(Field(f"c{at}", Plain(old)) for at, (old, _) in enumerate(pairs)))
    fields, wanted = [], []
    schema = world.table().schema()
    for at, (old, new) in enumerate(pairs):
        field = Field(f"c{at}", Plain(new))
        if old == new or (old, new) in ALLOWED | KEPT:
            fields.append(field)
            if (old, new) in ALLOWED:
                wanted.append(f"column c{at}: {old} is {new}")
            continue
        with pytest.raises(TableSchemaError) as raised:
            list(evolve.needed(schema, [field], TABLE))
        assert f"column c{at} of table {TABLE}" in str(raised.value)
        assert "give the field another name" in str(raised.value)
    assert grown(world, *fields) == wanted
    assert grown(world, *fields) == []


def test_new_fields_at_every_place(world: World) -> None:
    old = Record((Field("id", Plain("int")), Field("in", Record((Field("a", Plain("int")),)))))
    table_of(world, Field("value", Record((Field("lines", Many(old)), Field("by", Named(old))))))
    inner = Record((Field("a", Plain("long")), Field("b", Many(Plain("string")))))
    new = Record((Field("id", Plain("long")), Field("in", inner), Field("z", Plain("date"))))
    fields = Record((Field("lines", Many(new)), Field("by", Named(new)), Field("x", inner)))
    changed = grown(world, Field("value", fields), Field("top", Plain("double")))
    assert changed == [
        "column value.lines.element.id: int is long",
        "column value.lines.element.in.a: int is long",
        "column value.lines.element.in.b is new",
        "column value.lines.element.z is new",
        "column value.by.value.id: int is long",
        "column value.by.value.in.a: int is long",
        "column value.by.value.in.b is new",
        "column value.by.value.z is new",
        "column value.x is new",
        "column top is new",
    ]
    value = column(world, "value").field_type
    assert evolve.kind_of(value) == fields
    ids = world.table().schema()._lazy_id_to_name
    assert len(set(ids)) == len(ids)
    assert grown(world, Field("value", fields)) == []


def test_a_required_column_becomes_optional(world: World) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StructType

    inner = StructType(NestedField(2, "id", LongType(), required=True))
    world.catalog.create(TABLE, Schema(NestedField(1, "value", inner, required=True)))
    changed = grown(world, Field("value", Record((Field("id", Plain("long")),))))
    assert changed == ["column value is optional", "column value.id is optional"]
    assert not column(world, "value").required
    assert not column(world, "value", "id").required


def test_a_name_that_differs_in_case_is_an_error(world: World) -> None:
    table_of(world, Field("value", Record((Field("Id", Plain("long")),))))
    with pytest.raises(TableSchemaError, match=r"value\.Id, and the schema has value\.id"):
        grown(world, Field("value", Record((Field("id", Plain("long")),))))


def test_a_struct_that_becomes_a_text_is_an_error_that_names_the_column(world: World) -> None:
    inner = Record((Field("a", Plain("int")),))
    table_of(world, Field("value", Record((Field("x", inner), Field("y", Plain("int"))))))
    for field, name in (
        (Field("x", Plain("string")), "value.x"),
        (Field("y", inner), "value.y"),
        (Field("x", Many(inner)), "value.x"),
    ):
        with pytest.raises(TableSchemaError, match=f"column {name} of table"):
            grown(world, Field("value", Record((field,))))


def test_two_that_change_the_columns_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is later sees the change of the other, and adds what is still missing."""
    table_of(world, Field("a", Plain("int")))
    catalog = world.catalog
    real = catalog.load
    other = [True]

    def load(name: str) -> Any:
        found = real(name)
        if other and other.pop():
            evolve.evolve(world.catalog, TABLE, [Field("b", Plain("int"))], {})
        return found

    monkeypatch.setattr(catalog, "load", load)
    wanted = [Field("b", Plain("int")), Field("c", Plain("int"))]
    _, changed = evolve.evolve(catalog, TABLE, wanted, {"p": "1"})
    assert changed == ["column c is new"]
    assert [one.name for one in world.table().schema().fields] == ["a", "b", "c"]
    assert world.table().properties["p"] == "1"


def plan(properties: dict[str, Any], **how: Any) -> BodyPlan:
    schema = {"type": "object", "properties": properties}
    return BodyPlan(BodySpec("json", (schema_file(schema),), **how))


def test_a_table_says_how_its_bodies_are_read(world: World) -> None:
    first = plan({"id": {"type": "integer"}})
    table_of(world, Field("queueId", Plain("int")), *first.fields)
    first.evolve(world.catalog, TABLE)
    wider = plan({"id": {"type": "integer"}, "name": {"type": "string"}})
    wider.evolve(world.catalog, TABLE)
    found = of_table(world.table())
    assert found is not None
    assert found.spec == wider.spec
    batch = pa.record_batch({"queueId": [1], "body": [b'{"id":5,"name":"x"}']})
    rows = [row for part in found.stage(batch) for row in part.good.to_pylist()]
    assert rows == [{"queueId": 1, "value": {"id": 5, "name": "x"}}]
    world.catalog.iceberg.drop_table(TABLE)
    table_of(world, Field("queueId", Plain("int")))
    assert of_table(world.table()) is None


def test_an_older_schema_fills_what_it_has(world: World) -> None:
    """A table keeps its wider columns, and the fields that the schema does not have are null."""
    table_of(
        world,
        Field("value", Record((Field("new", Plain("string")), Field("id", Plain("long"))))),
        Field("body", Plain("binary")),
    )
    old = plan({"id": {"type": "integer", "format": "int32"}})
    assert old.evolve(world.catalog, TABLE)[1] == []
    batch = pa.record_batch({"body": pa.array([b'{"id":5}'])})
    (found,) = old.stage(batch)
    assert found.good.to_pylist() == [{"body": b'{"id":5}', "value": {"new": None, "id": 5}}]
    assert found.good.schema == old.columns(batch.schema)


def test_a_table_of_decoded_bodies_does_not_take_bytes(world: World) -> None:
    found = plan({"id": {"type": "integer"}})
    table_of(world, *found.fields)
    found.evolve(world.catalog, TABLE)
    with pytest.raises(TableSchemaError, match="--body binary decodes none"):
        BodyPlan(BodySpec()).evolve(world.catalog, TABLE)


def test_the_layout_of_a_table_stays(world: World) -> None:
    first = plan({"id": {"type": "integer"}}, layout="flat")
    table_of(world, *first.fields)
    first.evolve(world.catalog, TABLE)
    with pytest.raises(TableSchemaError, match="give --body-columns flat"):
        plan({"id": {"type": "integer"}}).evolve(world.catalog, TABLE)
    assert [one.name for one in world.table().schema().fields] == ["id"]


def test_flat_columns() -> None:
    found = plan({"id": {"type": "integer"}, "name": {"type": "string"}}, layout="flat")
    batch = pa.record_batch({"queueId": [1, 2], "body": [b'{"id":5}', b"x"]})
    (part,) = found.stage(batch)
    assert part.good.to_pylist() == [{"queueId": 1, "id": 5, "name": None}]
    assert part.good.schema == found.columns(batch.schema)
    for name in ("tags", "QueueId", "body"):
        with pytest.raises(TableError, match=f"the field {name} has the name of a column"):
            plan({name: {"type": "string"}}, layout="flat")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"form": "xml"}, "--body xml"),
        ({"form": "json"}, "give --body-schema FILE"),
        ({"form": "binary", "keep_body": True}, "--keep-body says how bodies are decoded"),
        ({"form": "binary", "schemas": 1}, "--body-schema says how bodies are decoded"),
        ({"form": "json", "schemas": 2}, "--body json has one schema"),
        ({"form": "json", "schemas": 1, "message": "x"}, "--message is for --body protobuf"),
        ({"form": "json", "schemas": 1, "header": "single-object"}, "is for --body avro"),
        ({"form": "json", "schemas": 1, "header": "x"}, "--body-header x"),
        ({"form": "json", "schemas": 1, "layout": "x"}, "--body-columns x"),
        ({"form": "avro", "schemas": 51}, "more than 50 --body-schema"),
    ],
)
def test_options_that_do_not_go_together(how: dict[str, Any], said: str) -> None:
    schemas = tuple(schema_file({}) for _ in range(how.pop("schemas", 0)))
    with pytest.raises(TableError) as raised:
        BodySpec(how.pop("form"), schemas, **how)
    assert said in str(raised.value)


def test_a_property_that_is_damaged_is_an_error(world: World) -> None:
    good = plan({"id": {"type": "integer"}}).spec.to_json()
    assert BodySpec.from_json(good).to_json() == good
    bomb = json.loads(BodySpec("json", (schema_file(b"x" * (1 << 20)),)).to_json())
    assert BodySpec.from_json(json.dumps(bomb)).schemas[0].content == b"x" * (1 << 20)
    import base64
    import zlib

    bomb["schemas"][0]["zlib"] = base64.b64encode(zlib.compress(b"x" * (2 << 20))).decode()
    wrong = [
        "", "[]", "{}", good.replace('"version": 1', '"version": 2'), good[:-5], "[" * 100_000,
        good.replace('"zlib": "', '"zlib": "*'), json.dumps(bomb), "x" * (5 << 20),
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(TableError, match=BODY):
            BodySpec.from_json(text)


_TREE = st.recursive(
    st.sampled_from(["int", "float", "string"]).map(Plain),
    lambda inner: st.one_of(
        inner.map(Many),
        inner.map(Named),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(
            lambda fields: Record(tuple(Field(k, v) for k, v in fields.items()))
        ),
    ),
    max_leaves=6,
)


def _wider(kind: Any, draw: st.DrawFn) -> Any:
    if isinstance(kind, Plain):
        return Plain({"int": "long", "float": "double"}.get(kind.name, kind.name))
    if isinstance(kind, Many):
        return Many(_wider(kind.item, draw))
    if isinstance(kind, Named):
        return Named(_wider(kind.value, draw))
    fields = [Field(one.name, _wider(one.kind, draw)) for one in kind.fields]
    fields.insert(draw(st.integers(0, len(fields))), Field("new", Plain("date")))
    return Record(tuple(fields))


def _values(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, Plain):
        return (
            st.none()
            | {
                "int": st.integers(-5, 5),
                "float": st.floats(width=32, allow_nan=False),
                "string": st.text(max_size=2),
            }[kind.name]
        )
    if isinstance(kind, Many):
        return st.none() | st.lists(_values(kind.item), max_size=3)
    if isinstance(kind, Named):
        return st.none() | st.dictionaries(st.text("xy", max_size=2), _values(kind.value))
    fields = {one.name: _values(one.kind) for one in kind.fields}
    return st.none() | st.fixed_dictionaries(fields)


def _with_new(kind: Any, value: Any) -> Any:
    if value is None or isinstance(kind, Plain):
        return value
    if isinstance(kind, Many):
        return [_with_new(kind.item, one) for one in value]
    if isinstance(kind, Named):
        return {k: _with_new(kind.value, one) for k, one in value.items()}
    return {**{one.name: _with_new(one.kind, value[one.name]) for one in kind.fields}, "new": None}


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_values_in_wider_columns(data: st.DataObject) -> None:
    """Whatever is nested in what, sliced or filtered: the values are the same."""
    kind = data.draw(_TREE)
    rows = data.draw(st.lists(_values(kind), max_size=6))
    start = data.draw(st.integers(0, len(rows)))
    array = pa.array(rows, kinds.arrow_type(kind)).slice(start)
    wide = data.draw(st.composite(lambda draw: _wider(kind, draw))())
    found = conform(array, kinds.arrow_type(wide))
    found.validate(full=True)
    wanted = [_with_new(kind, row) for row in rows[start:]]
    assert found.to_pylist(maps_as_pydicts="strict") == wanted


def test_schemas_that_a_table_cannot_keep() -> None:
    """They would be written, and read never more."""
    large = schema_file(random.Random(1).randbytes(1 << 20))
    assert BodySpec.from_json(BodySpec("avro", (large,) * 2).to_json()).schemas == (large,) * 2
    with pytest.raises(TableError, match="more than 4 MiB together"):
        BodySpec("avro", (large,) * 3).to_json()
