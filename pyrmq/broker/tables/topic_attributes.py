"""Attributes of topics and groups: which there are, and how they change. [TopicAttributes,
SubscriptionGroupAttributes, AttributeParser, AttributeUtil]

An invalid attribute is SYSTEM_ERROR, as in RocketMQ, except a message type that the broker's
configuration does not allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.codes import ResponseCode

MESSAGE_TYPE = "message.type"
ATTRIBUTES: dict[str, tuple[tuple[str, ...], bool]] = {
    "queue.type": (("SimpleCQ", "BatchCQ"), False),
    "cleanup.policy": (("DELETE",), False),
    MESSAGE_TYPE: (("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"), True),
}
"""Name to values that are supported, and whether a topic that exists may change it. RocketMQ's
brokers keep and show message.type, as this one does: proxies and clients are those who use it."""


def _refused(text: str) -> ResponseError:
    return ResponseError(text, ResponseCode.SYSTEM_ERROR)


def changed(known: Mapping[str, str] | None, text: str, *, mixed: bool = False) -> dict[str, str]:
    """The attributes of a topic after the changes of `text`: `+name=value` sets, `-name` removes,
    separated by commas. `known`: those that it has, None for a new topic. `mixed`: whether topics
    may have messages of all types."""
    out = dict(known or {})
    seen: set[str] = set()
    for part in filter(None, text.split(",")):
        name, given, value = part[1:].partition("=")
        if part[0] not in "+-" or bool(given) != (part[0] == "+"):
            raise _refused(
                f"attribute {part[:64]!r}: +name=value or -name expected, separated by commas"
            )
        if name in seen:
            raise _refused(f"attribute {name[:64]!r} is there twice")
        seen.add(name)
        _check(name, value, known, adds=bool(given), mixed=mixed)
        if given:
            out[name] = value
        else:
            del out[name]
    return out


def _check(
    name: str, value: str, known: Mapping[str, str] | None, *, adds: bool, mixed: bool
) -> None:
    if name not in ATTRIBUTES:
        raise _refused(
            f"topic attribute {name[:64]!r} is not supported: use {', '.join(ATTRIBUTES)}"
        )
    values, may_change = ATTRIBUTES[name]
    if adds and value not in values:
        raise _refused(f"{name}={value[:64]}: use {' or '.join(values)}")
    if not adds and name not in (known or {}):
        raise _refused(f"the topic has no attribute {name}: there is nothing to remove")
    if known is not None and not may_change and known.get(name) != (value or None):
        raise _refused(f"{name} of a topic that exists cannot be changed")
    if name == MESSAGE_TYPE and value == "MIXED" and not mixed:
        raise InvalidParameterError(
            "MIXED message type is not supported: enableMixedMessageType=false"
        )


def check_group_attributes(changes: Any) -> None:
    """A group has none that could be set or removed. [SubscriptionGroupAttributes]"""
    if not changes:
        return
    if not isinstance(changes, dict):
        raise InvalidParameterError("attributes must be an object")
    name = str(next(iter(changes))).lstrip("+-")
    raise _refused(
        f"group attribute {name[:64]!r} is not supported: as in RocketMQ, groups have none"
    )
