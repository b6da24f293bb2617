"""Attributes of consumer groups, as operators change them. [SubscriptionGroupAttributes]"""

from __future__ import annotations

import re
from typing import Any

from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.codes import ResponseCode

PRIORITY_FACTOR = "priority.factor"
"""How many of 100 pops of a topic with priorities read the queues in their order. [RocketMQ 5.5]"""
MOST = DEFAULT = 100
_NUMBER = re.compile(r"\+?[0-9]{1,18}", re.ASCII)


def changed(known: Any, changes: Any) -> dict[str, str]:
    """The attributes of a group after `changes`: `+name` sets, `-name` removes. `known`: those that
    it has; they may be from a file.

    Raises InvalidParameterError for what is no table. An attribute or a value that is not possible
    is SYSTEM_ERROR, as in RocketMQ."""
    has: dict[str, str] = known if isinstance(known, dict) else {}
    out = dict(has)
    if not changes:
        return out
    if not isinstance(changes, dict):
        raise InvalidParameterError("attributes must be an object")
    seen: set[str] = set()
    for key, value in changes.items():
        sign, name = str(key)[:1], str(key)[1:]
        if sign not in ("+", "-"):
            raise _refused(f"attribute {str(key)[:64]!r}: use +name to set it, -name to remove it")
        if name in seen:
            raise _refused(f"attribute {name[:64]!r} is there twice")
        seen.add(name)
        if name != PRIORITY_FACTOR:
            raise _refused(f"group attribute {name[:64]!r} is not supported: use {PRIORITY_FACTOR}")
        if sign == "+":
            out[name] = _factor(value)
        elif name not in has:
            raise _refused(f"the group has no attribute {name}: there is nothing to remove")
        else:
            del out[name]
    return out


def _factor(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(text) or int(text) > MOST:
        raise _refused(f"{PRIORITY_FACTOR} must be a number from 0 to {MOST}, as text")
    return text


def _refused(text: str) -> ResponseError:
    return ResponseError(text, ResponseCode.SYSTEM_ERROR)
