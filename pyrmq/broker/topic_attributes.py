"""Attributes of topics: which there are, and how they change. [TopicAttributes, AttributeUtil]"""

from __future__ import annotations

from collections.abc import Mapping

from pyrmq.errors import InvalidParameterError

ATTRIBUTES: dict[str, tuple[tuple[str, ...], bool]] = {
    "queue.type": (("SimpleCQ", "BatchCQ"), False),
    "cleanup.policy": (("DELETE",), False),
    "message.type": (("UNSPECIFIED", "NORMAL", "FIFO", "MIXED"), True),
}
"""Name to values that are supported, and whether a topic that exists may change it."""


def changed(known: Mapping[str, str] | None, text: str) -> dict[str, str]:
    """The attributes of a topic after the changes of `text`: `+name=value` sets, `-name` removes,
    separated by commas. `known`: those that it has, None for a new topic."""
    out = dict(known or {})
    for part in filter(None, text.split(",")):
        name, given, value = part[1:].partition("=")
        if part[0] not in "+-" or bool(given) != (part[0] == "+"):
            raise InvalidParameterError(
                f"attribute {part[:64]!r}: +name=value or -name expected, separated by commas"
            )
        if name not in ATTRIBUTES:
            raise InvalidParameterError(
                f"topic attribute {name[:64]!r} is not supported: use {', '.join(ATTRIBUTES)}"
            )
        values, may_change = ATTRIBUTES[name]
        if given and value not in values:
            raise InvalidParameterError(f"{name}={value[:64]}: use {' or '.join(values)}")
        if known is not None and not may_change and out.get(name) != (value or None):
            raise InvalidParameterError(f"{name} of a topic that exists cannot be changed")
        if given:
            out[name] = value
        else:
            out.pop(name, None)
    return out
