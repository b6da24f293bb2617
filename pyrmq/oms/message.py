"""Headers, messages with system headers and user headers, and what messages are in RocketMQ.
[DefaultKeyValue, BytesMessageImpl, OMSUtil]"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, MutableMapping
from enum import StrEnum
from typing import Self

from pyrmq.client.checks import check_kind
from pyrmq.errors import ClientError, NotSupportedError, UnsendableMessageError
from pyrmq.model.message import Message as RocketMessage
from pyrmq.model.names import without_namespace
from pyrmq.model.properties import KEYS, SHARDING_KEY, SYSTEM_PROPERTIES, TAGS
from pyrmq.model.record import ReceivedMessage

Value = str | int | float
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?|Infinity|NaN)")
_LONG = 1 << 63


class KeyValue(MutableMapping[str, str]):
    """A dict of strings. Numbers become text in Java's format.

        headers = KeyValue(region="eu")
        headers["attempt"] = 3
        headers.get_int("attempt")

    Raises ClientError for a value that is neither str, int (of 64 bits) nor float.
    """

    __slots__ = ("_texts",)

    def __init__(self, values: Mapping[str, Value] | None = None, /, **named: Value) -> None:
        self._texts: dict[str, str] = {}
        if values is not None and not isinstance(values, Mapping):
            raise ClientError(f"headers and attributes are a dict, not {type(values).__name__}")
        for name, value in {**(values or {}), **named}.items():
            self[name] = value

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __setitem__(self, name: str, value: Value) -> None:
        if not isinstance(name, str) or not name:
            raise ClientError(f"the name of a header or attribute is {name!r:.80}; str is needed")
        self._texts[str.__str__(name)] = _text(name, value)

    def __delitem__(self, name: str) -> None:
        del self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"KeyValue({self._texts!r})"

    def put(self, name: str, value: Value) -> Self:
        """Sets a value; calls can be chained."""
        self[name] = value
        return self

    def get_int(self, name: str, default: int = 0) -> int:
        """A value as a whole number; `default` if it is missing. Raises ClientError if it is not a
        number."""
        text = self._texts.get(name)
        if text is None:
            return default
        if not _WHOLE.fullmatch(text) or not -_LONG <= int(text) < _LONG:
            raise ClientError(f"{name} is {text!r:.80}, which is no whole number of 64 bits")
        return int(text)

    def get_float(self, name: str, default: float = 0.0) -> float:
        """A value as a number; `default` if it is missing. Raises ClientError if it is not a
        number."""
        text = self._texts.get(name)
        if text is None:
            return default
        if len(text) > 400 or not _NUMBER.fullmatch(text):
            raise ClientError(f"{name} is {text!r:.80}, which is no number")
        return float(text)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)  # of members of an Enum too
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ClientError(f"{name} is {type(value).__name__}; str, int or float is needed")
    if isinstance(value, int):
        if not -_LONG <= value < _LONG:
            raise ClientError(f"{name} has more than 64 bits: give it as a str")
        return str(int(value))
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if math.isnan(value) else repr(float(value))


class Header(StrEnum):
    """Names of system headers; plain strings work as well. [Message.BuiltinKeys]"""

    MESSAGE_ID = "MESSAGE_ID"
    DESTINATION = "DESTINATION"
    RECEIPT_HANDLE = "RECEIPT_HANDLE"
    BORN_TIMESTAMP = "BORN_TIMESTAMP"
    BORN_HOST = "BORN_HOST"
    STORE_TIMESTAMP = "STORE_TIMESTAMP"
    STORE_HOST = "STORE_HOST"
    START_TIME = "START_TIME"
    STOP_TIME = "STOP_TIME"
    TIMEOUT = "TIMEOUT"
    PRIORITY = "PRIORITY"
    RELIABILITY = "RELIABILITY"
    SEARCH_KEYS = "SEARCH_KEYS"
    SCHEDULE_EXPRESSION = "SCHEDULE_EXPRESSION"
    TRACE_ID = "TRACE_ID"
    STREAM_KEY = "STREAM_KEY"
    REDELIVERED_NUMBER = "REDELIVERED_NUMBER"
    REDELIVERED_REASON = "REDELIVERED_REASON"


_NOT_SUPPORTED = {
    Header.STOP_TIME: "messages do not expire in RocketMQ",
    Header.TIMEOUT: "messages do not expire in RocketMQ; for the time of a send use its `timeout`",
    Header.RELIABILITY: "it is the broker's flushDiskType that says how safe a message is",
    Header.SCHEDULE_EXPRESSION: "a message has one time, START_TIME",
}
_SENT = (Header.START_TIME, Header.PRIORITY, Header.TRACE_ID, Header.STREAM_KEY)
_NAMES = frozenset(str(header) for header in Header)
_HIDDEN = SYSTEM_PROPERTIES | {SHARDING_KEY, "__STARTDELIVERTIME"}
_INSTEAD = {
    KEYS: ": use the header SEARCH_KEYS",
    SHARDING_KEY: ": use the header STREAM_KEY",
    "__STARTDELIVERTIME": ": use the header START_TIME",
}


class BytesMessage:
    """A message to send, or one that was received.

        BytesMessage("Orders", b"...", user_headers={"region": "eu", "attempt": 1})

    queue: the topic, header DESTINATION.
    user_headers: the user's own; TAGS is the tag by which RocketMQ's consumers select.
    sys_headers, by `Header`: SEARCH_KEYS (keys, separated by blanks), START_TIME (earliest
    delivery, ms since 1970; a timer message), PRIORITY (a number from 0 on), STREAM_KEY (messages
    with the same key go to one queue of the topic, in order), TRACE_ID. Headers that the system
    writes when it stores and delivers a message are not sent, so you can send a received message
    again. `send` refuses all others.
    """

    __slots__ = ("_body", "received", "sys_headers", "user_headers")

    def __init__(
        self,
        queue: str,
        body: bytes,
        *,
        user_headers: Mapping[str, Value] | None = None,
        sys_headers: Mapping[str, Value] | None = None,
    ) -> None:
        check_kind("the queue", queue, (str,), "str, the name of a topic,")
        self.sys_headers = KeyValue(sys_headers).put(Header.DESTINATION, queue)
        self.user_headers = KeyValue(user_headers)
        self.body = body
        self.received: ReceivedMessage | None = None
        """pyrmq's form of the message, with offsets and the stored body."""

    @property
    def body(self) -> bytes:
        """The body. Raises UndecodableBodyError if a received body cannot be decompressed."""
        if self._body is None:
            assert self.received is not None
            return self.received.body
        return self._body

    @body.setter
    def body(self, body: bytes) -> None:
        check_kind("the body", body, (bytes, bytearray), "bytes")
        self._body: bytes | None = body

    @property
    def queue(self) -> str:
        """The topic: header DESTINATION."""
        return self.sys_headers.get(Header.DESTINATION, "")

    @property
    def message_id(self) -> str | None:
        """Header MESSAGE_ID; None before the message is sent."""
        return self.sys_headers.get(Header.MESSAGE_ID)

    def __repr__(self) -> str:
        return (
            f"BytesMessage(queue={self.queue!r}, message_id={self.message_id!r}, "
            f"user_headers={dict(self.user_headers)!r})"
        )


def to_rocketmq(message: BytesMessage) -> tuple[RocketMessage, str | None]:
    """RocketMQ's form of a message, and its sharding key. Raises NotSentError and
    NotSupportedError."""
    check_kind("what is sent", message, (BytesMessage,), "a BytesMessage")
    system = message.sys_headers
    for name in system:
        if name in _NOT_SUPPORTED:
            raise NotSupportedError(
                f"header {name} is not supported: {_NOT_SUPPORTED[Header(name)]}"
            )
        if name not in _NAMES:
            raise UnsendableMessageError(
                f"{name!r:.80} is no system header: put it into user_headers"
            )
    user = dict(message.user_headers)
    tags = user.pop(TAGS, None)
    for name in user:
        if name in _NAMES:
            raise UnsendableMessageError(f"{name} is a system header: put it into sys_headers")
        if name in _HIDDEN:
            raise UnsendableMessageError(
                f"{name} is a property of RocketMQ's own{_INSTEAD.get(name, '')}"
            )
    start = system.get_int(Header.START_TIME)
    priority = system.get_int(Header.PRIORITY) if Header.PRIORITY in system else None
    return RocketMessage(
        message.queue,
        message.body,
        tags=tags,
        keys=system.get(Header.SEARCH_KEYS),
        properties=user | {str(name): system[name] for name in _SENT if name in system},
        deliver_at=start / 1000 if start > 0 else None,
        priority=priority,
    ), system.get(Header.STREAM_KEY)


def from_rocketmq(message: ReceivedMessage, namespace: str) -> BytesMessage:
    """OpenMessaging's form of a message. Of RocketMQ's own properties only TAGS becomes a
    header."""
    properties = message.properties
    user = {
        name: text
        for name, text in properties.items()
        if name == TAGS or (name not in _HIDDEN and name not in _NAMES)
    }
    system: dict[str, Value] = {n: properties[n] for n in Header if n in properties}
    if keys := properties.get(KEYS):
        system[Header.SEARCH_KEYS] = keys
    system |= {
        Header.MESSAGE_ID: message.msg_id,
        Header.BORN_TIMESTAMP: message.born_timestamp,
        Header.BORN_HOST: message.born_host,
        Header.STORE_TIMESTAMP: message.store_timestamp,
        Header.STORE_HOST: message.store_host,
        Header.REDELIVERED_NUMBER: message.reconsume_times,
    }
    out = BytesMessage(
        without_namespace(namespace, message.topic), b"", user_headers=user, sys_headers=system
    )
    out.received, out._body = message, None
    return out
