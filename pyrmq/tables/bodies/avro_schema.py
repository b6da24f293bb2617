"""Reads an Avro schema as the columns of bodies, and as what fastavro decodes with.

Logical types are taken out of what fastavro gets: it would make an object of each value, without a
bound on the digits of a decimal. The columns have them, and `Fix` says which values change.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables.bodies import avro_walk, kinds
from pyrmq.tables.bodies.kinds import Field, Kind, Many, Named, Plain, Record
from pyrmq.tables.bodies.misfit import Misfit
from pyrmq.tables.errors import TableError, need

Fix = Callable[[Any], Any]
"""Makes of what fastavro read what Arrow takes."""

_PLAIN = {"boolean", "int", "long", "float", "double", "bytes", "string"}
_NUMBERS = ("int", "long", "float", "double")
_LOGICAL = {
    ("int", "date"): "date",
    ("int", "time-millis"): "time",
    ("long", "time-micros"): "time",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_DAY = 86_400_000_000
_EXACT = Context(prec=60)


@dataclass(frozen=True)
class Avro:
    """A schema that was read."""

    what: str
    schema: dict[str, Any]
    parsed: Any
    """What fastavro decodes with, without logical types."""
    recursive: bool
    """A type is in itself: how deep a body is, only the body says."""
    fingerprint: bytes
    """As the single-object encoding has it: CRC-64-AVRO, little-endian."""

    def columns(self) -> tuple[Record, Fix | None]:
        """The columns, and what changes the values. TableError if a table cannot have them."""
        try:
            record, fix = _Reader(self.what).kind(self.schema, (), (), "")
        except (KeyError, TypeError, AttributeError) as error:  # fastavro does not look at all
            raise TableError(
                f"{self.what} is not an Avro schema: {escape(error)[:300]} is missing or wrong"
            ) from None
        assert isinstance(record, Record)
        return kinds.check(record, self.what), fix


def read(text: str, what: str) -> Avro:
    """A schema's text. TableError says what is wrong; `what` names the schema."""
    fastavro = need("fastavro", "bodies in Avro")
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    try:
        schema = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise TableError(
                f"{what}: the schema of a body must be a record",
                'expected {"type": "record", "name": …, "fields": […]}',
            )
        fastavro.parse_schema(schema)
        canonical = to_parsing_canonical_form(schema)
        mark = bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
        parsed = fastavro.parse_schema(_bare(schema))
        recursive = avro_walk.is_recursive(parsed)
    except RecursionError:
        raise TableError(f"{what}: the types are too deep") from None
    except TableError:
        raise
    except Exception as error:  # fastavro raises many kinds for what is no schema
        raise TableError(f"{what} is not an Avro schema: {escape(error)[:300]}") from None
    if avro_walk.has_empty_items(parsed):
        raise TableError(
            f"{what} has a list whose values take no bytes: a body of ten bytes could claim "
            "any number of them",
            "leave this field out of the producer's schema",
        )
    return Avro(what, schema, parsed, recursive, mark)


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for name, value in schema.items():
        if name not in ("logicalType", "precision", "scale"):
            out[name] = value if name in ("default", "symbols", "doc") else _bare(value)
    return out


class _Reader:
    def __init__(self, what: str) -> None:
        self._what = what
        self._known: dict[str, tuple[dict[str, Any], str]] = {}
        self._visits = 0

    def kind(
        self, schema: Any, path: tuple[str, ...], inside: tuple[str, ...], space: str
    ) -> tuple[Kind, Fix | None]:
        """The kind and what changes its values. `inside`: the named types around; `space`: the
        namespace."""
        self._visits += 1
        if self._visits > 2 * kinds.MAX_FIELDS or len(path) > kinds.MAX_DEPTH:
            raise TableError(
                f"{self._what}: the schema is too large at {kinds.shown(path[:4])}",
                f"a table has at most {kinds.MAX_FIELDS} fields, {kinds.MAX_DEPTH} deep",
            )
        if isinstance(schema, list):
            return self._union(schema, path, inside, space)
        if isinstance(schema, str):
            if schema in _PLAIN:
                return self._plain({"type": schema}, path)
            name = schema if "." in schema or not space else f"{space}.{schema}"
            if name not in self._known and schema in self._known:
                name = schema
            if name not in self._known:
                raise self._no_column(path, f"the type {escape(schema[:80])}")
            found, space = self._known[name]
            return self._named(found, name, path, inside, space)
        of = schema["type"]
        if isinstance(of, (dict, list)):
            return self.kind(of, path, inside, space)
        if of == "array":
            item, fix = self.kind(schema["items"], (*path, "element"), inside, space)
            return Many(item), (lambda v, fix=fix: [_some(fix, x) for x in v]) if fix else None
        if of == "map":
            value, fix = self.kind(schema["values"], (*path, "value"), inside, space)
            if fix is None:
                return Named(value), None
            return Named(value), lambda v, fix=fix: {k: _some(fix, x) for k, x in v.items()}
        if of in ("record", "error", "enum", "fixed"):
            name, space = _full_name(schema, space)
            self._known[name] = schema, space
            return self._named(schema, name, path, inside, space)
        if of in _PLAIN:
            return self._plain(schema, path)
        return self.kind(of, path, inside, space)

    def _named(
        self,
        schema: dict[str, Any],
        name: str,
        path: tuple[str, ...],
        inside: tuple[str, ...],
        space: str,
    ) -> tuple[Kind, Fix | None]:
        if schema["type"] == "enum":
            return Plain("string"), None
        if schema["type"] == "fixed":
            if schema["size"] < 1:
                raise self._no_column(path, "bytes of length 0")
            if schema.get("logicalType") == "decimal":
                return self._decimal(schema, path)
            return Plain("binary"), None
        if name in inside:
            raise TableError(
                f"{self._what}: {kinds.shown(path)} has the type {escape(name)} that it is in, and "
                "a table has no recursive types",
                "give a last --body-schema that leaves this field out",
            )
        fields, fixes = [], []
        for one in schema["fields"]:
            kind, fix = self.kind(one["type"], (*path, one["name"]), (*inside, name), space)
            fields.append(Field(one["name"], kind))
            if fix is not None:
                fixes.append((one["name"], fix))
        return Record(tuple(fields)), _fix_fields(fixes) if fixes else None

    def _union(
        self, schema: list[Any], path: tuple[str, ...], inside: tuple[str, ...], space: str
    ) -> tuple[Kind, Fix | None]:
        rest = [one for one in schema if one != "null"]
        if len(rest) == 1:
            return self.kind(rest[0], path, inside, space)
        if rest and all(one in ("int", "long") for one in rest):
            return Plain("long"), None
        if rest and all(one in ("float", "double") for one in rest):
            return Plain("double"), None
        raise TableError(
            f"{self._what}: {kinds.shown(path)} is a union of several types, and a column has one",
            "give a last --body-schema that leaves this field out, or has one type and null",
        )

    def _plain(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[Kind, Fix | None]:
        of, logical = schema["type"], schema.get("logicalType")
        if of == "bytes" and logical == "decimal":
            return self._decimal(schema, path)
        name = _LOGICAL.get((of, logical)) if isinstance(logical, str) else None
        if name is None:
            return Plain("binary" if of == "bytes" else of), None
        factor = 1000 if logical and logical.endswith("-millis") else 1
        if name == "time":
            return Plain(name), lambda v: _time_of_day(v * factor, path)
        return Plain(name), (lambda v: _moment(v * factor, path)) if factor > 1 else None

    def _decimal(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[Kind, Fix | None]:
        digits, scale = schema.get("precision"), schema.get("scale", 0)
        where = f"{self._what}: {kinds.shown(path)}"
        if not isinstance(digits, int) or not isinstance(scale, int):
            raise TableError(f"{where} is a decimal without a precision")
        kind = kinds.decimal(digits, scale, where)
        return kind, lambda raw: decimal_of(raw, digits, scale, path)

    def _no_column(self, path: tuple[str, ...], what: str) -> TableError:
        return TableError(
            f"{self._what}: {kinds.shown(path)} has {what}, which no column has",
            "give a last --body-schema that leaves this field out",
        )


def decimal_of(raw: bytes, digits: int, scale: int, path: tuple[str, ...]) -> Decimal:
    """A decimal of its unscaled value, two's complement, big-endian."""
    number = int.from_bytes(raw, "big", signed=True) if len(raw) <= 32 else 10**38
    if abs(number) >= 10**digits:
        raise Misfit(path, f"the number does not fit into decimal({digits},{scale})")
    return Decimal(number).scaleb(-scale, _EXACT)


def _time_of_day(micros: int, path: tuple[str, ...]) -> int:
    if not 0 <= micros < _DAY:
        raise Misfit(path, "expected a time of day, from 0 to before 24 hours")
    return micros


def _moment(micros: int, path: tuple[str, ...]) -> int:
    if not -(1 << 63) <= micros < 1 << 63:
        raise Misfit(path, "the time is too far away for microseconds since 1970")
    return micros


def _some(fix: Fix, value: Any) -> Any:
    return None if value is None else fix(value)


def _fix_fields(fixes: list[tuple[str, Fix]]) -> Fix:
    def fix_fields(found: dict[str, Any]) -> dict[str, Any]:
        for name, fix in fixes:
            value = found[name]
            if value is not None:
                found[name] = fix(value)
        return found

    return fix_fields


def _full_name(schema: dict[str, Any], space: str) -> tuple[str, str]:
    """Full name and namespace of a named type."""
    name = schema["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    space = schema.get("namespace", space)
    return (f"{space}.{name}" if space else name), space
