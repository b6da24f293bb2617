"""Typed ext fields of a request, with the errors that clients expect."""

from __future__ import annotations

import re

from pyrmq.engine import Command
from pyrmq.errors import ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.net.request_fields import text as text

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
"""As the engine reads one, and Java."""


def number(name: str, value: str, limit: int) -> int:
    """`value` as an int from -limit to limit-1."""
    if _NUMBER.fullmatch(value):
        found = int(value)
        if -limit <= found < limit:
            return found
    raise ResponseError(
        f"the custom field <{name}> is no int{limit.bit_length()}: {value[:32]!r}",
        ResponseCode.SYSTEM_ERROR,
    )


def _number(command: Command, name: str, default: int | None, limit: int) -> int:
    value = command.ext.get(name)
    if value is None:
        if default is not None:
            return default
        value = text(command, name)
    return number(name, value, limit)


def int32(command: Command, name: str, default: int | None = None) -> int:
    return _number(command, name, default, 1 << 31)


def int64(command: Command, name: str, default: int | None = None) -> int:
    return _number(command, name, default, 1 << 63)


def flag(command: Command, name: str, default: bool = False) -> bool:
    value = command.ext.get(name)
    return default if value is None else value.lower() == "true"
