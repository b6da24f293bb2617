"""The texts of POP: handles, what an answer says of its messages, retry topics, batches of acks.

A handle (property POP_CK, field extraInfo) says which check point a popped message belongs to. It
comes from clients, so each of its numbers is checked. [ExtraInfoUtil, KeyBuilder, BatchAck]
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyrmq.errors import ProtocolError
from pyrmq.model.names import RETRY_PREFIX

POP_CK: Final = "POP_CK"
"""The property with the handle of a message."""
FIRST_POP_TIME: Final = "1ST_POP_TIME"
"""The property with the time of the first pop, ms."""
ORDERLY: Final = 999
"""The revive queue that an orderly pop names. It has no check point. [POP_ORDER_REVIVE_QUEUE]"""
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""Which topic a message was popped from: the one asked for, or its retry topic."""
MAX_POP = 32
"""Most messages of one pop."""
MAX_INFO = 256 << 10
"""Longest text about the messages of one answer, characters."""
MAX_HANDLE = 1024
"""Longest handle, characters."""
MAX_BITS = 1 << 16
"""Most bits of a batch of acks: how far the messages of one check point may lie apart."""
_INT32, _INT64 = 1 << 31, 1 << 63


def _number(text: str, limit: int, what: str, least: int = 0) -> int:
    digits = text[1:] if text[:1] == "-" else text
    if 0 < len(digits) <= 19 and digits.isascii() and digits.isdigit():
        found = int(text)
        if least <= found < limit:
            return found
    raise ProtocolError(f"{what} is no number from {least} to {limit - 1}: {text[:32]!r}")


@dataclass(frozen=True, slots=True)
class ExtraInfo:
    """A handle: eight fields with blanks between them."""

    start: int
    """Offset of the first message of the check point."""
    pop_time: int
    """Milliseconds since 1970."""
    invisible_time: int
    """Milliseconds."""
    revive_queue: int
    """Queue of the revive topic that the check point is in; ORDERLY: there is none."""
    retry: str
    """NORMAL, RETRY_V1 or RETRY_V2."""
    broker_name: str
    queue_id: int
    offset: int
    """Offset of the message in its queue."""

    def encode(self) -> str:
        return (
            f"{self.start} {self.pop_time} {self.invisible_time} {self.revive_queue} {self.retry} "
            f"{self.broker_name} {self.queue_id} {self.offset}"
        )

    @property
    def orderly(self) -> bool:
        return self.revive_queue == ORDERLY

    def topic(self, topic: str, group: str) -> str:
        """The topic that the message is in, if `topic` was asked for."""
        return real_topic(topic, group, self.retry)

    @classmethod
    def parse(cls, text: str) -> ExtraInfo:
        """ProtocolError for what is no handle. RocketMQ's proxies put more fields behind the eight,
        which brokers do not read."""
        fields = text.split(" ") if len(text) <= MAX_HANDLE else []
        if len(fields) < 8:
            raise ProtocolError(
                f"a handle has eight fields with blanks between them: {text[:64]!r}"
            )
        start, pop_time, invisible, revive, retry, broker, queue, offset = fields[:8]
        if retry not in (NORMAL, RETRY_V1, RETRY_V2):
            raise ProtocolError(f"the retry field of a handle is 0, 1 or 2: {retry[:32]!r}")
        return cls(
            _number(start, _INT64, "the check point of a handle"),
            _number(pop_time, _INT64, "the pop time of a handle"),
            _number(invisible, _INT64, "the invisible time of a handle"),
            _number(revive, _INT32, "the revive queue of a handle"),
            retry,
            broker,
            _number(queue, _INT32, "the queue of a handle"),
            _number(offset, _INT64, "the offset of a handle"),
        )


def retry_topic_v1(topic: str, group: str) -> str:
    """Where RocketMQ puts messages that were popped and not acknowledged."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def retry_topic_v2(topic: str, group: str) -> str:
    """The same with enableRetryTopicV2, which can be taken apart again."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def real_topic(topic: str, group: str, retry: str) -> str:
    if retry == RETRY_V1:
        return retry_topic_v1(topic, group)
    return retry_topic_v2(topic, group) if retry == RETRY_V2 else topic


def retry_of(topic: str) -> str:
    """NORMAL, RETRY_V1 or RETRY_V2 of a topic by its name."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def normal_topic(topic: str, group: str) -> str:
    """The topic that a retry topic of POP belongs to; any other topic is its own."""
    for made in (retry_topic_v2("", group), retry_topic_v1("", group)):
        if topic.startswith(made) and len(topic) > len(made):
            return topic[len(made) :]
    return topic


def start_info(retry: str, queue_id: int, start: int) -> str:
    """An entry of startOffsetInfo."""
    return f"{retry} {queue_id} {start}"


def offsets_info(retry: str, queue_id: int, offsets: Iterable[int]) -> str:
    """An entry of msgOffsetInfo."""
    return f"{retry} {queue_id} {','.join(map(str, offsets))}"


def count_info(retry: str, queue_id: int, count: int, offset: int | None = None) -> str:
    """An entry of orderCountInfo: how often a queue's messages were consumed, or one of them."""
    of = str(queue_id) if offset is None else f"qo{queue_id}%{offset}"
    return f"{retry} {of} {count}"


def _entries(text: str | None, what: str) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    if not text:
        return found
    if len(text) > MAX_INFO:
        raise ProtocolError(f"{what} has more than {MAX_INFO} characters")
    for entry in text.split(";"):
        fields = entry.split(" ")
        if len(fields) != 3 or (key := (fields[0], fields[1])) in found:
            raise ProtocolError(f"{what} has an entry that is none: {entry[:64]!r}")
        found[key] = fields[2]
    return found


def _queue(key: str, what: str) -> int:
    return _number(key, _INT32, f"a queue of {what}")


def parse_start_info(text: str | None) -> dict[tuple[str, int], int]:
    """startOffsetInfo: offset of the check point by retry flag and queue. ProtocolError."""
    what = "startOffsetInfo"
    return {
        (retry, _queue(queue, what)): _number(start, _INT64, f"an offset of {what}")
        for (retry, queue), start in _entries(text, what).items()
    }


def parse_offsets_info(text: str | None) -> dict[tuple[str, int], list[int]]:
    """msgOffsetInfo: offsets of the messages, as they stand in the body. ProtocolError."""
    what = "msgOffsetInfo"
    return {
        (retry, _queue(queue, what)): [
            _number(o, _INT64, f"an offset of {what}") for o in offsets.split(",")
        ]
        for (retry, queue), offsets in _entries(text, what).items()
    }


def parse_count_info(text: str | None) -> dict[tuple[str, int, int | None], int]:
    """orderCountInfo: count by retry flag, queue and offset (None: of the queue). ProtocolError."""
    what = "orderCountInfo"
    found: dict[tuple[str, int, int | None], int] = {}
    for (retry, of), count in _entries(text, what).items():
        if of.startswith("qo"):
            queue, _, at = of[2:].partition("%")
            key = retry, _queue(queue, what), _number(at, _INT64, f"an offset of {what}")
            found[key] = _number(count, _INT32, f"a count of {what}")
        else:
            found[retry, _queue(of, what), None] = _number(count, _INT32, f"a count of {what}")
    return found


_NAMES = {
    "c": "consumerGroup", "t": "topic", "r": "retry", "so": "startOffset", "q": "queueId",
    "rq": "reviveQueueId", "pt": "popTime", "it": "invisibleTime", "b": "bitSet",
}  # fmt: skip
"""Keys of a batch of acks, and their long names, which brokers take as well."""


@dataclass(frozen=True, slots=True)
class BatchAck:
    """Acks of messages that belong to one check point, an entry of a BATCH_ACK_MESSAGE."""

    group: str
    topic: str
    retry: str
    start: int
    queue_id: int
    revive_queue: int
    pop_time: int
    invisible_time: int
    offsets: tuple[int, ...]
    """Offsets of the messages, ascending: of an orderly pop and any other."""

    def to_json(self) -> dict[str, Any]:
        """As it stands in the body: the offsets as bits, counted from `start`. ValueError for an
        offset before `start`, or MAX_BITS and more behind it."""
        return {
            "b": base64.b64encode(_bits(self.offsets, self.start)).decode(),
            "c": self.group,
            "it": self.invisible_time,
            "pt": self.pop_time,
            "q": self.queue_id,
            "r": self.retry,
            "rq": self.revive_queue,
            "so": self.start,
            "t": self.topic,
        }

    @classmethod
    def of_json(cls, value: Any) -> BatchAck:
        """ProtocolError for what is none."""
        if not isinstance(value, dict):
            raise ProtocolError("an ack of a batch is an object")
        retry = _member(value, "r", NORMAL)
        if str(retry) not in (NORMAL, RETRY_V1, RETRY_V2):
            raise ProtocolError(f"the member r of a batch is 0, 1 or 2: {str(retry)[:32]!r}")
        start = _int(value, "so", _INT64)
        return cls(
            _text(value, "c"),
            _text(value, "t"),
            str(retry),
            start,
            _int(value, "q", _INT32),
            _int(value, "rq", _INT32),
            _int(value, "pt", _INT64),
            _int(value, "it", _INT64),
            _offsets(_member(value, "b", ""), start),
        )


def _member(value: dict[Any, Any], name: str, default: Any) -> Any:
    found = value.get(name, value.get(_NAMES[name]))
    return default if found is None else found


def _int(value: dict[Any, Any], name: str, limit: int) -> int:
    found = _member(value, name, 0)
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise ProtocolError(f"the member {name} of a batch is no number")
    return _number(str(found), limit, f"the member {name} of a batch")


def _text(value: dict[Any, Any], name: str) -> str:
    found = _member(value, name, "")
    if not isinstance(found, str) or not found:
        raise ProtocolError(f"the member {name} of a batch is no text")
    return found


def _bits(offsets: Sequence[int], start: int) -> bytes:
    """A bit set as Java writes it: the lowest bit of the first byte is `start`."""
    if any(not 0 <= offset - start < MAX_BITS for offset in offsets):
        raise ValueError(f"offsets of a batch are {start} to {start + MAX_BITS - 1}")
    bits = bytearray((max(offsets) - start) // 8 + 1 if offsets else 0)
    for offset in offsets:
        bits[(offset - start) >> 3] |= 1 << ((offset - start) & 7)
    return bytes(bits)


def _offsets(text: Any, start: int) -> tuple[int, ...]:
    try:
        if not isinstance(text, str) or len(text) > MAX_BITS // 6 + 4:
            raise ValueError
        bits = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError(
            f"the member b of a batch is no set of {MAX_BITS} bits at most in base64"
        ) from None
    if len(bits) > MAX_BITS // 8:
        raise ProtocolError(f"the member b of a batch has more than {MAX_BITS} bits")
    return tuple(start + i for i in range(8 * len(bits)) if bits[i >> 3] >> (i & 7) & 1)
