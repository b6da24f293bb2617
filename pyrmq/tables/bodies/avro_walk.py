"""Walks Avro schemas and bodies without fastavro: which schemas let a small body claim much, and
how many values a body has before they become objects."""

from __future__ import annotations

from typing import Any

from pyrmq.tables.bodies.json_values import MAX_VALUES
from pyrmq.tables.bodies.misfit import Misfit

MAX_DEPTH = 100
"""Records within each other in a body of a recursive schema: fastavro has no bound of its own."""

_FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def _children(schema: Any) -> list[Any]:
    """Schemas in a schema, as fastavro.parse_schema returns it."""
    if isinstance(schema, list):
        return schema
    if not isinstance(schema, dict):
        return []
    if isinstance(schema["type"], (dict, list)):
        return [schema["type"]]
    if schema["type"] in ("record", "error"):
        return [field["type"] for field in schema["fields"]]
    return [schema[word] for word in ("items", "values") if word in schema]


def named(schema: Any) -> dict[str, Any]:
    """The named types of a schema."""
    found: dict[str, Any] = {}
    todo = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, dict) and "name" in one:
            found[one["name"]] = one
        todo += _children(one)
    return found


def is_recursive(schema: Any) -> bool:
    """Whether a type is in itself."""
    known = named(schema)

    def uses(one: Any) -> set[str]:
        if isinstance(one, str):
            return {one} & known.keys()
        if isinstance(one, dict) and "name" in one:
            return {one["name"]}
        return set().union(*(uses(inner) for inner in _children(one)))

    edges = {
        name: set().union(*(uses(inner) for inner in _children(one))) for name, one in known.items()
    }
    while leaves := [name for name, to in edges.items() if not to]:
        for name in leaves:
            del edges[name]
        for to in edges.values():
            to.difference_update(leaves)
    return bool(edges)


def has_empty_items(schema: Any) -> bool:
    """Whether a list may have values that take no bytes."""
    known = named(schema)
    sized: set[str] = set()

    def takes_bytes(one: Any) -> bool:
        if isinstance(one, str):
            return one in sized if one in known else one != "null"
        if isinstance(one, list):
            return True
        if isinstance(one["type"], (dict, list)):
            return takes_bytes(one["type"])
        if one["type"] in ("record", "error"):
            return one["name"] in sized
        return bool(one["type"] != "null" and one.get("size") != 0)

    while True:  # a record takes bytes if one of its fields does
        more = {
            name
            for name, one in known.items()
            if name not in sized
            and (
                any(takes_bytes(inner) for inner in _children(one))
                if one["type"] in ("record", "error")
                else takes_bytes(one)
            )
        }
        if not more:
            break
        sized |= more
    todo = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, dict) and one["type"] == "array" and not takes_bytes(one["items"]):
            return True
        todo += _children(one)
    return False


def check(body: bytes, schema: Any) -> None:
    """Raises Misfit if the body ends early, or has more than MAX_VALUES values or MAX_DEPTH records
    within each other. `schema` is as fastavro.parse_schema returns it."""
    _Walk(body, named(schema)).value(schema)


class _Walk:
    def __init__(self, body: bytes, known: dict[str, Any]) -> None:
        self._body = body
        self._at = 0
        self._left = MAX_VALUES
        self._known = known
        self._depth = 0

    def value(self, schema: Any) -> None:
        self._left -= 1
        if self._left < 0:
            raise Misfit((), f"the body has more than {MAX_VALUES} values")
        if isinstance(schema, list):
            index = self._long()
            if not 0 <= index < len(schema):
                raise Misfit((), f"the body has type {index} of a union of {len(schema)}")
            return self.value(schema[index])
        of = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(of, (dict, list)):
            return self.value(of)
        if of in _FIXED:
            return self._skip(_FIXED[of])
        if of in ("int", "long", "enum"):
            self._long()
        elif of in ("bytes", "string"):
            self._skip(self._long())
        elif of == "fixed":
            self._skip(schema["size"])
        elif of in ("record", "error"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise Misfit((), f"the body has more than {MAX_DEPTH} records within each other")
            for field in schema["fields"]:
                self.value(field["type"])
            self._depth -= 1
        elif of in ("array", "map"):
            self._blocks(of, schema)
        else:
            self.value(self._known[of])
        return None

    def _blocks(self, of: str, schema: Any) -> None:
        while count := self._long():
            if count < 0:
                self._long()
                count = -count
            for _ in range(count):
                if of == "map":
                    self._skip(self._long())
                self.value(schema["items"] if of == "array" else schema["values"])

    def _skip(self, size: int) -> None:
        if not 0 <= size <= len(self._body) - self._at:
            raise Misfit((), "the body ends before its last field")
        self._at += size

    def _long(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            if self._at >= len(self._body):
                raise Misfit((), "the body ends before its last field")
            byte = self._body[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise Misfit((), "a number of the body is longer than ten bytes")
