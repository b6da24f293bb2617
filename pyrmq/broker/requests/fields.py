"""Typed ext fields of a request, with the errors that clients expect."""

from __future__ import annotations

import re
from typing import Any

from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.server.request_fields import text as text

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


MAX_LIST_BODY = 1 << 20
"""Longest body with a list of configurations, bytes."""
MAX_LIST = 4096
"""Most configurations of one list."""


def objects(command: Command, name: str) -> list[dict[Any, Any]]:
    """The objects of a list that is the member `name` of the body. InvalidParameterError."""
    if len(command.body) > MAX_LIST_BODY:
        raise InvalidParameterError(f"the body with {name} has more than {MAX_LIST_BODY} bytes")
    found = fastjson.loads_object(command.body).get(name)
    if not isinstance(found, list) or not 0 < len(found) <= MAX_LIST:
        raise InvalidParameterError(f"{name} is a list of 1 to {MAX_LIST} objects")
    if not all(isinstance(value, dict) for value in found):
        raise InvalidParameterError(f"{name} has something that is no object")
    return found
