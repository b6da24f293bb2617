"""Protobuf bodies: which columns a descriptor set makes, presence, hostile bodies."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrmq.tables.bodies import rows as parts_of_rows
from pyrmq.tables.errors import TableError
from tests.support.thorough import examples
from tests.tables.bodies import decoded, decoder_of, reason

F = descriptor_pb2.FieldDescriptorProto
TYPES = {
    "double": F.TYPE_DOUBLE, "float": F.TYPE_FLOAT, "int64": F.TYPE_INT64, "uint64": F.TYPE_UINT64,
    "int32": F.TYPE_INT32, "uint32": F.TYPE_UINT32, "bool": F.TYPE_BOOL, "string": F.TYPE_STRING,
    "bytes": F.TYPE_BYTES, "sint64": F.TYPE_SINT64, "fixed64": F.TYPE_FIXED64,
    "sfixed32": F.TYPE_SFIXED32,
}  # fmt: skip


def field(
    message: Any, name: str, kind: str, repeated: bool = False, optional: bool = False
) -> None:
    """Adds a field; kind is a scalar, `.pkg.Message` or `enum .pkg.Enum`."""
    one = message.field.add(name=name, number=len(message.field) + 1)
    one.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
    if kind in TYPES:
        one.type = TYPES[kind]
    elif kind.startswith("enum "):
        one.type, one.type_name = F.TYPE_ENUM, kind[5:]
    else:
        one.type, one.type_name = F.TYPE_MESSAGE, kind
    if optional:
        one.proto3_optional = True
        one.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def new_file(name: str = "orders.proto", syntax: str = "proto3") -> Any:
    return descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax=syntax)


def well_known() -> list[Any]:
    found = []
    for module in (struct_pb2, timestamp_pb2, wrappers_pb2):
        one = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(one)
        found.append(one)
    return found


def made(*files: Any) -> tuple[bytes, Any]:
    """A descriptor set, and the class of a message of its last file."""
    content = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    pool = descriptor_pool.DescriptorPool()
    for one in files:
        pool.Add(one)

    def message(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))

    return content, message


def shop() -> Any:
    file = new_file()
    known = well_known()
    file.dependency.extend(one.name for one in known)
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    line = file.message_type.add(name="Line")
    field(line, "sku", "string")
    field(line, "q", "int32", optional=True)
    file.message_type.add(name="Nothing")
    order = file.message_type.add(name="Order")
    for name, kind in (
        ("id", "int64"), ("small", "sfixed32"), ("u32", "uint32"), ("u64", "uint64"),
        ("price", "double"), ("rate", "float"), ("paid", "bool"), ("name", "string"),
        ("raw", "bytes"), ("state", "enum .shop.State"), ("line", ".shop.Line"),
        ("at", ".google.protobuf.Timestamp"), ("tree", ".google.protobuf.Struct"),
        ("wrapped", ".google.protobuf.Int64Value"), ("nothing", ".shop.Nothing"),
    ):  # fmt: skip
        field(order, name, kind)
    field(order, "maybe", "int64", optional=True)
    field(order, "lines", ".shop.Line", repeated=True)
    field(order, "tags", "string", repeated=True)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    field(entry, "key", "int32")
    field(entry, "value", ".shop.Line")
    field(order, "counts", ".shop.Order.CountsEntry", repeated=True)
    return made(*known, file)


def test_columns_and_values() -> None:
    content, message = shop()
    found = decoder_of("protobuf", content, message="shop.Order")
    types = {one.name: one.type for one in found.schema.field("value").type}
    assert (types["u32"], types["u64"]) == (pa.int64(), pa.decimal128(20, 0))
    assert (types["tree"], types["wrapped"], types["nothing"]) == (
        pa.string(), pa.int64(), pa.bool_(),
    )  # fmt: skip
    order = message("Order")(
        id=-5, small=-1, u32=(1 << 32) - 1, u64=(1 << 64) - 1, price=1.5, rate=0.5, paid=True,
        name="é", raw=b"\0\xff", state=1, maybe=0, tags=["a", ""],
    )  # fmt: skip
    order.line.sku = "x"
    order.at.FromJsonString("2026-01-31T12:00:00.123456789Z")
    order.tree.update({"a": [1, None, "é"]})
    order.wrapped.value = 0
    order.nothing.SetInParent()
    order.lines.add(sku="y", q=0)
    order.counts[-7].sku = "z"
    empty = message("Order")(id=1)
    rows, reasons = decoded(found, [order.SerializeToString(), empty.SerializeToString()])
    assert reasons == {}
    assert rows[0] == {
        "id": -5, "small": -1, "u32": (1 << 32) - 1, "u64": Decimal((1 << 64) - 1), "price": 1.5,
        "rate": 0.5, "paid": True, "name": "é", "raw": b"\0\xff", "state": "PAID",
        "line": {"sku": "x", "q": None}, "at": datetime(2026, 1, 31, 12, 0, 0, 123456, UTC),
        "tree": '{"a":[1.0,null,"é"]}', "wrapped": 0, "nothing": True, "maybe": 0,
        "lines": [{"sku": "y", "q": 0}], "tags": ["a", ""],
        "counts": {"-7": {"sku": "z", "q": None}},
    }  # fmt: skip
    assert rows[1] == {
        "id": 1, "small": 0, "u32": 0, "u64": 0, "price": 0.0, "rate": 0.0, "paid": False,
        "name": "", "raw": b"", "state": "NEW", "line": None, "at": None, "tree": None,
        "wrapped": None, "nothing": None, "maybe": None, "lines": [], "tags": [], "counts": {},
    }  # fmt: skip


def test_an_unknown_number_of_an_enum_is_its_text() -> None:
    content, message = shop()
    found = decoder_of("protobuf", content, message="shop.Order")
    rows, _ = decoded(found, [message("Order")(id=1, state=77).SerializeToString()])
    assert rows[0] is not None
    assert rows[0]["state"] == "77"


def test_the_only_message_need_not_be_named() -> None:
    file = new_file()
    field(file.message_type.add(name="Order"), "id", "int64")
    content, message = made(file)
    found = decoder_of("protobuf", content)
    rows, _ = decoded(found, [message("Order")(id=3).SerializeToString()])
    assert rows == [{"id": 3}]


def test_descriptors_that_make_no_table() -> None:
    content, _ = shop()
    for name, said in (
        ("", "has 3 messages"),
        ("shop.No", "has no message shop.No (--message is one of: shop.Line"),
        ("shop.Nothing", "the schema has no fields"),
    ):
        with pytest.raises(TableError) as raised:
            decoder_of("protobuf", content, message=name)
        assert said in str(raised.value)
    for wrong in (b"{}", b"\xff" * 20):
        with pytest.raises(TableError, match="protoc --include_imports"):
            decoder_of("protobuf", wrong)
    alone = descriptor_pb2.FileDescriptorSet.FromString(content).file[-1]
    without = descriptor_pb2.FileDescriptorSet(file=[alone]).SerializeToString()
    with pytest.raises(TableError, match="protoc --include_imports"):
        decoder_of("protobuf", without, message="shop.Order")


def test_a_recursive_message_is_an_error_that_names_the_field() -> None:
    file = new_file()
    node = file.message_type.add(name="Node")
    field(node, "id", "int64")
    field(node, "next", ".shop.Node")
    content, _ = made(file)
    with pytest.raises(TableError, match=r"next has the type shop\.Node that it is in"):
        decoder_of("protobuf", content)


def nested(depth: int) -> bytes:
    """An unknown field 100 with groups within each other."""
    return b"\xa3\x06" * depth + b"\xa4\x06" * depth


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\xff", "not of the message"),
        (b"\x08", "not of the message"),
        (b"\x42\xff\xff\xff\xff\x07abc", "not of the message"),
        (b"\x42\x01\xff", "not of the message"),
        (nested(100_000), "not of the message"),
        (b"\xa0\x06\x01", "no field that the message knows"),
        (b"\x62\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "not of the message"),
        (
            b"\x62\x0b\x08\x80\x80\x80\x80\x80\x80\x80\x80\x7f\x10\x00"[:2] + b"",
            "not of the message",
        ),
    ],
)
def test_why_a_body_does_not_fit(body: bytes, said: str) -> None:
    content, _ = shop()
    assert said in reason(decoder_of("protobuf", content, message="shop.Order"), body)


def test_a_time_that_no_calendar_has_does_not_fit() -> None:
    content, message = shop()
    order = message("Order")(id=1)
    order.at.seconds = 1 << 60
    found = decoder_of("protobuf", content, message="shop.Order")
    assert "at: the time is not between" in reason(found, order.SerializeToString())


def test_missing_required_fields_of_proto2() -> None:
    file = new_file(syntax="proto2")
    order = file.message_type.add(name="Order")
    field(order, "id", "int64")
    field(order, "name", "string")
    order.field[0].label = F.LABEL_REQUIRED
    content, message = made(file)
    found = decoder_of("protobuf", content)
    said = reason(found, message("Order")(name="x").SerializePartialToString())
    assert "id" in said
    rows, _ = decoded(found, [message("Order")(id=1).SerializeToString()])
    assert rows == [{"id": 1, "name": None}]


def test_a_small_body_that_would_fill_the_memory_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = new_file()
    wide = file.message_type.add(name="Wide")
    for number in range(1000):
        field(wide, f"f{number}", "int32")
    order = file.message_type.add(name="Order")
    field(order, "a", ".shop.Wide", repeated=True)
    content, _ = made(file)
    found = decoder_of("protobuf", content, message="shop.Order")
    assert "more than 1000000 values" in reason(found, b"\x0a\x00" * 1100)
    monkeypatch.setattr(parts_of_rows, "PART_VALUES", 20_000)
    batch = pa.record_batch({"body": pa.array([b"\x0a\x00" * 10] * 10)})
    parts = [len(one.good) for one in found.decode(batch)]
    assert sum(parts) == 10
    assert len(parts) > 1


def test_the_header_of_confluent() -> None:
    content, message = shop()
    found = decoder_of("protobuf", content, message="shop.Order", header="confluent")
    body = message("Order")(id=9).SerializeToString()
    head = b"\0\0\0\0\5"
    bodies = [
        head + b"\0" + body,
        head + b"\2\4" + body,
        head + b"\4\2\0" + body,
        body,
        head,
        head + b"\x80" * 9,
        head + b"\1" + body,
    ]
    rows, reasons = decoded(found, bodies)
    assert [row["id"] for row in rows if row is not None] == [9, 9, 9]
    assert set(reasons) == {3, 4, 5, 6}


_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "sint64": st.integers(-(1 << 63), (1 << 63) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(st.characters(codec="utf-8"), max_size=5),
    "bytes": st.binary(max_size=5),
}


@st.composite
def messages(draw: st.DrawFn) -> tuple[Any, list[tuple[str, str, str]]]:
    """A file with one message, and its fields: name, kind, how often."""
    file = new_file()
    order = file.message_type.add(name="Order")
    fields = []
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(sorted(_SCALARS)))
        how = draw(st.sampled_from(["one", "optional", "repeated"]))
        field(order, f"f{number}", kind, how == "repeated", how == "optional")
        fields.append((f"f{number}", kind, how))
    return file, fields


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    file, fields = data.draw(messages())
    content, message = made(file)
    found = decoder_of("protobuf", content)
    wanted, bodies = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        row = {}
        for name, kind, how in fields:
            value = _SCALARS[kind]
            if how != "one":
                value = st.lists(value, max_size=3) if how == "repeated" else st.none() | value
            row[name] = data.draw(value)
        body = message("Order")(**row).SerializeToString()
        wanted.append(row)
        bodies.append(body)
    rows, reasons = decoded(found, bodies)
    assert reasons == {}
    assert rows == wanted


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_bodies_are_rows_or_reasons(data: st.DataObject) -> None:
    content, message = shop()
    order = message("Order")(id=7, name="x", tags=["a"])
    order.lines.add(sku="y")
    order.counts[1].sku = "z"
    json_format.ParseDict({"a": 1}, order.tree)
    raw = bytearray(order.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    decoded(decoder_of("protobuf", content, message="shop.Order"), [bytes(raw)])
