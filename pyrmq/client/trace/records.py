"""Records of the trace topic as RocketMQ's clients write them. [TraceDataEncoder]

A record's fields stand between 0x01 and it ends in 0x02. `spark_ext/jobs/trace.py` reads
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from pyrmq.model.properties import KEYS, split_keys
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TransactionState

FIELD_END = "\x01"
RECORD_END = "\x02"
REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
DEFAULT_REGION = "DefaultRegion"
_STATES = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}


class MessageType(IntEnum):
    """The kind of a sent message. [MessageType]"""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAYED = 3


class ConsumeCode(IntEnum):
    """The result of consuming a message. [ConsumeReturnType]"""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """`text` is one record, or several that stay together; `keys` find it; `topic` is the
    message's."""

    topic: str
    text: str
    keys: tuple[str, ...]


def _record(*fields: object) -> str:
    return FIELD_END.join(_text(field) for field in fields) + RECORD_END


def _text(value: object) -> str:
    """As Java appends it, without characters that would end a field or a record."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, IntEnum):
        return str(value.value)
    return str(value).replace(FIELD_END, "").replace(RECORD_END, "")


def published(
    *,
    time: int,
    region: str,
    group: str,
    topic: str,
    msg_id: str,
    tags: str | None,
    keys: str | None,
    store_host: str,
    body_length: int,
    cost: int,
    message_type: MessageType,
    offset_msg_id: str,
) -> TraceRecord:
    """Pub: a message, or a batch with its ids joined by commas, was sent. Times are ms."""
    text = _record(
        "Pub", time, region, group, topic, msg_id, tags, keys, store_host, body_length, cost,
        message_type, offset_msg_id, True,
    )  # fmt: skip
    return TraceRecord(topic, text, (*msg_id.split(","), *split_keys(keys)))


def transaction_ended(
    *,
    time: int,
    group: str,
    topic: str,
    msg_id: str,
    tags: str | None,
    keys: str | None,
    store_host: str,
    transaction_id: str | None,
    state: TransactionState,
    from_check: bool,
) -> TraceRecord:
    """EndTransaction: the outcome of a local transaction was sent to a broker."""
    text = _record(
        "EndTransaction", time, DEFAULT_REGION, group, topic, msg_id, tags, keys, store_host,
        MessageType.COMMIT, transaction_id, _STATES[state], from_check,
    )  # fmt: skip
    return TraceRecord(topic, text, (msg_id, *split_keys(keys)))


def recalled(
    *, time: int, region: str, group: str, topic: str, msg_id: str, success: bool
) -> TraceRecord:
    """Recall: a broker has answered a recall."""
    text = _record("Recall", time, region, group, topic, msg_id, success)
    return TraceRecord(topic, text, (msg_id,))


def is_traced(message: ReceivedMessage) -> bool:
    """Whether a consumer traces a message: its properties name a region and do not switch the trace
    off."""
    properties = message.properties
    return REGION in properties and properties.get(TRACE_ON) != "false"


def _found_by(messages: Sequence[ReceivedMessage]) -> tuple[str, ...]:
    return tuple(key for m in messages for key in (m.msg_id, *m.keys))


def consume_began(
    messages: Sequence[ReceivedMessage], *, time: int, group: str, topic: str, request_id: str
) -> TraceRecord:
    """SubBefore of messages of one topic that are consumed together."""
    text = "".join(
        _record(
            "SubBefore", time, m.properties[REGION], group, request_id, m.msg_id,
            m.reconsume_times, m.properties.get(KEYS),
        )
        for m in messages
    )  # fmt: skip
    return TraceRecord(topic, text, _found_by(messages))


def consume_ended(
    messages: Sequence[ReceivedMessage],
    *,
    time: int,
    group: str,
    topic: str,
    request_id: str,
    cost: int,
    code: ConsumeCode,
) -> TraceRecord:
    """SubAfter of the same messages; `cost` is that of one message, in ms."""
    text = "".join(
        _record(
            "SubAfter", request_id, m.msg_id, cost, code is ConsumeCode.SUCCESS,
            m.properties.get(KEYS), code, time, group,
        )
        for m in messages
    )  # fmt: skip
    return TraceRecord(topic, text, _found_by(messages))
