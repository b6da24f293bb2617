"""Reads a JSON Schema (2020-12 and earlier drafts, OpenAPI's formats) as the columns of JSON
bodies.

Keywords that only restrict values, such as `minimum` and `pattern`, make no columns and are not
checked. `required`, the types and `additionalProperties: false` are.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pyrmq.escape import escape
from pyrmq.tables.bodies import kinds
from pyrmq.tables.bodies.kinds import Field, Kind, Many, Named, Plain, Record
from pyrmq.tables.errors import TableError

JSON = Plain("json")
"""What has no type of its own in a table: the value as JSON text."""
_TEXTS = {
    "date": "date",
    "date-time": "timestamp",
    "local-date-time": "timestamp_ntz",
    "byte": "binary",
}
_WHOLE = {"int32": "int", "int64": "long"}
_NUMBERS = {"float": "float", "double": "double", "int32": "int", "int64": "long"}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_MAX_VISITS = 4 * kinds.MAX_FIELDS
"""Schemas that are looked at: references may name one many times over."""


def read(text: str, what: str) -> Record:
    """The columns of a schema's text. TableError says what is wrong; `what` names the schema."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{what} is not JSON: {escape(error)}") from None
    if isinstance(schema, dict) and schema.get("type") == "record":
        raise TableError(f"{what} is an Avro schema", "expected a JSON Schema, or --body avro")
    kind, _ = _Reader(schema, what).kind(schema, (), ())
    if not isinstance(kind, Record):
        raise TableError(
            f"{what}: the schema of a body must be an object with properties",
            'expected {"type": "object", "properties": {…}}',
        )
    return kinds.check(kind, what)


class _Reader:
    def __init__(self, root: Any, what: str) -> None:
        self._root = root
        self._what = what
        self._visits = 0

    def kind(
        self, schema: Any, path: tuple[str, ...], open_refs: tuple[str, ...]
    ) -> tuple[Kind, bool]:
        """The kind, and whether null is allowed."""
        self._count(path)
        if schema is True or schema == {}:
            return JSON, True
        if not isinstance(schema, dict):
            raise TableError(f"{self._what}: {self._at(path)} is not a schema: {_brief(schema)}")
        if "$ref" in schema:
            return self._referred(schema["$ref"], path, open_refs)
        if "allOf" in schema:
            schema = self._merged(schema, path)
        for word in ("anyOf", "oneOf"):
            if word in schema and "properties" not in schema:
                return self._one_of(self._list(schema, word, path), path, open_refs)
        names, nullable = self._types(schema, path)
        nullable = nullable or schema.get("nullable") is True
        if len(names) != 1:
            return (Plain("double") if names == {"integer", "number"} else JSON), nullable
        return self._typed(names.pop(), schema, path, open_refs), nullable

    def _count(self, path: tuple[str, ...]) -> None:
        self._visits += 1
        if self._visits > _MAX_VISITS or len(path) > kinds.MAX_DEPTH + 2:
            raise TableError(
                f"{self._what}: the schema is too large at {self._at(path[:4])}",
                f"a table has at most {kinds.MAX_FIELDS} fields, {kinds.MAX_DEPTH} deep",
            )

    def _typed(
        self, name: str, schema: dict[str, Any], path: tuple[str, ...], open_refs: tuple[str, ...]
    ) -> Kind:
        form = schema.get("format")
        form = form if isinstance(form, str) else ""
        digits = _DECIMAL.fullmatch(form)
        if digits and name in ("string", "number", "integer"):
            where = f"{self._what}: {self._at(path)}"
            return kinds.decimal(int(digits[1]), int(digits[2]), where)
        if name == "object":
            return self._object(schema, path, open_refs)
        if name == "array":
            item = schema.get("items", True)
            if isinstance(item, list) or "prefixItems" in schema:  # a tuple of several types
                return JSON
            kind, _ = self.kind(item, (*path, "element"), open_refs)
            return Many(kind)
        if name == "string":
            if schema.get("contentEncoding") == "base64":
                return Plain("binary")
            return Plain(_TEXTS.get(form, "string"))
        if name == "integer":
            return Plain(_WHOLE.get(form, "long"))
        if name == "number":
            return Plain(_NUMBERS.get(form, "double"))
        return Plain("boolean") if name == "boolean" else JSON

    def _object(
        self, schema: dict[str, Any], path: tuple[str, ...], open_refs: tuple[str, ...]
    ) -> Kind:
        properties = schema.get("properties", {})
        if not isinstance(properties, dict):
            raise TableError(f"{self._what}: properties of {self._at(path)} are not an object")
        rest = schema.get("additionalProperties", True)
        if not properties:
            if not isinstance(rest, dict) or not rest or "patternProperties" in schema:
                return JSON
            kind, _ = self.kind(rest, (*path, "value"), open_refs)
            return Named(kind)
        required = self._list(schema, "required", path)
        fields = []
        for name, inner in properties.items():
            if inner is False:  # must not be there
                continue
            kind, nullable = self.kind(inner, (*path, name), open_refs)
            fields.append(Field(name, kind, name in required and not nullable))
        closed = rest is False or schema.get("unevaluatedProperties") is False
        return Record(tuple(fields), closed and "patternProperties" not in schema)

    def _types(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[set[str], bool]:
        named = schema.get("type")
        if named is None:
            names = self._implied(schema)
        else:
            names = set(named) if isinstance(named, list) else {named}
        known = {"object", "array", "string", "integer", "number", "boolean", "null"}
        unknown = [one for one in names if one not in known]
        if unknown:
            raise TableError(
                f"{self._what}: {self._at(path)} has the unknown type {_brief(unknown[0])}",
                f"expected one of {', '.join(sorted(known))}",
            )
        return names - {"null"}, "null" in names

    def _implied(self, schema: dict[str, Any]) -> set[str]:
        """The types of a schema that names none."""
        if "properties" in schema or "additionalProperties" in schema:
            return {"object"}
        if "items" in schema:
            return {"array"}
        values = schema["enum"] if isinstance(schema.get("enum"), list) else []
        if "const" in schema:
            values = [schema["const"]]
        names = {
            bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null",
        }  # fmt: skip
        found = {names.get(type(value), "object") for value in values}
        return found if "object" not in found else set()

    def _one_of(
        self, choices: list[Any], path: tuple[str, ...], open_refs: tuple[str, ...]
    ) -> tuple[Kind, bool]:
        null = [one for one in choices if isinstance(one, dict) and one.get("type") == "null"]
        found = [self.kind(one, path, open_refs) for one in choices if one not in null]
        nullable = bool(null) or any(may for _, may in found)
        if found and all(kind == found[0][0] for kind, _ in found):
            return found[0][0], nullable
        return JSON, nullable

    def _merged(self, schema: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        """One schema of those that a value must fit all: properties of all, other words of the
        last. References are followed one step."""
        self._count(path)
        if len(path) > kinds.MAX_DEPTH:
            raise self._recursive(path)
        out: dict[str, Any] = {}
        parts = [
            *self._list(schema, "allOf", path),
            {k: v for k, v in schema.items() if k != "allOf"},
        ]
        for part in parts:
            seen = 0
            while isinstance(part, dict) and ("$ref" in part or "allOf" in part):
                seen += 1
                if seen > kinds.MAX_DEPTH:
                    raise self._recursive(path)
                if "$ref" in part:
                    part = self._target(part["$ref"], path)
                else:
                    part = self._merged(part, (*path, "allOf"))
            if not isinstance(part, dict):
                continue
            for word, value in part.items():
                if word == "properties" and isinstance(value, dict):
                    out[word] = {**out.get(word, {}), **value}
                elif word == "required" and isinstance(value, list):
                    out[word] = [*out.get(word, []), *value]
                else:
                    out[word] = value
        return out

    def _referred(
        self, name: Any, path: tuple[str, ...], open_refs: tuple[str, ...]
    ) -> tuple[Kind, bool]:
        target = self._target(name, path)
        if name in open_refs:
            raise self._recursive(path)
        return self.kind(target, path, (*open_refs, name))

    def _recursive(self, path: tuple[str, ...]) -> TableError:
        return TableError(
            f"{self._what}: {self._at(path)} refers to a schema that it is in, and a table has no "
            "recursive types",
            'replace the schema of this field by {"description": "…"} without a type: the column '
            "is then JSON text",
        )

    def _target(self, name: Any, path: tuple[str, ...]) -> Any:
        if not isinstance(name, str) or not name.startswith("#"):
            raise TableError(
                f"{self._what}: {self._at(path)} refers to {_brief(name)}",
                "put all schemas into one file, below $defs",
            )
        found = self._root
        for part in name[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise TableError(f"{self._what} does not have {_brief(name)}")
            found = found[key]
        return found

    def _list(self, schema: dict[str, Any], word: str, path: tuple[str, ...]) -> list[Any]:
        found = schema.get(word, [])
        if not isinstance(found, list):
            if word == "required" and isinstance(found, bool):  # of draft 3
                return []
            raise TableError(f"{self._what}: {word} of {self._at(path)} is not a list")
        return found

    def _at(self, path: tuple[str, ...]) -> str:
        return kinds.shown(path) if path else "the schema"


def _brief(value: Any) -> str:
    return escape(json.dumps(value)[:80])
