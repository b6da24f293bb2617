"""The message that is sent in place of a dead letter."""

from __future__ import annotations

import hashlib
from enum import Enum

from pyrmq.admin.dead_letters import RESENT_FROM, DeadLetter
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.model.message import Message
from pyrmq.model.pop import FIRST_POP_TIME
from pyrmq.model.properties import (
    INSTANCE_ID,
    KEYS,
    PRIORITY,
    SHARDING_KEY,
    SYSTEM_PROPERTIES,
    TAGS,
    UNIQ_KEY,
)
from pyrmq.model.record import ReceivedMessage

_KEPT = frozenset({INSTANCE_ID, "BUYER_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"})
"""Properties of the system that a resent message keeps, beside tag, keys, unique id, sharding key
and priority."""
_DROPPED = SYSTEM_PROPERTIES | {"__STARTDELIVERTIME"}
"""What a message says of an earlier way through brokers. The last one is the delivery time of some
clients, which would delay the message again."""


class To(Enum):
    """Where dead letters are resent to.

    TOPIC: the topic that they came from. All groups that consume it get them again.
    GROUP: the retry topic of the group. Only this group gets them.
    """

    TOPIC = "topic"
    GROUP = "group"


def unique_id(letter: DeadLetter) -> str:
    """The unique id of the message that is made of a letter: the letter's own, or one made of the
    place of the letter."""
    known = letter.message.properties.get(UNIQ_KEY)
    return known or hashlib.sha256(letter.id.encode()).hexdigest()[:32].upper()


def message_of(letter: DeadLetter, target: str, to: To) -> Message:
    """The message that is sent in place of a letter. Raises ClientError if it cannot be."""
    stored = letter.message
    if stored.body_error is not None:
        raise ClientError(f"its body cannot be decompressed: {stored.body_error}")
    if to is To.GROUP and FIRST_POP_TIME in stored.properties:
        raise ClientError(
            f"group {letter.group} pops this topic, and clients cannot send to the retry topics "
            "of such groups: resend it to the topic"
        )
    own = {
        name: value
        for name, value in stored.properties.items()
        if (name not in _DROPPED or name in _KEPT) and value
    }
    own[UNIQ_KEY] = unique_id(letter)
    own[RESENT_FROM] = letter.id
    if to is To.GROUP:
        if letter.topic is not None:
            own["RETRY_TOPIC"] = letter.topic
        own["ORIGIN_MESSAGE_ID"] = letter.origin_id or letter.id
    return Message(
        target,
        stored.body,
        tags=stored.properties.get(TAGS),
        keys=stored.properties.get(KEYS),
        flag=stored.flag,
        properties=own,
        priority=_priority(stored) if to is To.TOPIC else None,
    )


def _priority(message: ReceivedMessage) -> int | None:
    text = message.properties.get(PRIORITY)
    if text is None or SHARDING_KEY in message.properties:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise ProtocolError(f"its priority is no number: {text[:32]!r}")
    return int(text)
