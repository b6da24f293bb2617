"""JSON bodies: which columns a JSON Schema makes, what fits, and why the others do not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrmq.tables.bodies import json_values, kinds
from pyrmq.tables.bodies.json_schema import read
from pyrmq.tables.bodies.kinds import Field, Kind, Many, Named, Plain, Record
from pyrmq.tables.bodies.misfit import Misfit
from pyrmq.tables.errors import TableError
from tests.support.thorough import examples
from tests.tables.bodies import decoded, decoder_of, reason


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_columns() -> None:
    schema = of(
        id={"type": "integer"},
        small={"type": "integer", "format": "int32"},
        price={"type": "number"},
        rate={"type": "number", "format": "float"},
        amount={"type": "string", "format": "decimal(10,2)"},
        name={"type": "string", "minLength": 3},
        day={"type": "string", "format": "date"},
        at={"type": "string", "format": "date-time"},
        raw={"type": "string", "contentEncoding": "base64"},
        paid={"type": "boolean"},
        lines={"type": "array", "items": of(sku={"type": "string"})},
        counts={"type": "object", "additionalProperties": {"type": "integer"}},
        either={"type": ["integer", "string"]},
        any={},
        maybe={"anyOf": [{"type": "null"}, {"type": "integer"}]},
        state={"enum": ["new", "paid"]},
        number={"type": ["integer", "number", "null"]},
    )
    found = decoder_of("json", schema).schema.field("value").type
    times = pa.timestamp("us", "UTC")
    line = pa.field("element", pa.struct([("sku", pa.string())]))
    assert {one.name: one.type for one in found} == {
        "id": pa.int64(), "small": pa.int32(), "price": pa.float64(), "rate": pa.float32(),
        "amount": pa.decimal128(10, 2), "name": pa.string(), "day": pa.date32(), "at": times,
        "raw": pa.binary(), "paid": pa.bool_(), "lines": pa.list_(line),
        "counts": pa.map_(pa.string(), pa.field("value", pa.int64())),
        "either": pa.string(), "any": pa.string(), "maybe": pa.int64(), "state": pa.string(),
        "number": pa.float64(),
    }  # fmt: skip


def test_references_and_all_of() -> None:
    schema = {
        "$defs": {
            "money": of(cents={"type": "integer"}),
            "base": {**of(id={"type": "integer"}), "required": ["id"]},
        },
        "allOf": [{"$ref": "#/$defs/base"}, of(price={"$ref": "#/$defs/money"})],
        "properties": {"tax": {"allOf": [{"$ref": "#/$defs/money"}]}},
    }
    found = decoder_of("json", schema)
    rows, reasons = decoded(found, [b'{"id":1,"price":{"cents":5},"tax":{"cents":1}}', b"{}"])
    assert rows[0] == {"id": 1, "price": {"cents": 5}, "tax": {"cents": 1}}
    assert reasons == {1: "id: a required field is missing or null"}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([], "is not a schema"),
        ({"type": "string"}, "must be an object with properties"),
        (of(), "must be an object with properties"),
        (of(a={"$ref": "#/$defs/no"}), 'does not have "#/$defs/no"'),
        (of(a={"$ref": "http://x/y"}), "put all schemas into one file"),
        (of(a={"$ref": "#"}), "a refers to a schema that it is in"),
        (of(a={"type": "array", "items": {"$ref": "#"}}), "no recursive types"),
        (of(a={"type": "money"}), 'a has the unknown type "money"'),
        (of(**{"a.b": {"type": "string"}}), "the field a.b cannot name a column"),
        (of(**{"a\n": {"type": "string"}}), "cannot name a column"),
        (of(Id={"type": "string"}, id={"type": "string"}), "the fields Id and id"),
        (of(a={"type": "number", "format": "decimal(39,0)"}), "a: decimal(39,0)"),
        (of(**{f"f{n}": {} for n in range(2001)}), "more than 2000 fields"),
        ({"type": "record", "name": "r", "fields": []}, "is an Avro schema"),
        ({**of(a={}), "required": 5}, "required of the schema is not a list"),
    ],
)
def test_a_schema_that_makes_no_table_is_an_error_that_names_the_field(
    schema: Any, said: str
) -> None:
    with pytest.raises(TableError) as raised:
        read(json.dumps(schema), "s.json")
    assert str(raised.value).startswith("s.json")
    assert said in str(raised.value)


def test_a_schema_that_is_no_json() -> None:
    for text in ("{", "[" * 100_000, '{"a":'):
        with pytest.raises(TableError, match="is not JSON"):
            read(text, "s.json")


def test_references_that_multiply_are_bounded() -> None:
    """Each name stands for two of the one before: a small file that would be a large tree."""
    defs: dict[str, Any] = {"d0": of(x={"type": "integer"})}
    for n in range(1, 29):
        inner = {"$ref": f"#/$defs/d{n - 1}"}
        defs[f"d{n}"] = of(a=inner, b=inner)
    with pytest.raises(TableError, match=r"too large|more than"):
        read(json.dumps({"$defs": defs, **of(r={"$ref": "#/$defs/d28"})}), "s.json")


@pytest.mark.parametrize("word", ["allOf", "anyOf"])
def test_schemas_that_are_in_themselves_by_a_list(word: str) -> None:
    loop = {"$ref": "#/$defs/a"}
    defs = {"a": {word: [loop, loop, {"type": "integer"}]}}
    with pytest.raises(TableError, match="refers to a schema that it is in"):
        read(json.dumps({"$defs": defs, **of(x=loop)}), "s.json")


SCHEMA = {
    **of(
        id={"type": "integer"},
        small={"type": "integer", "format": "int32"},
        rate={"type": "number", "format": "float"},
        amount={"type": "number", "format": "decimal(5,2)"},
        name={"type": "string"},
        day={"type": "string", "format": "date"},
        at={"type": "string", "format": "date-time"},
        raw={"type": "string", "format": "byte"},
        inner={
            **of(q={"type": "integer"}),
            "required": ["q"],
            "additionalProperties": False,
        },
        tags={"type": "array", "items": {"type": "string"}},
        counts={"type": "object", "additionalProperties": {"type": "integer"}},
        any={},
    ),
    "required": ["id"],
}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b"{", "the body is not JSON"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b'{"id":1} x', "the body is not JSON"),
        (b"{'id':1}", "the body is not JSON"),
        (b'{"id":NaN}', "the body is not JSON"),
        (b'{"id":1,"any":NaN}', "the body is not JSON"),
        (b'{"id":1,"any":[Infinity]}', "the body is not JSON"),
        (b'{"id":1,"unknown":-Infinity}', "the body is not JSON"),
        (b"[1]", "expected a JSON object, found a list"),
        (b"null", "expected a JSON object, found null"),
        (b"{}", "id: a required field is missing or null"),
        (b'{"id":null}', "id: a required field is missing or null"),
        (b'{"id":"1"}', "id: expected a whole number, found '1'"),
        (b'{"id":1.0}', "id: expected a whole number, found 1.0"),
        (b'{"id":true}', "id: expected a whole number, found true"),
        (b'{"id":9223372036854775808}', "id: expected a whole number of long"),
        (b'{"id":1' + b"0" * 4000 + b"}", "id: expected a whole number of long, found a number of"),
        (b'{"id":1' + b"0" * 5000 + b"}", "the body is not JSON"),
        (b'{"id":1,"small":2147483648}', "small: expected a whole number of int"),
        (b'{"id":1,"rate":1e39}', "rate: the number is too large for float"),
        (b'{"id":1,"amount":1.005}', "amount: '1.005' has more than 2 digits after the point"),
        (b'{"id":1,"amount":1000}', "amount: '1000' does not fit into decimal(5,2)"),
        (b'{"id":1,"amount":"x"}', "amount: expected a decimal number"),
        (b'{"id":1,"name":5}', "name: expected a text, found 5"),
        (b'{"id":1,"name":"\\ud800"}', "name: a text has half of a surrogate pair"),
        (b'{"id":1,"day":"2026-02-30"}', "day: expected a date such as"),
        (b'{"id":1,"at":"yesterday"}', "at: expected a time such as"),
        (b'{"id":1,"at":5}', "at: expected a text, found 5"),
        (b'{"id":1,"raw":"*"}', "raw: expected a text in Base64"),
        (b'{"id":1,"inner":{}}', "inner.q: a required field is missing or null"),
        (b'{"id":1,"inner":{"q":1,"z":2}}', "inner: the schema has no field 'z'"),
        (b'{"id":1,"inner":[]}', "inner: expected an object, found a list"),
        (b'{"id":1,"tags":["a",5]}', "tags.element: expected a text, found 5"),
        (b'{"id":1,"tags":{}}', "tags: expected a list, found an object"),
        (b'{"id":1,"counts":{"a":"b"}}', "counts.a: expected a whole number, found 'b'"),
        (b'{"id":1,"counts":[]}', "counts: expected an object, found a list"),
    ],
)
def test_why_a_body_does_not_fit(body: bytes, said: str) -> None:
    found = reason(decoder_of("json", SCHEMA), body)
    assert said in found
    assert len(found) <= 500
    assert found.isprintable()


def test_values() -> None:
    body = {
        "id": -(1 << 63), "small": 2147483647, "rate": 1.5, "amount": 999.99, "name": "é\n",
        "day": "2026-01-31", "at": "2026-01-31T12:00:00.123456+01:00", "raw": "AAE=",
        "inner": {"q": 1}, "tags": ["a", None, ""], "counts": {"a": 1, "b": None},
        "any": {"x": [1, "é"]}, "unknown": [[[]]],
    }  # fmt: skip
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    rows, reasons = decoded(decoder_of("json", SCHEMA), [text, b'{"id":1,"name":null}'])
    assert reasons == {}
    assert rows[0] == {
        "id": -(1 << 63), "small": 2147483647, "rate": 1.5, "amount": Decimal("999.99"),
        "name": "é\n", "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 11, 0, 0, 123456, UTC), "raw": b"\0\1", "inner": {"q": 1},
        "tags": ["a", None, ""], "counts": {"a": 1, "b": None}, "any": '{"x":[1,"é"]}',
    }  # fmt: skip
    assert rows[1] == {**dict.fromkeys(rows[0]), "id": 1}


def test_a_deep_body_does_not_fit_or_is_passed_over() -> None:
    found = decoder_of("json", SCHEMA)
    deep = b"[" * 1_000_000
    assert "not JSON" in reason(found, deep)
    assert reason(found, b'{"id":1,"unknown":' + deep + b"}")
    rows, _ = decoded(found, [b'{"id":1,"unknown":' + b"[" * 100 + b"]" * 100 + b"}"])
    assert rows[0] is not None
    assert rows[0]["id"] == 1


def test_a_small_body_that_would_fill_the_memory_does_not_fit() -> None:
    wide = of(**{f"f{n}": {"type": "integer"} for n in range(1000)})
    found = decoder_of("json", of(a={"type": "array", "items": wide}))
    body = b'{"a":[' + b"{}," * 1100 + b"{}]}"
    assert "more than 1000000 values" in reason(found, body)


def test_a_batch_of_large_bodies_comes_in_parts() -> None:
    wide = of(**{f"f{n}": {"type": "integer"} for n in range(1000)})
    found = decoder_of("json", of(a={"type": "array", "items": wide}))
    body = b'{"a":[' + b"{}," * 899 + b"{}]}"
    batch = pa.record_batch({"body": pa.array([body] * 20)})
    parts = [len(one.good) for one in found.decode(batch)]
    assert sum(parts) == 20
    assert len(parts) > 1


def test_the_header_of_confluent() -> None:
    found = decoder_of("json", SCHEMA, header="confluent")
    rows, reasons = decoded(found, [b'\0\0\0\0\x07{"id":1}', b'{"id":1}', b"\0\0\0"])
    assert rows[0] is not None
    assert rows[0]["id"] == 1
    assert set(reasons) == {1, 2}
    assert all("Confluent's header" in one for one in reasons.values())


# Round trips: values of a random kind, written as JSON, are the values of the columns.
_SAFE = st.text(st.characters(codec="utf-8"), max_size=5)
_NAMES = st.lists(
    st.text("abcdefghij", min_size=1, max_size=4), min_size=1, max_size=4, unique=True
)
_PLAIN: dict[str, st.SearchStrategy[tuple[Any, Any]]] = {
    "boolean": st.booleans().map(lambda v: (v, v)),
    "int": st.integers(-(1 << 31), (1 << 31) - 1).map(lambda v: (v, v)),
    "long": st.integers(-(1 << 63), (1 << 63) - 1).map(lambda v: (v, v)),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(lambda v: (v, v)),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda v: (v, v)),
    "string": _SAFE.map(lambda v: (v, v)),
    "decimal(9,3)": st.decimals(-999999, 999999, places=3).map(lambda v: (str(v), v)),
    "date": st.dates(date(1, 1, 1)).map(lambda v: (v.isoformat(), v)),
    "timestamp": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
        lambda v: ((v + timedelta(hours=1)).isoformat() + "+01:00", v.replace(tzinfo=UTC))
    ),
    "json": st.recursive(st.none() | _SAFE | st.integers(), lambda v: st.lists(v, max_size=2)).map(
        lambda v: (v, json.dumps(v, ensure_ascii=False, separators=(",", ":")))
    ),
}


@st.composite
def records(draw: st.DrawFn, depth: int = 0) -> Record:
    names = draw(_NAMES)
    return Record(tuple(Field(name, draw(_kinds(depth)), draw(st.booleans())) for name in names))


def _kinds(depth: int) -> st.SearchStrategy[Kind]:
    plain = st.sampled_from(sorted(_PLAIN)).map(Plain)
    if depth >= 2:
        return plain
    inner = _kinds(depth + 1)
    return st.one_of(plain, plain, inner.map(Many), inner.map(Named), records(depth + 1))


@st.composite
def _pair(draw: st.DrawFn, kind: Kind) -> tuple[Any, Any]:
    """A value as JSON has it, and as the column has it."""
    if isinstance(kind, Plain):
        return draw(_PLAIN[kind.name])
    if isinstance(kind, Many):
        pairs = draw(st.lists(_maybe(kind.item), max_size=3))
        return [a for a, _ in pairs], [b for _, b in pairs]
    if isinstance(kind, Named):
        found = draw(st.dictionaries(_SAFE, _maybe(kind.value), max_size=3))
        return {k: a for k, (a, _) in found.items()}, {k: b for k, (_, b) in found.items()}
    given, wanted = {}, {}
    for field in kind.fields:
        pair = draw(_pair(field.kind) if field.required else _maybe(field.kind))
        if field.required and pair[0] is None:  # JSON null as a value of the kind json
            pair = (1, "1") if field.kind == Plain("json") else pair
        wanted[field.name] = pair[1]
        if pair[0] is not None or draw(st.booleans()):
            given[field.name] = pair[0]
    return given, wanted


def _maybe(kind: Kind) -> st.SearchStrategy[tuple[Any, Any]]:
    found = st.one_of(st.just((None, None)), _pair(kind))
    return found.map(lambda pair: pair if pair[0] is not None else (None, None))


def _schema_of(kind: Kind) -> dict[str, Any]:
    if isinstance(kind, Many):
        return {"type": "array", "items": _schema_of(kind.item)}
    if isinstance(kind, Named):
        return {"type": "object", "additionalProperties": {**_schema_of(kind.value)} or True}
    if isinstance(kind, Record):
        fields = {one.name: _schema_of(one.kind) for one in kind.fields}
        return {**of(**fields), "required": [one.name for one in kind.fields if one.required]}
    number: dict[str, dict[str, Any]] = {
        "boolean": {"type": "boolean"},
        "int": {"type": "integer", "format": "int32"},
        "long": {"type": "integer"},
        "double": {"type": "number"},
        "float": {"type": "number", "format": "float"},
        "string": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "timestamp": {"type": "string", "format": "date-time"},
        "json": {"type": ["string", "boolean", "array"]},
    }
    return number.get(kind.name) or {"type": "string", "format": kind.name}


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    record = data.draw(records())
    assert read(json.dumps(_schema_of(record)), "s") == record
    pairs = data.draw(st.lists(_pair(record), min_size=1, max_size=5))
    bodies = [json.dumps(a, ensure_ascii=False, separators=(",", ":")).encode() for a, _ in pairs]
    rows, reasons = decoded(decoder_of("json", _schema_of(record)), bodies)
    assert reasons == {}
    assert rows == [b for _, b in pairs]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_bodies_are_read_as_python_reads_them(data: st.DataObject) -> None:
    """The engine and Python agree on which bodies fit, and on their values."""
    record = data.draw(records())
    body, _ = data.draw(_pair(record))
    raw = bytearray(json.dumps(body, separators=(",", ":")).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from(
                [b"", b"0", b"-", b'"', b"[", b"}", b"null", b"1e5", b".5", b"x", b"\xff"]
            )
        )
    text = bytes(raw)
    rows, _ = decoded(decoder_of("json", _schema_of(record)), [text])
    try:
        fields, _ = json_values.values(text, record)
    except Misfit:
        assert rows == [None] or _has_twins(text)
        return
    wanted = pa.array([fields], kinds.arrow_type(record)).to_pylist(maps_as_pydicts="strict")
    assert rows == wanted or _has_twins(text) or _has_json(record)


def _has_twins(text: bytes) -> bool:
    """Whether an object has a name twice: Python never sees the first value."""
    twins = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twins
        twins = twins or len(dict(found)) < len(found)
        return dict(found)

    try:
        json.loads(text, object_pairs_hook=pairs)
    except ValueError:
        return False
    return twins


def _has_json(kind: Kind) -> bool:
    """Whether there is a column of JSON text: the engine has it as it is written."""
    if isinstance(kind, Record):
        return any(_has_json(one.kind) for one in kind.fields)
    if isinstance(kind, Many):
        return _has_json(kind.item)
    return _has_json(kind.value) if isinstance(kind, Named) else kind.name == "json"
