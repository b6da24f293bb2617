"""The properties of a message: their names, and the string that holds them. [MessageConst,
MessageDecoder]"""

from __future__ import annotations

from collections.abc import Mapping

from pyrmq.errors import MessageIllegalError

NAME_END = "\x01"
VALUE_END = "\x02"
MAX_PROPERTIES = 32767

TAGS = "TAGS"
KEYS = "KEYS"
DELAY = "DELAY"
"""Delay level, from 1 on; 0 and less: none. [MessageConst]"""
TIMER_PROPERTIES = frozenset(
    {"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY"}
)
"""Each makes a timer message, or ends one. [MessageConst]"""
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
UNIQ_KEY = "UNIQ_KEY"
INSTANCE_ID = "INSTANCE_ID"
"""The namespace of who sent it."""
SHARDING_KEY = "__SHARDINGKEY"
MESSAGE_TYPE = "MSG_TYPE"
REPLY = "reply"
WAIT = "WAIT"
DELAY_LEVELS = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip
"""Seconds of each delay level, level 1 first, unless a broker has others. [messageDelayLevel]"""


def encode_properties(properties: Mapping[str, str]) -> str:
    """`name 0x01 value 0x02` in a row; names and values may not hold those characters."""
    for name, value in properties.items():
        if not name or any(c in part for part in (name, value) for c in (NAME_END, VALUE_END)):
            raise MessageIllegalError(f"property {name!r} is empty or holds 0x01 or 0x02")
    text = "".join(f"{n}{NAME_END}{v}{VALUE_END}" for n, v in properties.items() if v)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as e:
        raise MessageIllegalError(f"properties cannot be sent: {e}") from None
    if size > MAX_PROPERTIES:
        raise MessageIllegalError(f"properties have more than {MAX_PROPERTIES} bytes")
    return text


def decode_properties(text: str) -> dict[str, str]:
    """The inverse, with Java's reading rules (empty names and values do not exist)."""
    out: dict[str, str] = {}
    for chunk in text.split(VALUE_END):
        name, found, value = chunk.partition(NAME_END)
        if found and name and value:
            out[name] = value
    return out
