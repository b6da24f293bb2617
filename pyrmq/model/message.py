"""Messages to send, and the results of sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import cast

from pyrmq.errors import ProtocolError, UnsendableMessageError
from pyrmq.model.properties import (
    DELAY,
    KEYS,
    PRIORITY,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    TIMER_PROPERTIES,
    UNIQ_KEY,
    WAIT,
)
from pyrmq.model.record import ReceivedMessage as ReceivedMessage
from pyrmq.model.record import decode_record as decode_record
from pyrmq.model.record import decode_records as decode_records


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of a topic on one broker; sorted by topic, broker name and queue id, as in
    RocketMQ. [MessageQueue]"""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"queue {self.queue_id} of topic {self.topic} on broker {self.broker_name}"

    def to_json(self) -> dict[str, object]:
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    def as_key(self) -> tuple[tuple[str, object], ...]:
        """The queue as the key of a JSON object; fastjson writes it as an object."""
        return tuple(self.to_json().items())

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> MessageQueue:
        topic, name, queue = value.get("topic"), value.get("brokerName"), value.get("queueId")
        if not isinstance(topic, str) or not isinstance(name, str) or not isinstance(queue, int):
            raise ProtocolError(f"not a message queue: {value!r}"[:200])
        return cls(topic, name, queue)


_NONE = 0
"""CPython has one 0 only; where another one is met, more is checked."""


@dataclass(slots=True)
class Message:
    """A message to send. [Message]

    topic: 1 to 127 of the characters `%|a-zA-Z0-9_-`.
    body: at least one byte, at most the producer's `max_message_size`.
    tags: one tag, by which consumers can select.
    keys: keys that find the message; several as a list, or separated by blanks.
    flag: 32 bits for the user.
    wait_store_ok: with SYNC_FLUSH, the broker answers when the message is on disk.
    properties: the user's own. Names and values contain no 0x01 and 0x02; all properties together
    have at most 32767 bytes of UTF-8; empty values are not sent.

    At most one of the next three delays the delivery:
    delay: seconds or a timedelta, from when the broker gets the message.
    deliver_at: a datetime with a timezone, or seconds since 1970. A time that is over is no delay.
    Both make a timer message: any time up to the broker's timerMaxDelaySec (3 days) ahead. The
    result of the send has a handle for `recall`. A broker older than RocketMQ 5.0 would deliver
    them at once: the send raises UnsendableMessageError.
    delay_time_level: the delay of this level, by default 1 to 18 for 1s 5s 10s 30s 1m to 10m 20m
    30m 1h 2h (messageDelayLevel of the broker). A higher level counts as the highest, up to 2^31-1;
    0: no delay.

    priority: 0 to 2^31-1, a higher one is consumed first. The broker stores the message in the
    queue of that number, or in the last one. Only in a topic with `message.type=PRIORITY`, and for
    consumers in POP mode, it decides the order; it needs RocketMQ 5.4.

    Raises UnsendableMessageError for a value of the wrong type.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | list[str] | None = None
    flag: int = 0
    wait_store_ok: bool = True
    properties: dict[str, str] = field(default_factory=dict)
    delay_time_level: int = 0
    delay: float | timedelta | None = None
    deliver_at: float | datetime | None = None
    priority: int | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raises UnsendableMessageError unless each field has its type. (A producer checks
        again.)"""
        # Twice for each message that is sent: no calls where all is well, and little for most.
        if (
            type(self.topic) is str
            and type(self.body) is bytes
            and (self.tags is None or type(self.tags) is str)
            and (self.keys is None or type(self.keys) is str)
            and type(self.properties) is dict
            and not self.properties
            and self.flag is _NONE
            and self.delay_time_level is _NONE
            and self.delay is None
            and self.deliver_at is None
            and self.priority is None
        ):
            return
        if not isinstance(self.topic, str):
            raise _wrong("the topic", self.topic, "str")
        if not isinstance(self.body, (bytes, bytearray)):
            raise _wrong("the message body", self.body, "bytes")
        if self.tags is not None and not isinstance(self.tags, str):
            raise _wrong("tags", self.tags, "str, one tag,")
        if self.keys is not None and not isinstance(self.keys, str):
            self._check_keys()
        if not isinstance(self.properties, dict):
            raise _wrong("properties", self.properties, "a dict")
        for name, value in self.properties.items():
            if not isinstance(name, str):
                raise _wrong("the name of a property", name, "str")
            if not isinstance(value, str):
                raise _wrong(f"property {name!r}", value, "str")
        if type(self.flag) is not int or not -0x80000000 <= self.flag < 0x80000000:
            raise UnsendableMessageError(f"flag {self.flag!r}: an int of 32 bits is needed")
        if (
            type(self.delay_time_level) is not int
            or self.delay_time_level
            or self.delay is not None
            or self.deliver_at is not None
        ):
            self._check_delay()
        if self.priority is not None:
            self._check_priority()

    def _check_keys(self) -> None:
        if not isinstance(self.keys, list | tuple):
            raise _wrong("keys", self.keys, "str or a list of them")
        for key in self.keys:
            if not isinstance(key, str):
                raise _wrong("one of keys", key, "str")

    def _check_delay(self) -> None:
        level = self.delay_time_level
        if type(level) is not int or not 0 <= level < 1 << 31:
            raise UnsendableMessageError(
                f"delay_time_level {level!r}: a level from 1 to 2^31-1 expected, or 0"
            )
        if self.delay is None and self.deliver_at is None:
            return
        if bool(level) + (self.delay is not None) + (self.deliver_at is not None) > 1:
            raise UnsendableMessageError("give one of delay_time_level, delay and deliver_at")
        value: object = self.deliver_at if self.delay is None else _seconds(self.delay)
        if isinstance(value, datetime):
            if value.tzinfo is None:
                raise UnsendableMessageError(
                    f"deliver_at {value} has no timezone: give datetime(..., tzinfo=UTC), "
                    "datetime.now(UTC) + ..., or .astimezone() for local time"
                )
            value = value.timestamp()
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= cast(float, value) < 1 << 40:
            what = "deliver_at: a datetime or seconds since 1970"
            if self.delay is not None:
                what = "delay: seconds or a timedelta"
            given = self.deliver_at if self.delay is None else self.delay
            raise UnsendableMessageError(f"{what} expected, not {given!r}")

    def _check_priority(self) -> None:
        if type(self.priority) is not int or not 0 <= self.priority < 1 << 31:
            raise UnsendableMessageError(
                f"priority {self.priority!r}: a whole number from 0 to 2^31-1 expected"
            )
        if self.is_delayed:
            raise UnsendableMessageError("give either priority or a delay: brokers drop the other")
        if SHARDING_KEY in self.properties:
            raise UnsendableMessageError("give either priority or a sharding key: both choose")

    def all_properties(self) -> dict[str, str]:
        """The user's properties, and WAIT, TAGS, KEYS, DELAY, the priority and those of timers."""
        out = dict(self.properties)
        out[WAIT] = "true" if self.wait_store_ok else "false"
        if self.tags:
            out[TAGS] = self.tags
        if self.keys:
            out[KEYS] = self.keys if isinstance(self.keys, str) else " ".join(self.keys)
        if self.delay_time_level:
            out[DELAY] = str(self.delay_time_level)
        elif self.delay is not None:
            milliseconds = round(_seconds(self.delay) * 1000)
            if milliseconds:
                out[TIMER_DELAY_MS] = str(milliseconds)
        elif self.deliver_at is not None:
            at = self.deliver_at
            when = at.timestamp() if isinstance(at, datetime) else at
            out[TIMER_DELIVER_MS] = str(round(when * 1000))
        if self.priority is not None:
            out[PRIORITY] = str(self.priority)
        return out

    @property
    def is_delayed(self) -> bool:
        """Whether its delivery is delayed, in any of the three ways."""
        return (
            self.delay_time_level > 0
            or bool(self.delay)
            or self.deliver_at is not None
            or (
                bool(self.properties)
                and (
                    self.properties.get(DELAY, "0") != "0"
                    or not TIMER_PROPERTIES.isdisjoint(self.properties)
                )
            )
        )

    @property
    def is_timer(self) -> bool:
        """Whether it is sent as a timer message."""
        return bool(self.delay) or self.deliver_at is not None

    @property
    def has_priority(self) -> bool:
        """Whether the broker chooses its queue by a priority."""
        return self.priority is not None or (bool(self.properties) and PRIORITY in self.properties)

    @property
    def transaction_id(self) -> str | None:
        """UNIQ_KEY, which a message has after it was sent in a transaction."""
        return self.properties.get(UNIQ_KEY)


def _wrong(what: str, value: object, wanted: str) -> UnsendableMessageError:
    return UnsendableMessageError(f"{what} is {type(value).__name__}, {wanted} is needed")


def _seconds(delay: float | timedelta) -> float:
    return delay.total_seconds() if isinstance(delay, timedelta) else delay


class SendStatus(Enum):
    """How an acknowledged message is stored; its text is its name. Any status other than SEND_OK
    means that the broker stored the message but did not flush or replicate it in time.
    [SendStatus]"""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of a send. [SendResult]

    status: how the message is stored. msg_id: its UNIQ_KEY, 32 hex digits from the client (for a
    batch: joined by commas). offset_msg_id: broker address and physical offset in hex, from the
    broker. queue_offset: its offset in `queue`, from 0; for a batch that of the first message.
    transaction_id: for a half message. region_id: the broker's region. trace_on: whether the broker
    wants messages traced. recall_handle: for `Producer.recall`, of a timer message.
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    recall_handle: str | None = None
