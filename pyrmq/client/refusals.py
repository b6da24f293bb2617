"""What a client refuses before anything is sent: the rules of pyrmq.model as NotSentErrors.

Brokers check by the same rules; what they find becomes an answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyrmq.errors import (
    InvalidParameterError,
    MessageIllegalError,
    SubscriptionError,
    UnsendableMessageError,
    UnusableExpressionError,
    UnusableNameError,
)
from pyrmq.model import message, names
from pyrmq.model.subscription import Subscription


def check_topic(topic: str) -> None:
    """UnusableNameError unless a topic may have this name."""
    try:
        names.check_topic(topic)
    except InvalidParameterError as e:
        raise UnusableNameError(*e.args) from None


def check_group(group: str) -> None:
    """UnusableNameError unless a group may have this name."""
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
    """A topic with a tag expression; `version` in ms. UnusableExpressionError."""
    try:
        return Subscription.parse(topic, expression, version)
    except SubscriptionError as e:
        raise UnusableExpressionError(*e.args) from None
