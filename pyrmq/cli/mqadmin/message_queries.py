"""mqadmin's commands that find messages."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path

from pyrmq.admin.api import Admin
from pyrmq.admin.message_ids import check_id, decode_id
from pyrmq.admin.sending import producer_of
from pyrmq.admin.traces import Trace
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import (
    body_text,
    millis_text,
    seconds_text,
    send_result_text,
    track_text,
)
from pyrmq.errors import NotFoundError, PyrmqError
from pyrmq.model.message import Message, MessageQueue
from pyrmq.model.names import TRACE_TOPIC
from pyrmq.model.properties import SYSTEM_PROPERTIES
from pyrmq.model.record import ReceivedMessage

BODIES = "/tmp/rocketmq/msgbodys"
"""Where the original writes bodies."""
_KEYED = (Column("#Message ID", 50, gap=1), Column("#QID", 4, right=True, gap=1),
          Column("#Offset", 40, right=True, gap=0))  # fmt: skip
_TOPIC = Option("t", "topic", "topic name", required=True)
_BODY_PATH = Option(None, "bodyPath", "folder for the files of bodies", default=BODIES)
_GROUP = Option("g", "consumerGroup", "with -d: this group's consumer consumes it now")
_CLIENT = Option("d", "clientId", "with -g: the consumer")


def show(message: ReceivedMessage, path: Path, out: Output, *, offset_id: bool) -> None:
    """The fields of a message, a line each."""
    rows = [("OffsetID:", message.offset_msg_id)] if offset_id else []
    rows += [
        ("Topic:", message.topic),
        ("Tags:", f"[{message.tags or 'null'}]"),
        ("Keys:", f"[{' '.join(message.keys) or 'null'}]"),
        ("Queue ID:", str(message.queue_id)),
        ("Queue Offset:", str(message.queue_offset)),
        ("CommitLog Offset:", str(message.commit_log_offset)),
        ("Reconsume Times:", str(message.reconsume_times)),
        ("Born Timestamp:", millis_text(message.born_timestamp)),
        ("Store Timestamp:", millis_text(message.store_timestamp)),
        ("Born Host:", message.born_host),
        ("Store Host:", message.store_host),
        ("System Flag:", str(message.sys_flag)),
        ("Properties:", "{" + ", ".join(f"{k}={v}" for k, v in message.properties.items()) + "}"),
        ("Message Body Path:", str(path)),
    ]
    for label, value in rows:
        out.line(f"{label:<20} {value}")


def write_body(message: ReceivedMessage, name: str, values: Values) -> Path:
    """Writes a body to a file that is named after a message id. OSError."""
    check_id(name.partition("_")[0])
    folder = Path(values["bodyPath"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    # The folder may be everyone's: nobody's link is followed.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(message.raw_body)
    return path


def _consumer(values: Values) -> tuple[str, str] | None:
    """The group and the client that are to consume what is found."""
    group, client = values.get("consumerGroup"), values.get("clientId")
    if group is not None and client is not None:
        return group, client
    if group is None and client is None:
        return None
    raise UsageError("--consumerGroup and --clientId go together")


async def _consume(
    admin: Admin, message: ReceivedMessage, consumer: tuple[str, str], out: Output
) -> None:
    result = await admin.messages.consume_directly(message, *consumer)
    out.line(
        f"ConsumeMessageDirectlyResult [order={str(result.order).lower()}, "
        f"autoCommit={str(result.auto_commit).lower()}, consumeResult={result.result}, "
        f"remark={result.remark or 'null'}, spentTimeMills={result.spent_ms}]"
    )


async def _send_again(admin: Admin, message: ReceivedMessage, out: Output) -> None:
    again = Message(
        message.topic,
        message.body,
        tags=message.tags,
        keys=message.keys,
        flag=message.flag,
        properties={k: v for k, v in message.properties.items() if k not in SYSTEM_PROPERTIES},
    )
    out.line(f"prepare resend msg. originalMsgId={message.msg_id}")
    async with producer_of(admin.link, "ReSendMsgById") as producer:
        out.line(send_result_text(await producer.send(again)))


def _body(message: ReceivedMessage, values: Values, out: Output) -> None:
    charset = values.get("bodyFormat")
    if charset is not None:
        out.line(f"{'Message Body:':<20} {body_text('bodyFormat', charset, message)}")


async def _tracks(admin: Admin, message: ReceivedMessage, out: Output) -> None:
    """What groups have made of a message, a line each."""
    out.line()
    out.line()
    try:
        tracks = await admin.messages.tracks(message)
    except PyrmqError as e:
        out.succeeded()
        out.failed(e, f"tracks of message {message.msg_id}")
        return
    for track in tracks:
        out.line(track_text(track))
    if not tracks:
        out.line("WARN: No Consumer")
    out.missing(tracks.failed)


async def by_id(admin: Admin, values: Values, out: Output) -> None:
    if values.has("unitName"):
        raise UsageError("--unitName: unit names are not supported")
    consumer = _consumer(values)
    again = values.has("sendMessage") and values.truth("sendMessage")
    for message_id in values.items("msgId"):
        message = await admin.messages.get(values["topic"], message_id)
        if consumer is not None:
            await _consume(admin, message, consumer, out)
            continue
        if again:
            await _send_again(admin, message, out)
            continue
        show(message, write_body(message, message.offset_msg_id, values), out, offset_id=True)
        _body(message, values, out)
        await _tracks(admin, message, out)


async def by_key(admin: Admin, values: Values, out: Output) -> None:
    found = await admin.messages.by_key(
        values["topic"],
        values["msgKey"],
        begin=values.number("beginTimestamp"),
        end=values.number_or("endTimestamp", 2**63 - 1),
        limit=values.number("maxNum", 1, 10_000),
        cluster=values.get("cluster"),
    )
    out.head(_KEYED)
    for message in found:
        out.row(_KEYED, message.msg_id, message.queue_id, message.queue_offset)
    out.missing(found.failed)


async def by_unique_key(admin: Admin, values: Values, out: Output) -> None:
    consumer = _consumer(values)
    message_id = values["msgId"]
    check_id(message_id)
    found = await admin.messages.by_unique_key(
        values["topic"], message_id, cluster=values.get("cluster")
    )
    if consumer is not None:
        await _consume(admin, found[0], consumer, out)
        return
    for at, message in enumerate(found if values.has("showAll") else found[:1]):
        name = f"{message_id}_{at}" if at else message_id
        show(message, write_body(message, name, values), out, offset_id=False)
        await _tracks(admin, message, out)
    out.missing(found.failed)


async def by_offset(admin: Admin, values: Values, out: Output) -> None:
    queue = MessageQueue(values["topic"], values["brokerName"], values.number("queueId", 0, 65_535))
    try:
        message = await admin.messages.at(queue, values.number("offset"))
    except NotFoundError as e:
        out.failed(e)
        return
    show(message, write_body(message, message.offset_msg_id, values), out, offset_id=True)
    _body(message, values, out)
    await _tracks(admin, message, out)


async def decode(admin: Admin, values: Values, out: Output) -> None:
    for message_id in values.items("messageId"):
        said = decode_id(message_id)
        out.line(f"ip={said.host}")
        out.line(f"date={millis_text(said.born).replace(' ', '#').replace(',', ':')}")


_QUERIE_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "queryMsgById",
            (
                Option("i", "msgId", "message ids, separated by commas", required=True),
                _TOPIC,
                _GROUP,
                _CLIENT,
                Option("s", "sendMessage", "true: send it again"),
                Option("u", "unitName", "not supported"),
                Option("f", "bodyFormat", "print the body in this character set"),
                _BODY_PATH,
                Option("c", "cluster", "cluster name"),
            ),
            by_id,
        ),
        Command(
            "queryMsgByKey",
            (
                _TOPIC,
                Option("k", "msgKey", "key of the messages", required=True),
                Option("b", "beginTimestamp", "stored from this time on, ms", default="0"),
                Option("e", "endTimestamp", "stored up to this time, ms"),
                Option("m", "maxNum", "most messages of each broker", default="64"),
                Option("c", "cluster", "cluster name"),
            ),
            by_key,
        ),
        Command(
            "queryMsgByUniqueKey",
            (
                Option("i", "msgId", "unique id of the message", required=True),
                _TOPIC,
                _GROUP,
                _CLIENT,
                Option("a", "showAll", "all messages with this id", flag=True),
                _BODY_PATH,
                Option("c", "cluster", "cluster name"),
            ),
            by_unique_key,
        ),
        Command(
            "queryMsgByOffset",
            (
                _TOPIC,
                Option("b", "brokerName", "broker name", required=True),
                Option("i", "queueId", "queue id", required=True),
                Option("o", "offset", "queue offset", required=True),
                Option("f", "bodyFormat", "print the body in this character set"),
                _BODY_PATH,
            ),
            by_offset,
        ),
        Command(
            "DecodeMessageId",
            (Option("i", "messageId", "unique ids, separated by commas", required=True),),
            decode,
            local=True,
        ),
    )
}


def _columns(group: str, time: str) -> tuple[Column, ...]:
    heads = (("#Type", 10), (group, 20), ("#ClientHost", 20), (time, 20), ("#CostTimes", 10))
    return (*(Column(head, width, gap=1) for head, width in heads), Column("#Status", 10, gap=0))


_SENT = _columns("#ProducerGroup", "#SendTime")
_CONSUMED = _columns("#ConsumerGroup", "#ConsumerTime")


def _row(columns: tuple[Column, ...], trace: Trace, out: Output) -> None:
    status = "success" if trace.success else "failed"
    when, cost = seconds_text(trace.time), f"{trace.cost_ms}ms"
    kind = "Pub" if trace.kind == "Pub" else "Sub"
    out.row(columns, kind, trace.group, trace.client_host, when, cost, status)


async def show_trace(admin: Admin, values: Values, out: Output) -> None:
    found = await admin.messages.traces(
        values["msgId"],
        topic=values["traceTopic"],
        begin=values.number("beginTimestamp"),
        end=values.number_or("endTimestamp", 2**63 - 1),
        limit=values.number("maxNum", 1, 10_000),
    )
    for trace in found:
        if trace.kind == "Pub":
            out.head(_SENT)
            _row(_SENT, trace, out)
            out.line()
    consumed = sorted((t for t in found if t.kind != "Pub"), key=lambda t: t.group)
    for _, rows in groupby(consumed, key=lambda t: t.group):
        out.head(_CONSUMED)
        for trace in rows:
            _row(_CONSUMED, trace, out)
        out.line()
    out.missing(found.failed)


_TRACE_COMMANDS = {
    "queryMsgTraceById": Command(
        "queryMsgTraceById",
        (
            Option("i", "msgId", "unique id of the message", required=True),
            Option("t", "traceTopic", "topic of traces", default=TRACE_TOPIC),
            Option("b", "beginTimestamp", "written from this time on, ms", default="0"),
            Option("e", "endTimestamp", "written up to this time, ms"),
            Option("c", "maxNum", "most messages of the trace topic", default="64"),
        ),
        show_trace,
    )
}
COMMANDS = {**_QUERIE_COMMANDS, **_TRACE_COMMANDS}
