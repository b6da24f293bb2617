"""The forms in which mqadmin prints objects and times. [toString of TopicConfig, MessageQueue]"""

from __future__ import annotations

import time
from datetime import datetime

from pyrmq.admin.traces import Track
from pyrmq.cli.mqadmin.options import UsageError
from pyrmq.model.message import MessageQueue, SendResult
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.topic import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig

TIMES = "YYYY-MM-DD#HH:MM:SS:mmm"


def seconds_text(ms: int) -> str:
    """`yyyy-MM-dd HH:mm:ss`, in the local zone; the number itself where that is no time."""
    try:
        return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def millis_text(ms: int) -> str:
    """`yyyy-MM-dd HH:mm:ss,SSS`, in the local zone."""
    return f"{seconds_text(ms)},{ms % 1000:03d}"


def time_value(option: str, text: str) -> int:
    """A time as milliseconds since 1970: a number, `now`, or `yyyy-MM-dd#HH:mm:ss:SSS` in the local
    zone. UsageError."""
    if text == "now":
        return time.time_ns() // 1_000_000
    if text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    head, _, millis = text.rpartition(":")
    try:
        moment = datetime.strptime(head, "%Y-%m-%d#%H:%M:%S")
        return int(moment.timestamp()) * 1000 + int(millis)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--{option} takes now, milliseconds since 1970 or {TIMES}, not {text!r}"
        ) from None


def perm_text(perm: int) -> str:
    """`RWX`, with `-` for what is not set. [PermName.perm2String]"""
    return "".join(
        letter if perm & bit else "-"
        for letter, bit in (("R", PERM_READ), ("W", PERM_WRITE), ("X", PERM_INHERIT))
    )


def topic_text(config: TopicConfig) -> str:
    attributes = ", ".join(f"{k}={v}" for k, v in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={'true' if config.order else 'false'}, attributes={{{attributes}}}]"
    )


def queue_text(queue: MessageQueue) -> str:
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def message_text(message: ReceivedMessage, body: str | None) -> str:
    """A message, without its body, or with the text of it."""
    properties = ", ".join(f"{k}={v}" for k, v in sorted(message.properties.items()))
    shown = "NOT PRINT BODY" if body is None else body
    return (
        f"MSGID: {message.msg_id} MessageExt [brokerName={message.broker_name}, "
        f"queueId={message.queue_id}, storeSize={message.store_size}, "
        f"queueOffset={message.queue_offset}, sysFlag={message.sys_flag}, "
        f"bornTimestamp={message.born_timestamp}, bornHost=/{message.born_host}, "
        f"storeTimestamp={message.store_timestamp}, storeHost=/{message.store_host}, "
        f"msgId={message.offset_msg_id}, commitLogOffset={message.commit_log_offset}, "
        f"bodyCRC={message.body_crc}, reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, "
        f"toString()=Message{{topic='{message.topic}', flag={message.flag}, "
        f"properties={{{properties}}}}}] BODY: {shown}"
    )


def track_text(track: Track) -> str:
    return (
        f"MessageTrack [consumerGroup={track.group}, trackType={track.type.value}, "
        f"exceptionDesc={'null' if track.error is None else track.error}]"
    )


def body_text(option: str, charset: str, message: ReceivedMessage) -> str:
    """A body as text in a character set; what is none of it is escaped. UsageError."""
    try:
        return message.raw_body.decode(charset, "backslashreplace")
    except LookupError:
        raise UsageError(f"--{option}: there is no character set {charset!r}") from None


def send_result_text(result: SendResult) -> str:
    return (
        f"SendResult [sendStatus={result.status.name}, msgId={result.msg_id}, "
        f"offsetMsgId={result.offset_msg_id}, messageQueue={queue_text(result.queue)}, "
        f"queueOffset={result.queue_offset}, recallHandle=null]"
    )
