"""JSON bodies in the dialect that Java's fastjson 1.2 writes and reads.

Integer keys stand without quotes, objects may be keys, nulls are left out. The reader is the
engine's; it also takes strict JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyrmq.engine import parse_json
from pyrmq.errors import ProtocolError

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


MAX_VALUES = 1 << 20
"""Most values that a body from the network may hold."""


def loads(body: bytes, max_values: int = MAX_VALUES) -> Any:
    """Parses a body and resolves `{"$ref": …}`; object keys become tuples of pairs."""
    try:
        value = parse_json(body, max_values)
    except ValueError as e:
        raise ProtocolError(f"body is no JSON: {e}") from e
    return _resolve(value, value) if b'"$ref"' in body else value


def loads_object(body: bytes, max_values: int = MAX_VALUES) -> dict[Any, Any]:
    """The same for a body that must be an object."""
    value = loads(body, max_values)
    if not isinstance(value, dict):
        raise ProtocolError("body is no JSON object")
    return value


def _resolve(root: Any, value: Any) -> Any:
    """Replaces references by what they name; a reference to nothing, or into another one, is
    None (so that no loop can arise)."""
    if isinstance(value, dict):
        path = value.get("$ref")
        if len(value) == 1 and isinstance(path, str):
            return _look_up(root, path)
        return {k: _resolve(root, v) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolve(root, v) for v in value]
    return value


def _look_up(root: Any, path: str) -> Any:
    node = root
    for step in path.split(".")[1:]:
        node = node.get(step) if isinstance(node, dict) else None
    return None if isinstance(node, dict) and "$ref" in node else node


def dumps(value: Any) -> bytes:
    """Writes a body as fastjson does: bare integer keys, nulls omitted, no blanks."""
    return _text(value, "").encode()


def dumps_pretty(value: Any) -> str:
    """The same with tabs and line ends, the form of RocketMQ's configuration files."""
    return _text(value, "\n")


def dumps_strict(value: Any) -> bytes:
    """Strict JSON, keys sorted, non-ASCII escaped: routes for clients since 4.9.4."""
    return json.dumps(_quoted(value), sort_keys=True, separators=(",", ":")).encode()


def _quoted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _quoted(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_quoted(v) for v in value]
    return value


def _text(value: Any, line: str) -> str:
    if isinstance(value, Mapping):
        members = [(k, v) for k, v in value.items() if v is not None]
        if not members:
            return "{}"
        inner = line + "\t" if line else ""
        body = f",{inner}".join(f"{_key(k)}:{_text(v, inner)}" for k, v in members)
        return f"{{{inner}{body}{line}}}"
    if isinstance(value, list | tuple):
        if not value:
            return "[]"
        inner = line + "\t" if line else ""
        return f"[{inner}{f',{inner}'.join(_text(v, inner) for v in value)}{line}]"
    return _encode(value)


def _key(key: Any) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if isinstance(key, str):
        return _encode(key)
    return _text(dict(key), "")
