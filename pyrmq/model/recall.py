"""The handle with which a timer message can be recalled before it is delivered.

Five words joined by blanks, `v1 TOPIC BROKER DELIVER_MS UNIQ_KEY`, as URL-safe base64.
[RecallMessageHandle]
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from pyrmq.errors import IllegalOperationError

RECALL_TAG = "_RECALL_TAG_"
"""Tag of the record that recalls a message. [RecallMessageProcessor]"""
RECALL_BODY = b"0"
"""Its body."""
MAX_HANDLE = 1 << 16
"""Characters of a handle. The key of its message may fill all properties."""
_VERSION = "v1"
_BASE64 = re.compile(r"[A-Za-z0-9_-]*={0,2}", re.ASCII)
_TIME = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_MAX_TIME = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """What a handle says. topic: the real topic, as the broker knows it. deliver_ms: TIMER_OUT_MS
    of the message + 1; -1 for text that is no number of 64 bits, as in Java. key: its UNIQ_KEY."""

    topic: str
    broker_name: str
    deliver_ms: int
    key: str

    def encode(self) -> str:
        text = " ".join((_VERSION, self.topic, self.broker_name, str(self.deliver_ms), self.key))
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def parse(cls, handle: str) -> RecallHandle:
        """Reads a handle as Java does: padding may be missing, further words are ignored, bytes
        that are not UTF-8 become U+FFFD. Raises IllegalOperationError (604) with RocketMQ's text
        for anything else."""
        words = _decoded(handle).split(" ")
        while words and not words[-1]:
            words.pop()  # Java's split drops them
        if len(words) < 5 or words[0] != _VERSION:
            raise _invalid()
        topic, broker, time, key = words[1:5]
        return cls(topic, broker, _milliseconds(time), key)


def _decoded(handle: str) -> str:
    if not 0 < len(handle) <= MAX_HANDLE or not _BASE64.fullmatch(handle):
        raise _invalid()
    digits = handle.rstrip("=")
    padding = -len(digits) % 4
    if padding == 3 or len(handle) - len(digits) not in (0, padding):
        raise _invalid()
    try:
        return base64.urlsafe_b64decode(digits + "=" * padding).decode(errors="replace")
    except (binascii.Error, ValueError):
        raise _invalid() from None


def _milliseconds(text: str) -> int:
    """[NumberUtils.toLong] with -1 for what is no long."""
    value = int(text) if _TIME.fullmatch(text) else -1
    return value if -_MAX_TIME - 1 <= value <= _MAX_TIME else -1


def _invalid() -> IllegalOperationError:
    return IllegalOperationError("recall handle is invalid")
