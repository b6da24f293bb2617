"""A JSON body as the values of its columns, in Python: what the engine's strict reading does, one
body at a time. It says why a body does not fit, which the engine does not."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from pyrmq.tables.bodies import misfit
from pyrmq.tables.bodies.kinds import Kind, Many, Plain, Record
from pyrmq.tables.bodies.misfit import Misfit

MAX_VALUES = 1_000_000
"""Values of one body, nulls of missing fields included: small bodies could fill a large memory."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt _](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_BOUNDS = {"int": 1 << 31, "long": 1 << 63}
_MOST_FLOAT = 3.4028235677973366e38
"""From here on a double is infinite as a float."""


class _Number(float):
    """A number with a point or an exponent, and its text."""

    text: str

    def __new__(cls, text: str) -> _Number:
        self = super().__new__(cls, text)
        self.text = text
        return self


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def parse(body: bytes) -> Any:
    """The JSON value of a body. Raises Misfit."""
    if not body.strip(b" \t\r\n"):
        raise Misfit((), "the body is empty")
    try:
        return json.loads(body.decode(), parse_float=_Number, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Misfit((), f"the body is not JSON: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise Misfit((), "the body is not JSON: too many objects in each other") from None
    except ValueError as error:
        raise Misfit((), f"the body is not JSON: {error}") from None


def values(body: bytes, record: Record) -> tuple[dict[str, Any], int]:
    """The fields by name, and how many values they hold. Raises Misfit."""
    found = parse(body)
    if not isinstance(found, dict):
        raise Misfit((), f"expected a JSON object, found {misfit.value(found)}")
    walk = _Walk()
    return walk.struct(found, record, ()), MAX_VALUES - walk.left


class _Walk:
    def __init__(self) -> None:
        self.left = MAX_VALUES

    def _count(self, number: int, path: tuple[str, ...]) -> None:
        self.left -= number
        if self.left < 0:
            raise Misfit(path, f"the body has more than {MAX_VALUES} values")

    def struct(
        self, found: dict[str, Any], record: Record, path: tuple[str, ...]
    ) -> dict[str, Any]:
        self._count(len(record.fields), path)
        out: dict[str, Any] = {}
        for field in record.fields:
            inner = found.get(field.name)
            if inner is None:
                if field.required:
                    raise Misfit((*path, field.name), "a required field is missing or null")
                out[field.name] = None
            else:
                out[field.name] = self._value(inner, field.kind, (*path, field.name))
        if record.closed:
            named = {field.name for field in record.fields}
            for name in found:
                if name not in named:
                    raise Misfit(path, f"the schema has no field {misfit.value(name)}")
        return out

    def _value(self, found: Any, kind: Kind, path: tuple[str, ...]) -> Any:
        if isinstance(kind, Plain):
            return _plain(found, kind, path)
        if found is None:
            return None
        if isinstance(kind, Record):
            if not isinstance(found, dict):
                raise _expected("an object", found, path)
            return self.struct(found, kind, path)
        if isinstance(kind, Many):
            if not isinstance(found, list):
                raise _expected("a list", found, path)
            self._count(len(found), path)
            inner = (*path, "element")
            return [self._value(one, kind.item, inner) for one in found]
        if not isinstance(found, dict):
            raise _expected("an object", found, path)
        self._count(len(found), path)
        return [(_text(k, path), self._value(v, kind.value, (*path, k))) for k, v in found.items()]


def _expected(what: str, found: Any, path: tuple[str, ...]) -> Misfit:
    return Misfit(path, f"expected {what}, found {misfit.value(found)}")


def _text(found: str, path: tuple[str, ...]) -> str:
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Misfit(path, "a text has half of a surrogate pair") from None
    return found


def _plain(found: Any, kind: Plain, path: tuple[str, ...]) -> Any:
    name = kind.name
    if name == "json":
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        return None if found is None else _text(text, path)
    if found is None:
        return None
    if name == "boolean":
        if not isinstance(found, bool):
            raise _expected("true or false", found, path)
        return found
    if name in _BOUNDS:
        if not isinstance(found, int) or isinstance(found, bool):
            raise _expected("a whole number", found, path)
        if not -_BOUNDS[name] <= found < _BOUNDS[name]:
            raise _expected(f"a whole number of {name}", found, path)
        return found
    if name in ("float", "double"):
        return _broken(found, name, path)
    pair = kind.decimal()
    if pair:
        return _decimal(found, *pair, path)
    if not isinstance(found, str):
        raise _expected("a text", found, path)
    if name == "string":
        return _text(found, path)
    if name == "binary":
        try:
            return base64.b64decode(found, validate=True)
        except ValueError:
            raise _expected("a text in Base64", found, path) from None
    return _time(found, name, path)


def _broken(found: Any, name: str, path: tuple[str, ...]) -> float:
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise _expected("a number", found, path)
    try:
        number = float(found)
    except OverflowError:
        number = float("inf")
    if abs(number) == float("inf") or (name == "float" and abs(number) >= _MOST_FLOAT):
        raise Misfit(path, f"the number is too large for {name}")
    return number


def _decimal(found: Any, digits: int, scale: int, path: tuple[str, ...]) -> Decimal:
    text = found.text if isinstance(found, _Number) else str(found)
    if isinstance(found, bool) or not isinstance(found, (int, float, str)):
        raise _expected("a number", found, path)
    try:
        if not re.fullmatch(r"-?\d{1,1000}(\.\d{0,1000})?([eE][+-]?\d{1,9})?", text, re.ASCII):
            raise InvalidOperation
        sign, places, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        raise _expected("a decimal number", found, path) from None
    number = [*places]
    assert isinstance(exponent, int)
    while number and number[-1] == 0:
        number.pop()
        exponent += 1
    while number and number[0] == 0:
        number.pop(0)
    if not number:
        return Decimal((0, (0,), -scale))
    if -exponent > scale:
        raise Misfit(path, f"{misfit.value(text)} has more than {scale} digits after the point")
    if len(number) + exponent > digits - scale:
        raise Misfit(path, f"{misfit.value(text)} does not fit into decimal({digits},{scale})")
    return Decimal((sign, (*number, *[0] * (exponent + scale)), -scale))


def _time(found: str, name: str, path: tuple[str, ...]) -> Any:
    try:
        if name == "date":
            if _DATE.fullmatch(found) is None:
                raise ValueError
            return (date.fromisoformat(found) - date(1970, 1, 1)).days
        if _DATE.fullmatch(found):
            return (date.fromisoformat(found) - date(1970, 1, 1)).days * 86_400_000_000
        parts = _MOMENT.fullmatch(found)
        if parts is None or (parts[4] and name == "timestamp_ntz"):
            raise ValueError
        zone = (parts[4] or "Z").upper()
        moment = datetime.fromisoformat(f"{parts[1]}T{parts[2]}{'+00:00' if zone == 'Z' else zone}")
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        micros = int((parts[3] or "0").ljust(6, "0")[:6])
        return (since.days * 86_400 + since.seconds) * 1_000_000 + micros
    except ValueError:
        expected = {
            "date": "a date such as 2026-01-31",
            "timestamp": "a time such as 2026-01-31T12:00:00Z",
            "timestamp_ntz": "a time without a zone such as 2026-01-31T12:00:00",
        }[name]
        raise _expected(expected, found, path) from None
