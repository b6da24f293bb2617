"""One message: all that is stored with it, and what can be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyrmq.admin.dead_letters import DeadLetter
from pyrmq.admin.message_data import message_data
from pyrmq.console.messages.body import BodyView, view_of
from pyrmq.errors import ClientError
from pyrmq.model.message import Message
from pyrmq.model.names import (
    CHECK_MAX_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_system_topic,
    takes_sends,
)
from pyrmq.model.properties import (
    KEYS,
    REAL_TOPIC,
    SHARDING_KEY,
    SYSTEM_PROPERTIES,
    TAGS,
    UNIQ_KEY,
)
from pyrmq.model.record import BORN_HOST_V6, INNER_BATCH, MULTI_TAGS, ReceivedMessage

MOST_PROPERTIES = 200
"""Properties that a page shows; the download has all."""
_TRANSACTIONS = {4: "half message", 8: "committed", 12: "rolled back"}
_KEPT = frozenset({"INSTANCE_ID", "BUYER_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"})
"""Properties of the system that a copy keeps, beside its tag and keys."""


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message for its page. `properties`: the first MOST_PROPERTIES, the sender's own first;
    `own`: how many of all are the sender's. `refused`: why it cannot be resent; empty if it
    can."""

    message: ReceivedMessage
    body: BodyView
    properties: list[tuple[str, str, bool]]
    property_count: int
    own: int
    flags: list[str]
    refused: str
    home: str
    """The topic that it was sent to; empty if that is not known."""


def view_message(message: ReceivedMessage) -> MessageView:
    pairs = message.properties.items()
    every = [(name, value, name not in SYSTEM_PROPERTIES) for name, value in pairs]
    every.sort(key=lambda p: (not p[2], p[0]))
    return MessageView(
        message,
        view_of(message),
        every[:MOST_PROPERTIES],
        len(every),
        sum(own for _, _, own in every),
        _flags(message),
        why_not_resent(message),
        home_of(message),
    )


def home_of(message: ReceivedMessage) -> str:
    """The topic that a message was sent to, also of one that waits, is tried again or is dead;
    empty if it does not say."""
    topic = message.topic
    if topic.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        return DeadLetter("", message).topic or ""
    waits = topic in (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, CHECK_MAX_TOPIC)
    return message.properties.get(REAL_TOPIC, "") if waits else topic


def _flags(message: ReceivedMessage) -> list[str]:
    """What sysFlag says, in words."""
    flag = message.sys_flag
    found = [_TRANSACTIONS[flag & 12]] if flag & 12 else []
    if flag & INNER_BATCH:
        found.append("inner batch")
    if flag & MULTI_TAGS:
        found.append("several tags")
    if flag & BORN_HOST_V6:
        found.append("sent over IPv6")
    return found


def why_not_resent(message: ReceivedMessage) -> str:
    """Why no copy of a message may be sent to its topic; empty if it may."""
    topic = message.topic
    if topic.startswith(DLQ_PREFIX):
        return "It is a dead letter: resend it in the room of dead letters."
    if topic.startswith(RETRY_PREFIX):
        return "It waits to be tried again: its group gets it by itself."
    if not takes_sends(topic) or is_system_topic(topic):
        return f"Topic {topic} is the broker's own and takes no messages of clients."
    return ""


def copy_of(message: ReceivedMessage, body: bytes) -> tuple[Message, str | None]:
    """A new message with the body, tag, keys, flag and the sender's properties of a stored one, and
    its sharding key. It gets an id of its own and is delivered at once. ClientError if it may not
    be sent."""
    if refused := why_not_resent(message):
        raise ClientError(refused)
    own = {
        name: value
        for name, value in message.properties.items()
        if value and (name not in SYSTEM_PROPERTIES or name in _KEPT)
    }
    sharding_key = own.pop(SHARDING_KEY, None)
    copied = Message(
        message.topic,
        body,
        tags=message.properties.get(TAGS),
        keys=message.properties.get(KEYS),
        flag=message.flag,
        properties=own,
    )
    return copied, sharding_key


def as_data(message: ReceivedMessage) -> dict[str, Any]:
    """A message without its body as JSON has it."""
    extra = {"uniqueId": message.properties.get(UNIQ_KEY), "flag": message.flag}
    return {**message_data(message), **extra}
