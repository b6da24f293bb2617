"""JSON bodies in the dialect that Java's fastjson 1.2 writes and reads.

Integer keys stand without quotes, objects may be keys, nulls are left out. The reader is the
engine's; it also takes strict JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from pyrmq.engine import parse_json
from pyrmq.errors import ProtocolError

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_quote = json.encoder.encode_basestring


MAX_VALUES = 1 << 20
"""Most values that a body from the network may hold."""
JOINED = 2048
"""Encoded members that become one part: few enough for a thread that joins them to give way."""


class Encoded:
    """An object whose members are encoded already, each by `member`: a value for `parts`."""

    def members(self) -> Iterable[bytes]:
        raise NotImplementedError


class EncodedRows(Encoded):
    """A few members."""

    def __init__(self, rows: Iterable[bytes]) -> None:
        self._rows = list(rows)

    def members(self) -> Iterable[bytes]:
        return self._rows


class Raw:
    """A value that is JSON already: `parts` writes it as it is."""

    def __init__(self, text: bytes) -> None:
        self.text = text


def loads(body: bytes, max_values: int = MAX_VALUES, name: str = "body") -> Any:
    """Parses a body and resolves `{"$ref": …}`; object keys become tuples of pairs. Errors call
    the body `name`."""
    try:
        value = parse_json(body, max_values)
    except ValueError as e:
        raise ProtocolError(f"{name} is no JSON: {e}") from e
    return _resolve(value, value) if b'"$ref"' in body else value


def loads_object(body: bytes, max_values: int = MAX_VALUES, name: str = "body") -> dict[Any, Any]:
    """The same for a body that must be an object."""
    value = loads(body, max_values, name)
    if not isinstance(value, dict):
        raise ProtocolError(f"{name} is no JSON object")
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
    """Writes a body as fastjson does: bare integer keys, nulls omitted, no blanks. Half a surrogate
    pair, as in the name of a folder that is not UTF-8, becomes `?`: one such text must not take the
    whole body away."""
    return _text(value, "").encode(errors="replace")


def member(key: Any, value: Any, line: str = "") -> bytes:
    """One member of an object, as `parts` joins them; `line` is that of the object's members."""
    return f"{line}{_key(key)}:{_text(value, line)}".encode(errors="replace")


def parts(value: Any, line: str = "") -> Iterator[bytes]:
    """What `dumps` returns, in parts, and also of values with `Encoded` in them. With a line end as
    `line` it has tabs and line ends, the form of RocketMQ's configuration files."""
    inner = line + "\t" if line else ""
    opening = "{"
    if isinstance(value, Encoded):
        members = iter(value.members())
        while some := list(islice(members, JOINED)):
            yield opening.encode() + b",".join(some)
            opening = ","
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if item is not None:
                yield f"{opening}{inner}{_key(key)}:".encode(errors="replace")
                yield from parts(item, inner)
                opening = ","
    elif isinstance(value, Raw):
        yield value.text
        return
    else:
        yield _text(value, line).encode(errors="replace")
        return
    yield b"{}" if opening == "{" else f"{line}}}".encode()


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
    # By far the most values are one of these two, and the checks below take longer than they do.
    if type(value) is int:
        return str(value)
    if type(value) is str:
        return _quote(value)
    if isinstance(value, Mapping):
        inner = line + "\t" if line else ""
        members = [f"{_key(k)}:{_text(v, inner)}" for k, v in value.items() if v is not None]
        return f"{{{inner}{f',{inner}'.join(members)}{line}}}" if members else "{}"
    if isinstance(value, list | tuple):
        if not value:
            return "[]"
        inner = line + "\t" if line else ""
        return f"[{inner}{f',{inner}'.join([_text(v, inner) for v in value])}{line}]"
    return _encode(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _quote(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    return _text(dict(key), "")
