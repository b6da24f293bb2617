"""The properties of a message: their names, and the string that holds them. [MessageConst,
MessageDecoder]"""

from __future__ import annotations

from collections.abc import Mapping

from pyrmq.errors import MessageIllegalError

NAME_END = "\x01"
VALUE_END = "\x02"
MAX_PROPERTIES = 32767

TAGS = "TAGS"
KEYS = "KEYS"
DELAY = "DELAY"
"""Delay level, from 1 on; 0 and less: none. [MessageConst]"""
TIMER_PROPERTIES = frozenset(
    {"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY"}
)
"""Each makes a timer message, or ends one. [MessageConst]"""
TIMER_ORDER = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
"""Each says when a message is to be delivered; of several the first one counts."""
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
TIMER_OUT_MS = "TIMER_OUT_MS"
"""When a timer message is due, by the broker: it was one before."""
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
PRODUCER_GROUP = "PGROUP"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
PRIORITY = "_SYS_MSG_PRIORITY_"
"""A number from 0 on: the broker stores the message in the queue of this number. [MessageConst]"""
UNIQ_KEY = "UNIQ_KEY"
INSTANCE_ID = "INSTANCE_ID"
"""The namespace of who sent it."""
SHARDING_KEY = "__SHARDINGKEY"
MESSAGE_TYPE = "MSG_TYPE"
REPLY = "reply"
WAIT = "WAIT"
SYSTEM_PROPERTIES = frozenset(
    {
        "TAGS", "KEYS", "UNIQ_KEY", "WAIT", "DELAY", "REAL_TOPIC", "REAL_QID", "RETRY_TOPIC",
        "TRAN_MSG", "PGROUP", "__transactionId__", "TRAN_PREPARED_QUEUE_OFFSET",
        "TRANSACTION_CHECK_TIMES", "CHECK_IMMUNITY_TIME_IN_SECONDS", "ORIGIN_MESSAGE_ID",
        "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES",
        "CONSUME_START_TIME", "MIN_OFFSET", "MAX_OFFSET", "MSG_REGION", "TRACE_ON", "INSTANCE_ID",
        "CLUSTER", "EXTEND_UNIQ_INFO", "MSG_TYPE", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL",
        "ARRIVE_TIME", "PUSH_REPLY_TIME", "INNER_NUM", "INNER_BASE", "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS",
        "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES",
        "TIMER_DEL_UNIQKEY", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME", "PROPERTY_FORWARD_QUEUE_ID",
        "REDIRECT", "BUYER_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "DUP_INFO",
        "__BORNHOST", "BORN_TIMESTAMP", "__CRC32#", "_SYS_MSG_PRIORITY_",
    }
)  # fmt: skip
"""Names that have a meaning of their own to brokers and clients, beside that of the sharding key.
[MessageConst]"""


def split_keys(keys: str | None) -> list[str]:
    """The keys in a KEYS property. Only U+0020 stands between two: a tab, U+00A0 or U+3000 is part
    of a key, as in the index. [MessageConst.KEY_SEPARATOR]"""
    return [key for key in keys.split(" ") if key] if keys else []


def encode_properties(properties: Mapping[str, str]) -> str:
    """`name 0x01 value 0x02` in a row; names and values may not hold those characters."""
    parts = [f"{n}{NAME_END}{v}{VALUE_END}" for n, v in properties.items() if v]
    text = "".join(parts)
    if (
        len(parts) != len(properties)
        or "" in properties
        or text.count(NAME_END) != len(parts)
        or text.count(VALUE_END) != len(parts)
    ):
        _check_each(properties)
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as e:
        raise MessageIllegalError(f"properties cannot be sent: {e}") from None
    if size > MAX_PROPERTIES:
        raise MessageIllegalError(f"properties have more than {MAX_PROPERTIES} bytes")
    return text


def _check_each(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if not name or any(c in part for part in (name, value) for c in (NAME_END, VALUE_END)):
            raise MessageIllegalError(f"property {name!r} is empty or holds 0x01 or 0x02")


def decode_properties(text: str) -> dict[str, str]:
    """The inverse, with Java's reading rules (empty names and values do not exist)."""
    out: dict[str, str] = {}
    for chunk in text.split(VALUE_END):
        name, _, value = chunk.partition(NAME_END)
        if name and value:
            out[name] = value
    return out
