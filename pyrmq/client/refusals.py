"""What a client refuses before anything is sent: the rules of pyrmq.model as NotSentErrors.

Brokers check by the same rules; what they find becomes an answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyrmq.errors import (
    ClientError,
    InvalidParameterError,
    MessageIllegalError,
    SubscriptionError,
    UnsendableMessageError,
    UnusableExpressionError,
    UnusableNameError,
)
from pyrmq.model import message, names
from pyrmq.model.message import Message, MessageQueue
from pyrmq.model.subscription import SQL92, TAG, Sql, Subscription


def check_kind(what: str, value: object, kinds: tuple[type, ...], wanted: str) -> None:
    """ClientError unless `value` is one of `kinds`; `wanted` says in words what they are."""
    if not isinstance(value, kinds):
        raise ClientError(f"{what} is {type(value).__name__}; {wanted} is needed")


def check_queue(queue: object) -> None:
    """ClientError for a queue that is neither None nor one of `queues(topic)`."""
    check_kind("queue", queue, (MessageQueue, type(None)), "a MessageQueue of `queues(topic)`")


def check_texts(sent: Message) -> None:
    """UnsendableMessageError unless all texts of a message are texts."""
    several = isinstance(sent.keys, list)
    texts: list[tuple[str, object]] = [("tags", sent.tags or "")]
    if several or isinstance(sent.keys, tuple):
        texts += [("one of keys", key) for key in sent.keys or ()]
    else:
        texts.append(("keys", sent.keys or ""))
    for name, value in sent.properties.items():
        texts += [("the name of a property", name), (f"property {name!r}", value)]
    for what, text in texts:
        if not isinstance(text, str):
            raise UnsendableMessageError(f"{what} is {type(text).__name__}, str is needed")


def check_topic(topic: str) -> None:
    """UnusableNameError unless a topic may have this name."""
    check_kind("the topic", topic, (str,), "str")
    try:
        names.check_topic(topic)
    except InvalidParameterError as e:
        raise UnusableNameError(*e.args) from None


def check_group(group: str) -> None:
    """UnusableNameError unless a group may have this name."""
    check_kind("the group", group, (str,), "str")
    try:
        names.check_group(group)
    except InvalidParameterError as e:
        raise UnusableNameError(*e.args) from None


def encode_properties(properties: Mapping[str, str]) -> str:
    """The property string of a message. UnsendableMessageError if there is none."""
    try:
        return message.encode_properties(properties)
    except MessageIllegalError as e:
        raise UnsendableMessageError(*e.args) from None


def parse_subscription(topic: str, expression: str, version: int) -> Subscription:
    """A topic with a tag expression or `Sql`; `version` in ms. UnusableExpressionError."""
    check_kind(f"the expression of {topic}", expression, (str, type(None)), "str or Sql")
    kind = SQL92 if isinstance(expression, Sql) else TAG
    if kind == SQL92 and not expression.strip():
        raise UnusableExpressionError(f"the Sql of {topic} is empty: '*' subscribes to all")
    try:
        return Subscription.parse(topic, expression, version, kind)
    except SubscriptionError as e:
        raise UnusableExpressionError(*e.args) from None


def check_subscriptions(subscriptions: object, version: int) -> dict[str, Subscription]:
    """A consumer's subscriptions by topic; `version` in ms. ClientError and the errors of
    `check_topic` and `parse_subscription`."""
    wanted = "a dict of topics and tag expressions, such as {'TopicTest': '*'},"
    check_kind("subscriptions", subscriptions, (Mapping,), wanted)
    assert isinstance(subscriptions, Mapping)
    if not subscriptions:
        raise ClientError("a consumer needs at least one subscription")
    for topic in subscriptions:
        check_topic(topic)
    return {t: parse_subscription(t, e, version) for t, e in subscriptions.items()}
