"""Messages as users send and get them, and their property string."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import Enum
from ipaddress import ip_address
from typing import cast

from pyrmq.errors import (
    MessageIllegalError,
    ProtocolError,
    UndecodableBodyError,
    UnsendableMessageError,
)
from pyrmq.model.compression import COMPRESSED, COMPRESSION_MASK, decompress

NAME_END = "\x01"
VALUE_END = "\x02"
MAX_PROPERTIES = 32767

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MULTI_TAGS = 0x2
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80

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
    if len(text.encode()) > MAX_PROPERTIES:
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


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of a topic on one broker; sorted by topic, broker name, queue id as RocketMQ does.
    [MessageQueue]"""

    topic: str
    broker_name: str
    queue_id: int

    def to_json(self) -> dict[str, object]:
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    def as_key(self) -> tuple[tuple[str, object], ...]:
        """As the key of a JSON object, which fastjson writes as an object."""
        return tuple(self.to_json().items())

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> MessageQueue:
        topic, name, queue = value.get("topic"), value.get("brokerName"), value.get("queueId")
        if not isinstance(topic, str) or not isinstance(name, str) or not isinstance(queue, int):
            raise ProtocolError(f"not a message queue: {value!r}"[:200])
        return cls(topic, name, queue)


@dataclass(slots=True)
class Message:
    """A message to send. [Message]

    topic: 1 to 127 of the characters `%|a-zA-Z0-9_-`. body: at least one byte, at most the
    producer's `max_message_size`. tags: one tag, which consumers select by. keys: what the message
    is found by, several as a list or separated by blanks. flag: 32 bits for the user's own use.
    wait_store_ok: with a broker of SYNC_FLUSH, the answer waits for the disk. properties: the
    user's own, names and values without 0x01 and 0x02, all properties together at most 32767
    bytes of UTF-8; empty values are not sent.

    At most one of these three says that consumers get it later. delay_time_level: after the delay
    of this level, by default 1 to 18 for 1s 5s 10s 30s 1m to 10m 20m 30m 1h 2h (messageDelayLevel
    of the broker; a higher one counts as the highest, at most 2^31-1); 0: at once. delay: seconds
    or a timedelta; where it is that of a default level the level is sent, else the message is a
    timer message. deliver_at: a datetime or seconds since 1970; a timer message. Timer messages
    are refused by pyrmq's brokers, and delivered at once by Apache RocketMQ's of 4.x.

    UnsendableMessageError for a value of the wrong kind.
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

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """UnsendableMessageError unless each field is of its kind. (A producer checks again.)"""
        _check_kind("the topic", self.topic, str, "str")
        _check_kind("the message body", self.body, (bytes, bytearray), "bytes")
        if self.tags is not None:
            _check_kind("tags", self.tags, str, "str, one tag,")
        if isinstance(self.keys, list | tuple):
            for key in self.keys:
                _check_kind("one of keys", key, str, "str")
        elif self.keys is not None:
            _check_kind("keys", self.keys, str, "str or a list of them")
        _check_kind("properties", self.properties, dict, "a dict")
        for name, value in self.properties.items():
            _check_kind("the name of a property", name, str, "str")
            _check_kind(f"property {name!r}", value, str, "str")
        if type(self.flag) is not int or not -1 << 31 <= self.flag < 1 << 31:
            raise UnsendableMessageError(f"flag {self.flag!r}: an int of 32 bits is needed")
        self._check_delay()

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
            value = value.timestamp()
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= cast(float, value) < 1 << 40:
            what = "deliver_at: a datetime or seconds since 1970"
            if self.delay is not None:
                what = "delay: seconds or a timedelta"
            given = self.deliver_at if self.delay is None else self.delay
            raise UnsendableMessageError(f"{what} expected, not {given!r}")

    def all_properties(self) -> dict[str, str]:
        """The user's properties with WAIT, TAGS, KEYS, DELAY and those of timers."""
        out = dict(self.properties)
        out[WAIT] = "true" if self.wait_store_ok else "false"
        if self.tags:
            out[TAGS] = self.tags
        if self.keys:
            out[KEYS] = self.keys if isinstance(self.keys, str) else " ".join(self.keys)
        if self.delay_time_level:
            out[DELAY] = str(self.delay_time_level)
        elif self.delay is not None:
            seconds = _seconds(self.delay)
            if seconds in DELAY_LEVELS:
                out[DELAY] = str(DELAY_LEVELS.index(int(seconds)) + 1)
            elif seconds:
                out[TIMER_DELAY_MS] = str(round(seconds * 1000))
        elif self.deliver_at is not None:
            at = self.deliver_at
            when = at.timestamp() if isinstance(at, datetime) else at
            out[TIMER_DELIVER_MS] = str(round(when * 1000))
        return out

    @property
    def is_delayed(self) -> bool:
        """Whether it comes later, whichever way that was set."""
        return (
            self.delay_time_level > 0
            or bool(self.delay)
            or self.deliver_at is not None
            or self.properties.get(DELAY, "0") != "0"
            or not TIMER_PROPERTIES.isdisjoint(self.properties)
        )

    @property
    def transaction_id(self) -> str | None:
        """UNIQ_KEY, which a message has once it was sent in a transaction."""
        return self.properties.get(UNIQ_KEY)


def _check_kind(what: str, value: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    if not isinstance(value, kinds):
        raise UnsendableMessageError(f"{what} is {type(value).__name__}, {wanted} is needed")


def _seconds(delay: float | timedelta) -> float:
    return delay.total_seconds() if isinstance(delay, timedelta) else delay


class SendStatus(Enum):
    """How safe an acknowledged message is; as text its name. All but SEND_OK mean that the broker
    has the message, but not as safely as it is configured to. [SendStatus]"""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a message went. [SendResult]

    status: how safe it is. msg_id: its UNIQ_KEY, 32 hex digits made by the client (a batch: joined
    by commas). offset_msg_id: broker address and physical offset in hex, made by the broker.
    queue_offset: its place in `queue`, from 0; a batch's first. transaction_id: of a half message.
    region_id: the broker's region. trace_on: whether the broker wants messages traced.
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = "DefaultRegion"
    trace_on: bool = True


@dataclass(slots=True)
class ReceivedMessage:
    """A message as stored. Times are ms since 1970, hosts `ip:port`, sizes bytes. [MessageExt]

    queue_offset counts messages of the queue from 0, commit_log_offset bytes of the broker's log.
    `body` is uncompressed, `body_crc` that of the body as stored. `reconsume_times` counts
    deliveries after the first one that the broker arranged. `properties` holds the system's
    (UNIQ_KEY, KEYS, TAGS, …) and the sender's own.

    Reading `body` raises UndecodableBodyError where it cannot be decompressed; then `body_error` is
    that error and `raw_body` what is stored.
    """

    topic: str
    body: bytes
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    store_size: int
    body_crc: int
    properties: dict[str, str]
    offset_msg_id: str
    broker_name: str = ""

    @property
    def body_error(self) -> UndecodableBodyError | None:
        """Why `body` cannot be read; None if it can."""
        return None

    @property
    def raw_body(self) -> bytes:
        """`body`, or where that cannot be read the bytes that are stored."""
        return self.body

    @property
    def tags(self) -> str | None:
        """The tag that the message was sent with."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys that the message was sent with."""
        return self.properties.get(KEYS, "").split()

    @property
    def msg_id(self) -> str:
        """UNIQ_KEY if the message has one, else the offset id."""
        return self.properties.get(UNIQ_KEY) or self.offset_msg_id

    @property
    def transaction_id(self) -> str | None:
        """UNIQ_KEY: the `transaction_id` that the message had when it was sent."""
        return self.properties.get(UNIQ_KEY)


class UndecodableMessage(ReceivedMessage):
    """A message whose body is there as it is stored only: `sys_flag` keeps how it is said to be
    compressed."""

    __slots__ = ("_error", "_raw")

    _error: UndecodableBodyError
    _raw: bytes

    @classmethod
    def of(cls, message: ReceivedMessage, why: object) -> UndecodableMessage:
        """The message `message`, which has the stored body, with the error `why`."""
        made = cls(**{f.name: getattr(message, f.name) for f in fields(message)})
        made._error = UndecodableBodyError(f"the body of message {made.msg_id}: {why}")
        return made

    @property
    def body(self) -> bytes:
        # Another one each time: each has the traceback of whoever read.
        raise UndecodableBodyError(*self._error.args)

    @body.setter
    def body(self, raw: bytes) -> None:
        self._raw = raw

    @property
    def body_error(self) -> UndecodableBodyError:
        return self._error

    @property
    def raw_body(self) -> bytes:
        return self._raw

    def __repr__(self) -> str:
        return f"UndecodableMessage({self.topic!r}, {self.msg_id!r}, {str(self._error)!r})"

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]  # as that of other messages


def _host(data: memoryview, at: int, v6: bool) -> tuple[str, int]:
    size = 16 if v6 else 4
    ip = ip_address(bytes(data[at : at + size]))
    (port,) = struct.unpack_from(">i", data, at + size)
    return (f"[{ip}]:{port}" if v6 else f"{ip}:{port}"), at + size + 4


def decode_record(data: memoryview, *, inflate_body: bool = True) -> ReceivedMessage:
    """Reads the record that `data` starts with; the body may be left as it is stored. Where it
    cannot be decompressed the message is an UndecodableMessage. ProtocolError if it is none."""
    try:
        message = _decode(data)
    except (struct.error, ValueError, IndexError) as e:
        raise ProtocolError(f"not a message record: {e}") from e
    return _unpacked(message) if inflate_body and message.sys_flag & COMPRESSED else message


def _unpacked(message: ReceivedMessage) -> ReceivedMessage:
    try:
        message.body = decompress(message.body, message.sys_flag)
    except ProtocolError as e:
        return UndecodableMessage.of(message, e)
    message.sys_flag &= ~(COMPRESSED | COMPRESSION_MASK)
    return message


def received(
    *,
    topic: str,
    body: bytes,
    queue_id: int,
    flag: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: str,
    store_timestamp: int,
    store_host: str,
    reconsume_times: int,
    properties: dict[str, str],
) -> ReceivedMessage:
    """A message that did not come as a record: it has no place in a queue. Its body is `body`
    decompressed, if `sys_flag` says so."""
    message = ReceivedMessage(
        topic, body, queue_id, -1, -1, flag, sys_flag, born_timestamp, born_host, store_timestamp,
        store_host, reconsume_times, 0, 0, zlib.crc32(body) & 0x7FFFFFFF, properties, "",
    )  # fmt: skip
    return _unpacked(message) if sys_flag & COMPRESSED else message


def _decode(data: memoryview) -> ReceivedMessage:
    (size, magic, crc, queue_id, flag, queue_offset, phys, sys_flag, born) = struct.unpack_from(
        ">iIiiiqqiq", data
    )
    if magic not in (MAGIC_V1, MAGIC_V2) or size > len(data):
        raise ProtocolError("not a message record: magic or size")
    born_host, at = _host(data, 48, bool(sys_flag & BORN_HOST_V6))
    (stored,) = struct.unpack_from(">q", data, at)
    host_at = at + 8
    store_host, at = _host(data, host_at, bool(sys_flag & STORE_HOST_V6))
    offset_id = bytes(data[host_at:at]).hex().upper() + struct.pack(">q", phys).hex().upper()
    reconsume, prepared, body_len = struct.unpack_from(">iqi", data, at)
    at += 16
    body = bytes(data[at : at + body_len])
    if body and zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise ProtocolError(f"the body of the message at {phys} does not fit its CRC")
    at += body_len
    if magic == MAGIC_V2:
        (topic_len,) = struct.unpack_from(">h", data, at)
        at += 2
    else:
        topic_len = data[at]
        at += 1
    topic = bytes(data[at : at + topic_len]).decode()
    at += topic_len
    (props_len,) = struct.unpack_from(">h", data, at)
    at += 2
    props = bytes(data[at : at + props_len]).decode(errors="replace")
    if min(body_len, topic_len, props_len) < 0 or at + props_len != size:
        raise ProtocolError("not a message record: lengths do not add up")
    return ReceivedMessage(
        topic=topic,
        body=body,
        queue_id=queue_id,
        queue_offset=queue_offset,
        commit_log_offset=phys,
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp=born,
        born_host=born_host,
        store_timestamp=stored,
        store_host=store_host,
        reconsume_times=reconsume,
        prepared_transaction_offset=prepared,
        store_size=size,
        body_crc=crc,
        properties=decode_properties(props),
        offset_msg_id=offset_id,
    )


def decode_records(
    data: bytes | memoryview,
    on_damage: Callable[[ProtocolError], None] | None = None,
    *,
    inflate_body: bool = True,
) -> Iterator[ReceivedMessage]:
    """The records of a pull answer, back to back. One that is damaged ends it with ProtocolError,
    or is reported to `on_damage` and left out."""
    view = memoryview(data)
    while view:
        size = int.from_bytes(view[:4], "big", signed=True)
        if not 0 < size <= len(view):
            raise ProtocolError("not message records: sizes do not add up")
        try:
            message = decode_record(view[:size], inflate_body=inflate_body)
            whole = message.sys_flag & INNER_BATCH and message.body_error is None
            found = _unwrap(message) if whole else [message]
            yield from found
        except ProtocolError as e:
            if on_damage is None:
                raise
            on_damage(e)
        view = view[size:]


def _unwrap(batch: ReceivedMessage) -> Iterator[ReceivedMessage]:
    """The messages that an inner batch holds; each has its own queue offset."""
    data = memoryview(batch.body)
    for offset in itertools.count(batch.queue_offset):
        if not data:
            return
        try:
            size, _, _, flag, body_len = struct.unpack_from(">iiiii", data)
            (props_len,) = struct.unpack_from(">h", data, 20 + body_len)
        except struct.error as e:
            raise ProtocolError(f"not an inner batch: {e}") from e
        if min(body_len, props_len) < 0 or 22 + body_len + props_len != size or size > len(data):
            raise ProtocolError("not an inner batch: lengths do not add up")
        text = bytes(data[22 + body_len : size]).decode(errors="replace")
        yield replace(
            batch,
            body=bytes(data[20 : 20 + body_len]),
            flag=flag,
            sys_flag=batch.sys_flag & ~(INNER_BATCH | NEED_UNWRAP),
            queue_offset=offset,
            properties=decode_properties(text),
        )
        data = data[size:]


def encode_batch(entries: Iterable[tuple[int, bytes, str]]) -> bytes:
    """The body of a batch send from (flag, body, property string). [MessageDecoder]"""
    out = bytearray()
    for flag, body, props in entries:
        raw = props.encode()
        size = 22 + len(body) + len(raw)
        out += struct.pack(">iiiii", size, 0, 0, flag, len(body))
        out += body
        out += struct.pack(">h", len(raw)) + raw
    return bytes(out)
