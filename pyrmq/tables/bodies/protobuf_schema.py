"""Reads a descriptor set of Protobuf as the columns of bodies, and as what takes the values out of
a message.

`protoc --include_imports --descriptor_set_out=FILE` makes such a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables.bodies import kinds, misfit
from pyrmq.tables.bodies.json_values import MAX_VALUES
from pyrmq.tables.bodies.kinds import Field, Kind, Many, Named, Plain, Record
from pyrmq.tables.bodies.misfit import Misfit
from pyrmq.tables.errors import TableError, need

MAKE_IT = "protoc --include_imports --descriptor_set_out=FILE makes one"
_MAX_VISITS = 2 * kinds.MAX_FIELDS
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_JSON = {f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue")}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799


class Room:
    """How many values a body may still have."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def take(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise Misfit((), f"the body has more than {MAX_VALUES} values")

    def taken(self) -> int:
        """How many it has."""
        return MAX_VALUES - self._left


Get = Callable[[Any, Room], Any]
"""The value of a column, of a value of Protobuf."""


@dataclass(frozen=True)
class Protobuf:
    """A message type that was read."""

    record: Record
    make: Any
    """The class of the message."""
    get: Get


def read(content: bytes, message: str, what: str) -> Protobuf:
    """The message type of a descriptor set. TableError says what is wrong."""
    descriptor_pb2, descriptor_pool, message_factory = (
        need(f"google.protobuf.{one}", "bodies in Protobuf")
        for one in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content)
        if not files.file:
            raise TableError(f"{what} has no files", MAKE_IT)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        for file in files.file:
            pool.FindFileByName(file.name)
    except TableError:
        raise
    except Exception as error:  # of bytes that are anything
        raise TableError(
            f"{what} is not a descriptor set of Protobuf, or files are missing in it: "
            f"{escape(error)[:300]}",
            MAKE_IT,
        ) from None
    last = files.file[-1]
    name = message or _only(last, what)
    try:
        found = pool.FindMessageTypeByName(name)
    except KeyError:
        space = f"{last.package}." if last.package else ""
        names = ", ".join(space + one.name for one in last.message_type[:20])
        raise TableError(
            f"{what} has no message {escape(name)}", f"--message is one of: {escape(names)}"
        ) from None
    reader = _Reader(what)
    record, get = reader.record(found, (), ())
    return Protobuf(kinds.check(record, what), message_factory.GetMessageClass(found), get)


def _only(file: Any, what: str) -> str:
    names = [one.name for one in file.message_type]
    if len(names) != 1:
        raise TableError(
            f"{what} has {len(names)} messages", "say with --message which one bodies are"
        )
    return f"{file.package}.{names[0]}" if file.package else names[0]


class _Reader:
    def __init__(self, what: str) -> None:
        self._what = what
        self._visits = 0

    def record(
        self, message: Any, path: tuple[str, ...], inside: tuple[str, ...]
    ) -> tuple[Record, Get]:
        """The struct of a message. `inside`: the messages around it."""
        if message.full_name in inside:
            raise TableError(
                f"{self._what}: {kinds.shown(path)} has the type {escape(message.full_name)} that "
                "it is in, and a table has no recursive types",
                "make a descriptor set of a .proto file without this field: it is then passed over",
            )
        inside = (*inside, message.full_name)
        fields, gets = [], []
        for one in message.fields:
            kind, get = self._field(one, (*path, one.name), inside)
            fields.append(Field(one.name, kind))
            gets.append((one.name, one.has_presence, get))
        return Record(tuple(fields)), _struct(gets)

    def _field(
        self, field: Any, path: tuple[str, ...], inside: tuple[str, ...]
    ) -> tuple[Kind, Get]:
        self._visits += 1
        if self._visits > _MAX_VISITS or len(path) > kinds.MAX_DEPTH:
            raise TableError(
                f"{self._what}: the message is too large at {kinds.shown(path[:4])}",
                f"a table has at most {kinds.MAX_FIELDS} fields, {kinds.MAX_DEPTH} deep",
            )
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            key, value = message.fields_by_name["key"], message.fields_by_name["value"]
            kind, get = self._single(value, (*path, "value"), inside)
            return Named(kind), _map(get, key.cpp_type == key.CPPTYPE_BOOL)
        kind, get = self._single(field, path, inside)
        return (Many(kind), _list(get)) if field.is_repeated else (kind, get)

    def _single(
        self, field: Any, path: tuple[str, ...], inside: tuple[str, ...]
    ) -> tuple[Kind, Get]:
        """One value of a field."""
        message = field.message_type
        if message is None:
            return self._scalar(field)
        name = message.full_name
        if name in _WRAPPERS:
            kind, get = self._scalar(message.fields_by_name["value"])
            return kind, lambda value, room: get(value.value, room)
        if name == "google.protobuf.Timestamp":
            return Plain("timestamp"), lambda value, room: _moment(value, path)
        if name in _JSON:
            return Plain("json"), _json
        if not message.fields:
            return Plain("boolean"), lambda value, room: True
        return self.record(message, path, inside)

    def _scalar(self, field: Any) -> tuple[Kind, Get]:
        if field.type == field.TYPE_BYTES:
            return Plain("binary"), _same
        if field.cpp_type == field.CPPTYPE_ENUM:
            names = {one.number: one.name for one in reversed(field.enum_type.values)}
            return Plain("string"), lambda value, room: names.get(value) or str(value)
        name = {
            field.CPPTYPE_INT32: "int",
            field.CPPTYPE_INT64: "long",
            field.CPPTYPE_UINT32: "long",
            field.CPPTYPE_UINT64: "decimal(20,0)",
            field.CPPTYPE_DOUBLE: "double",
            field.CPPTYPE_FLOAT: "float",
            field.CPPTYPE_BOOL: "boolean",
            field.CPPTYPE_STRING: "string",
        }[field.cpp_type]
        return Plain(name), _same


def _same(value: Any, room: Room) -> Any:
    return value


def _struct(gets: list[tuple[str, bool, Get]]) -> Get:
    def struct(message: Any, room: Room) -> dict[str, Any]:
        room.take(len(gets))
        out = {}
        for name, optional, get in gets:
            there = not optional or message.HasField(name)
            out[name] = get(getattr(message, name), room) if there else None
        return out

    return struct


def _list(get: Get) -> Get:
    def items(values: Any, room: Room) -> list[Any]:
        room.take(len(values))
        return list(values) if get is _same else [get(value, room) for value in values]

    return items


def _map(get: Get, boolean: bool) -> Get:
    def pairs(values: Any, room: Room) -> list[tuple[str, Any]]:
        room.take(len(values))
        text = (lambda key: str(key).lower()) if boolean else str
        return [(text(key), get(values[key], room)) for key in values]

    return pairs


def _moment(value: Any, path: tuple[str, ...]) -> int:
    """Microseconds since 1970."""
    seconds, nanos = value.seconds, value.nanos
    if not (_FIRST_SECOND <= seconds <= _LAST_SECOND and 0 <= nanos < 1_000_000_000):
        raise Misfit(path, "the time is not between the years 1 and 9999")
    return int(seconds * 1_000_000 + nanos // 1000)


def _json(value: Any, room: Room) -> str:
    json_format = need("google.protobuf.json_format", "bodies in Protobuf")
    try:
        found = json_format.MessageToDict(value)
    except Exception as error:  # such as a Value with nothing in it, or NaN
        raise Misfit(
            (), f"a value of google.protobuf.Struct is not JSON: {misfit.brief(error)}"
        ) from None
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))
