"""Avro bodies: which columns a schema makes, headers, writers of other versions, hostile bodies."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrmq.tables.bodies import avro_walk
from pyrmq.tables.bodies.avro_schema import read
from pyrmq.tables.errors import TableError
from tests.support.thorough import examples
from tests.tables.bodies import decoded, decoder_of, reason, schema_file


def of(*fields: tuple[str, Any], name: str = "Order") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields],
    }


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def long(number: int) -> bytes:
    """Avro's zigzag number."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def logical(of: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **more}


ALL = of(
    ("id", "long"),
    ("small", "int"),
    ("ok", "boolean"),
    ("rate", "float"),
    ("price", "double"),
    ("raw", "bytes"),
    ("name", ["null", "string"]),
    ("amount", logical("bytes", "decimal", precision=10, scale=2)),
    (
        "fixed",
        {
            "type": "fixed",
            "size": 4,
            "name": "F",
        },
    ),
    ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}),
    ("day", logical("int", "date")),
    ("clock", logical("int", "time-millis")),
    ("at", logical("long", "timestamp-millis")),
    ("exact", ["null", logical("long", "timestamp-micros")]),
    ("local", logical("long", "local-timestamp-micros")),
    ("uid", logical("string", "uuid")),
    ("lines", {"type": "array", "items": of(("q", ["null", "int"]), name="Line")}),
    ("more", {"type": "array", "items": "Line"}),
    ("prices", {"type": "map", "values": logical("bytes", "decimal", precision=4, scale=1)}),
    ("number", ["null", "int", "long"]),
)
VALUE = {
    "id": -(1 << 63), "small": -5, "ok": True, "rate": 1.5, "price": 1e300, "raw": b"\0\xff",
    "name": None, "amount": Decimal("-1234.56"), "fixed": b"abcd", "state": "PAID",
    "day": date(2026, 1, 31), "clock": time(1, 2, 3, 4000),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "exact": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "local": datetime(2026, 1, 31, 12),
    "uid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "lines": [{"q": 1}, {"q": None}],
    "more": [{"q": 7}], "prices": {"a": Decimal("1.5")}, "number": 1 << 40,
}  # fmt: skip


def test_columns_and_values() -> None:
    found = decoder_of("avro", ALL)
    types = {one.name: one.type for one in found.schema.field("value").type}
    assert types["amount"] == pa.decimal128(10, 2)
    assert types["at"] == types["exact"] == pa.timestamp("us", "UTC")
    assert types["local"] == pa.timestamp("us")
    assert (types["clock"], types["day"], types["number"]) == (
        pa.time64("us"), pa.date32(), pa.int64(),
    )  # fmt: skip
    rows, reasons = decoded(found, [encoded(ALL, VALUE)])
    assert reasons == {}
    assert rows == [VALUE]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "must be a record"),
        ({"type": "record", "name": "r"}, "is not an Avro schema"),
        (of(("a", "money")), "is not an Avro schema"),
        (of(("a", ["int", "string"])), "a is a union of several types"),
        (of(("a", "null")), "a has the type null"),
        (of(("a", ["null", "Order"])), "a has the type Order that it is in"),
        (of(("a", of(name="Nothing"))), "the struct a has no fields"),
        (of(("a", logical("bytes", "decimal", precision=40, scale=2))), "a: decimal(40,2)"),
        (of(("a", {"type": "array", "items": "null"})), "whose values take no bytes"),
        (
            of(("a", {"type": "array", "items": of(("n", "null"), name="N")})),
            "whose values take no bytes",
        ),
    ],
)
def test_a_schema_that_makes_no_table_is_an_error_that_names_the_field(
    schema: Any, said: str
) -> None:
    with pytest.raises(TableError) as raised:
        decoder_of("avro", schema)
    assert "orders.schema" in str(raised.value)
    assert said in str(raised.value)


def test_the_writers_schema_may_have_what_the_columns_leave_out() -> None:
    node = of(("id", "long"), ("next", ["null", "Order"]), ("either", ["int", "string"]))
    found = decoder_of("avro", node, of(("id", "long")))
    inner = {"id": 2, "next": None, "either": 5}
    body = encoded(node, {"id": 1, "next": inner, "either": "x"})
    rows, _ = decoded(found, [body])
    assert rows == [{"id": 1}]
    deep = (long(1) + long(1)) * 200_000
    assert "more than 100 records within each other" in reason(found, deep)


@pytest.mark.parametrize(
    ("schema", "body", "said"),
    [
        (of(("a", "string")), b"", "ends before its last field"),
        (of(("a", "string")), long(1 << 62) + b"abc", "ends before its last field"),
        (of(("a", "string")), long(-5) + b"abc", "ends before its last field"),
        (of(("a", "bytes")), long((1 << 63) - 1), "ends before its last field"),
        (of(("a", "string")), long(1) + b"\xff", "not of the schema"),
        (of(("a", "string")), long(1) + b"xyz", "goes on for 2 bytes"),
        (of(("a", "long")), b"\xff" * 30, "not of the schema"),
        (of(("a", ["null", "long"])), long(7), "not of the schema"),
        (
            of(("a", {"type": "array", "items": "long"})),
            long(1 << 61) + b"\0\0\0",
            "ends before its last field",
        ),
        (
            of(("a", {"type": "array", "items": "long"})),
            long(-(1 << 63)) + long(5),
            "ends before its last field",
        ),
        (
            of(("a", {"type": "enum", "name": "E", "symbols": ["X"]})),
            long(3),
            "not of the schema",
        ),
        (
            of(("a", logical("bytes", "decimal", precision=5, scale=2))),
            long(1000) + b"\x7f" * 1000,
            "a: the number does not fit into decimal(5,2)",
        ),
        (
            of(("a", logical("bytes", "decimal", precision=5, scale=2))),
            long(3) + (100_000).to_bytes(3, "big"),
            "a: the number does not fit into decimal(5,2)",
        ),
        (of(("a", logical("int", "time-millis"))), long(86_400_000), "a: expected a time of day"),
        (of(("a", logical("int", "time-millis"))), long(-1), "a: expected a time of day"),
        (
            of(("a", logical("long", "timestamp-millis"))),
            long(1 << 60),
            "a: the time is too far away",
        ),
    ],
)
def test_why_a_body_does_not_fit(schema: Any, body: bytes, said: str) -> None:
    assert said in reason(decoder_of("avro", schema), body)


def test_a_large_body_with_too_many_values_does_not_fit() -> None:
    schema = of(("a", {"type": "array", "items": "boolean"}))
    found = decoder_of("avro", schema)
    number = 1_100_000
    assert "more than 1000000 values" in reason(found, long(number) + b"\1" * number + b"\0")
    rows, _ = decoded(found, [long(300_000) + b"\1" * 300_000 + b"\0"])
    assert rows[0] is not None
    assert len(rows[0]["a"]) == 300_000


def test_the_single_object_header() -> None:
    first = of(("id", "int"))
    second = of(("id", "long"), ("name", ["null", "string"]))
    second["fields"][1]["default"] = None
    found = decoder_of("avro", first, second, header="single-object")

    def body(schema: Any, value: Any) -> bytes:
        return b"\xc3\x01" + read(json.dumps(schema), "s").fingerprint + encoded(schema, value)

    bodies = [
        body(first, {"id": 1}),
        body(second, {"id": 1 << 40, "name": "x"}),
        b"\xc3\x01" + bytes(8) + encoded(first, {"id": 1}),
        encoded(first, {"id": 1}),
    ]
    rows, reasons = decoded(found, bodies)
    assert rows[:2] == [{"id": 1, "name": None}, {"id": 1 << 40, "name": "x"}]
    assert reasons[2] == "no --body-schema has the fingerprint 0000000000000000"
    assert "single-object header" in reasons[3]


def test_the_fingerprint_is_that_of_the_specification() -> None:
    """CRC-64-AVRO of `"int"` is 7275d51a3f395c8f."""
    from fastavro.schema import fingerprint

    assert bytes.fromhex(fingerprint('"int"', "CRC-64-AVRO"))[::-1].hex() == "7275d51a3f395c8f"


def test_the_header_of_confluent_and_ids() -> None:
    first, second = of(("id", "int")), of(("id", "long"), ("ok", ["null", "boolean"]))
    second["fields"][1]["default"] = None
    found = decoder_of("avro", schema_file(first, 7), schema_file(second, 9), header="confluent")

    def body(number: int, schema: Any, value: Any) -> bytes:
        return b"\0" + number.to_bytes(4, "big") + encoded(schema, value)

    rows, reasons = decoded(
        found,
        [
            body(7, first, {"id": 1}),
            body(9, second, {"id": 2, "ok": True}),
            body(8, first, {"id": 3}),
            encoded(first, {"id": 4}),
        ],
    )
    assert rows[:2] == [{"id": 1, "ok": None}, {"id": 2, "ok": True}]
    assert reasons[2] == "no --body-schema has the id 8"
    assert "Confluent's header" in reasons[3]
    one = decoder_of("avro", first, header="confluent")
    rows, _ = decoded(one, [body(12345, first, {"id": 5})])
    assert rows == [{"id": 5}]


_PLAIN: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "bytes": ("bytes", st.binary(max_size=5)),
    "string": ("string", st.text(st.characters(codec="utf-8"), max_size=5)),
    "decimal": (
        logical("bytes", "decimal", precision=9, scale=3),
        st.decimals(-999999, 999999, places=3),
    ),
    "date": (logical("int", "date"), st.dates()),
    "millis": (
        logical("long", "timestamp-millis"),
        st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
            lambda v: v.replace(microsecond=v.microsecond // 1000 * 1000, tzinfo=UTC)
        ),
    ),
    "time": (logical("long", "time-micros"), st.times()),
}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema and its values."""
    kind = draw(st.sampled_from(["plain", "plain", "list", "map", "record", "maybe"]))
    if depth > 2 or kind == "plain":
        return _PLAIN[draw(st.sampled_from(sorted(_PLAIN)))]
    if kind == "record":
        return draw(records(depth + 1))
    inner, values = draw(schemas(depth + 1))
    if kind == "list":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map":
        keys = st.text(st.characters(codec="utf-8"), max_size=3)
        return {"type": "map", "values": inner}, st.dictionaries(keys, values, max_size=3)
    return (inner if isinstance(inner, list) else ["null", inner]), st.none() | values


_count = iter(range(1 << 60))


@st.composite
def records(draw: st.DrawFn, depth: int = 0) -> tuple[Any, st.SearchStrategy[Any]]:
    names = draw(
        st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=4, unique=True)
    )
    fields = [(name, draw(schemas(depth))) for name in names]
    schema = of(*((name, kind) for name, (kind, _) in fields), name=f"R{next(_count)}")
    return schema, st.fixed_dictionaries({name: values for name, (_, values) in fields})


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    schema, values = data.draw(records())
    found = decoder_of("avro", schema)
    wanted = data.draw(st.lists(values, min_size=1, max_size=5))
    bodies = [encoded(schema, value) for value in wanted]
    rows, reasons = decoded(found, bodies)
    assert reasons == {}
    assert rows == wanted
    for body in bodies:
        avro_walk.check(body, read(json.dumps(schema), "s").parsed)


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_bodies_are_rows_or_reasons(data: st.DataObject) -> None:
    """Nothing else comes out of any bytes, and a body that was not decoded is kept whole."""
    schema, values = data.draw(records())
    raw = bytearray(encoded(schema, data.draw(values)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    decoded(decoder_of("avro", schema), [bytes(raw)])
