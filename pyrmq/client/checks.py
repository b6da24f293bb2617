"""What a client refuses before anything is sent: ClientErrors for arguments, and the rules of
pyrmq.model as NotSentErrors.

Brokers check names, properties and expressions by the same rules; what they find becomes an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sniffio import AsyncLibraryNotFoundError, current_async_library

from pyrmq.errors import (
    ClientError,
    InvalidParameterError,
    MessageIllegalError,
    SubscriptionError,
    UnsendableMessageError,
    UnusableExpressionError,
    UnusableNameError,
)
from pyrmq.model import names, properties
from pyrmq.model.message import MessageQueue
from pyrmq.model.subscription import SQL92, TAG, Sql, Subscription


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raises ClientError unless `value` is a whole number in a range."""
    if type(value) is not int or not low <= value <= high:
        raise ClientError(f"{name} is {value!r:.80}; it must be at least {low} and at most {high}")


def check_seconds(name: str, value: object, low: float, high: float = float("inf")) -> None:
    """Raises ClientError unless `value` is a number of seconds in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        most = "" if high == float("inf") else f" and at most {high:g}"
        raise ClientError(f"{name} is {value!r:.80}; seconds are needed, at least {low:g}{most}")


def check_function(name: str, value: object, wanted: str) -> Callable[..., Any]:
    """Raises ClientError unless `value` is callable."""
    if not callable(value):
        raise ClientError(f"{name} is {value!r:.80}; it must be {wanted}")
    return value


def check_trio(
    what: str = "this client",
    instead: str = (
        "use the same name from pyrmq.aio with asyncio, from pyrmq.sync in plain code, or start "
        "the program with trio.run"
    ),
) -> None:
    """ClientError in an event loop that is not trio's: `what` does not run there, `instead` says
    what to do."""
    try:
        library = current_async_library()
    except AsyncLibraryNotFoundError:
        return
    if library != "trio":
        raise ClientError(f"{what} runs on trio, not on {library}: {instead}")


def check_kind(what: str, value: object, kinds: tuple[type, ...], wanted: str) -> None:
    """Raises ClientError unless `value` is one of `kinds`; `wanted` describes them."""
    if not isinstance(value, kinds):
        raise ClientError(f"{what} is {type(value).__name__}; {wanted} is needed")


def check_queue(queue: object) -> None:
    """Raises ClientError for a queue that is neither None nor one of `queues(topic)`."""
    if queue is not None:
        check_kind("queue", queue, (MessageQueue,), "a MessageQueue of `queues(topic)`")


def check_topic(topic: str) -> None:
    """Raises UnusableNameError unless the name is valid for a topic."""
    if not isinstance(topic, str):
        check_kind("the topic", topic, (str,), "str")
    try:
        names.check_topic(topic)
    except InvalidParameterError as e:
        raise UnusableNameError(*e.args) from None


def check_group(group: str) -> None:
    """Raises UnusableNameError unless the name is valid for a group."""
    check_kind("the group", group, (str,), "str")
    try:
        names.check_group(group)
    except InvalidParameterError as e:
        raise UnusableNameError(*e.args) from None


def check_consumer_group(group: str) -> None:
    """Raises UnusableNameError unless the name is valid for a consumer group."""
    check_kind("the group", group, (str,), "str")
    try:
        names.check_consumer_group(group)
    except InvalidParameterError as e:
        raise UnusableNameError(*e.args) from None


def check_namespace(name: str) -> None:
    """Raises UnusableNameError unless the name is valid for a namespace."""
    check_kind("the namespace", name, (str,), "str")
    try:
        names.check_group(name)
    except InvalidParameterError as e:
        raise UnusableNameError(str(e.args[0]).replace("group", "namespace")) from None


def encode_properties(texts: Mapping[str, str]) -> str:
    """The property string of a message. Raises UnsendableMessageError if there is none."""
    try:
        return properties.encode_properties(texts)
    except MessageIllegalError as e:
        raise UnsendableMessageError(*e.args) from None


_LIKE_SQL = re.compile(r"[<>']|\s=|=\s|\s(?:and|or|in|is|not|between)\s", re.IGNORECASE)


def parse_subscription(topic: str, expression: str, version: int) -> Subscription:
    """A topic with a tag expression or `Sql`; `version` in ms. Raises UnusableExpressionError."""
    check_kind(f"the expression of {topic}", expression, (str, type(None)), "str or Sql")
    try:
        (expression or "").encode()
    except UnicodeEncodeError as e:
        raise UnusableExpressionError(f"the expression of {topic} cannot be sent: {e}") from None
    kind = SQL92 if isinstance(expression, Sql) else TAG
    if kind == SQL92 and not expression.strip():
        raise UnusableExpressionError(f"the Sql of {topic} is empty: '*' subscribes to all")
    if kind == TAG and expression and _LIKE_SQL.search(expression):
        raise UnusableExpressionError(
            f"the expression of {topic} is no list of tags such as 'TagA || TagB': "
            f"{expression!r:.100}. If it is SQL92, write pyrmq.Sql(...)"
        )
    try:
        return Subscription.parse(topic, expression, version, kind)
    except SubscriptionError as e:
        raise UnusableExpressionError(*e.args) from None


def check_subscriptions(
    subscriptions: object, version: int, wire: Callable[[str], str]
) -> dict[str, Subscription]:
    """A consumer's subscriptions, by the brokers' topic names (`wire`); `version` in ms. Raises
    ClientError and the errors of `check_topic` and `parse_subscription`."""
    wanted = "a dict of topics and tag expressions, such as {'TopicTest': '*'},"
    check_kind("subscriptions", subscriptions, (Mapping,), wanted)
    assert isinstance(subscriptions, Mapping)
    if not subscriptions:
        raise ClientError("a consumer needs at least one subscription")
    found = {}
    for topic, expression in subscriptions.items():
        check_topic(topic)
        name = wire(topic)
        check_topic(name)
        found[name] = parse_subscription(name, expression, version)
    return found


def check_trace(trace: bool, topic: str) -> None:
    """Raises UnusableNameError for the topic, and ClientError if it is given without `trace`."""
    check_topic(topic)
    if topic != names.TRACE_TOPIC and not trace:
        raise ClientError("trace_topic needs trace=True")
