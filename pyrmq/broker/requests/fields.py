"""Typed ext fields of a request, with the errors that clients expect."""

from __future__ import annotations

import re
from typing import Any

from pyrmq.engine import Command
from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.command import text as text

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
"""As the engine reads one, and Java."""
_LETTERS = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d",
    "queueId": "e", "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i",
    "reconsumeTimes": "j", "unitMode": "k", "maxReconsumeTimes": "l", "batch": "m",
}  # fmt: skip
"""Names of a send's fields, and the letters that clients write since 4.x.
[SendMessageRequestHeaderV2]"""
_LONG = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)


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


def send_text(command: Command, name: str, default: str | None = None) -> str:
    """A field of a send; SYSTEM_ERROR if it is missing and has no default."""
    value = command.ext.get(name if command.code in _LONG else _LETTERS[name], default)
    if value is None:
        raise ResponseError(f"the custom field <{name}> is null", ResponseCode.SYSTEM_ERROR)
    return value


def send_number(command: Command, name: str, default: str | None = None) -> int:
    """A field of a send as an int32, bornTimestamp as an int64."""
    bits = 64 if name == "bornTimestamp" else 32
    return number(name, send_text(command, name, default), 1 << bits - 1)
