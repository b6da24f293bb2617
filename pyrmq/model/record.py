"""Messages as brokers store them: records, and batches of them. [MessageDecoder]"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from zlib import crc32

from pyrmq.engine import read_records
from pyrmq.errors import ProtocolError, UndecodableBodyError
from pyrmq.model.compression import COMPRESSED, COMPRESSION_MASK, MAX_BODY, decompress
from pyrmq.model.properties import KEYS, TAGS, UNIQ_KEY, decode_properties, split_keys

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MULTI_TAGS = 0x2
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
_SHORT = struct.Struct(">h")
_ENTRY = struct.Struct(">iiiii")


@dataclass(slots=True)
class ReceivedMessage:
    """A stored message. Times are ms since 1970, hosts `ip:port`, sizes bytes. [MessageExt]

    `queue_offset` counts messages of the queue from 0, `commit_log_offset` bytes of the broker's
    log. `body` is decompressed; `body_crc` is that of the stored body. `reconsume_times` counts the
    deliveries after the first one. `properties` has the system's (UNIQ_KEY, KEYS, TAGS, …) and the
    sender's own.

    If the body cannot be decompressed, `body` raises UndecodableBodyError, `body_error` returns
    that error, and `raw_body` has the stored bytes.
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
        """`body`, or the stored bytes if it cannot be decompressed."""
        return self.body

    @property
    def tags(self) -> str | None:
        """The tag of the message."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys of the message."""
        return split_keys(self.properties.get(KEYS))

    @property
    def msg_id(self) -> str:
        """UNIQ_KEY if the message has one, else the offset id."""
        return self.properties.get(UNIQ_KEY) or self.offset_msg_id

    @property
    def transaction_id(self) -> str | None:
        """UNIQ_KEY, which is the `transaction_id` of the sent message."""
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
        place = f"topic {made.topic}, queue {made.queue_id}, offset {made.queue_offset}"
        made._error = UndecodableBodyError(f"the body of message {made.msg_id}: {why}; {place}")
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


def decode_record(data: bytes | memoryview, *, inflate_body: bool = True) -> ReceivedMessage:
    """Reads the record that `data` starts with; the body may be left as it is stored. Where it
    cannot be decompressed the message is an UndecodableMessage. ProtocolError if it is none."""
    size = int.from_bytes(data[:4], "big", signed=True)
    messages, damage, _ = read_records(bytes(data[: max(size, 1)]), ReceivedMessage, "")
    if not messages:
        raise ProtocolError(damage[0] if damage else "not a message record: nothing")
    (message,) = messages
    return _unpacked(message) if inflate_body and message.sys_flag & COMPRESSED else message


class Room:
    """How many bytes the compressed bodies of one answer may have together, decompressed: some
    kilobytes can stand for gigabytes. The first of them may have `MAX_BODY` by itself.

    `cuts`: the answer ends before the message that has no room, whose offset is `cut` then: it is
    to be pulled again. Otherwise that message is an UndecodableMessage.
    """

    def __init__(self, *, cuts: bool = False) -> None:
        self.left = MAX_BODY
        self.cuts = cuts
        self.cut: int | None = None

    def next_offset(self, start: int, following: int) -> int:
        """Where the next pull goes after one at `start` that continues at `following`.
        ProtocolError."""
        if self.cut is None:
            return following
        if not start < self.cut < following:
            raise ProtocolError(f"a pull at {start} has a message of offset {self.cut}")
        return self.cut


class _NoRoomError(Exception):
    pass


def _unpacked(message: ReceivedMessage, room: Room | None = None) -> ReceivedMessage:
    """An UndecodableMessage if its body cannot be decompressed. _NoRoomError."""
    limit = MAX_BODY if room is None else room.left
    try:
        message.body = decompress(message.body, message.sys_flag, limit)
    except ProtocolError as e:
        if room is None or limit == MAX_BODY:
            return UndecodableMessage.of(message, e)
        if room.cuts:  # it may be damaged, too: that is found where it is the first
            raise _NoRoomError from e
        return UndecodableMessage.of(
            message,
            f"{e}: {limit} bytes were left of the {MAX_BODY} that the compressed bodies of one "
            "answer may have; ask for it alone",
        )
    if room is not None:
        room.left -= len(message.body)
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
        store_host, reconsume_times, 0, 0, crc32(body) & 0x7FFFFFFF, properties, "",
    )  # fmt: skip
    return _unpacked(message) if sys_flag & COMPRESSED else message


def decode_records(
    data: bytes | memoryview,
    on_damage: Callable[[ProtocolError], None] | None = None,
    *,
    broker_name: str = "",
    inflate_body: bool = True,
    room: Room | None = None,
) -> list[ReceivedMessage]:
    """The records of a pull answer, back to back. One that is damaged is a ProtocolError, or is
    reported to `on_damage` and left out. `room`: for bodies that are decompressed."""
    messages, damage, packed = read_records(bytes(data), ReceivedMessage, broker_name)
    for text in damage:
        _report(ProtocolError(text), on_damage)
    if not packed:
        return messages
    found: list[ReceivedMessage] = []
    room = room or Room()
    for message in messages:
        if message.sys_flag & (COMPRESSED | INNER_BATCH):
            try:
                found += _contained(message, inflate_body, room)
            except _NoRoomError:
                room.cut = message.queue_offset
                break
            except ProtocolError as e:
                _report(e, on_damage)
        else:
            found.append(message)
    return found


def _report(error: ProtocolError, on_damage: Callable[[ProtocolError], None] | None) -> None:
    if on_damage is None:
        raise error
    on_damage(error)


def _contained(message: ReceivedMessage, inflate_body: bool, room: Room) -> list[ReceivedMessage]:
    """A message that is compressed, or an inner batch."""
    if inflate_body and message.sys_flag & COMPRESSED:
        message = _unpacked(message, room)
    packed = message.sys_flag & COMPRESSED or message.body_error is not None
    if packed or not message.sys_flag & INNER_BATCH:
        return [message]
    return list(_unwrap(message))


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
    return b"".join([encode_entry(*entry) for entry in entries])


def encode_entry(flag: int, body: bytes, properties: str) -> bytes:
    """One message of a batch."""
    raw = properties.encode()
    size = 22 + len(body) + len(raw)
    head = _ENTRY.pack(size, 0, 0, flag, len(body))
    return b"".join((head, body, _SHORT.pack(len(raw)), raw))
