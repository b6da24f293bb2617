"""mqadmin's commands that print the messages of queues as they come, and that send."""

from __future__ import annotations

import time
from collections import Counter

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.messages import QueueSlice
from pyrmq.admin.sending import producer_of
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import body_text, message_text, queue_text, time_value
from pyrmq.errors import PyrmqError
from pyrmq.model.message import Message, MessageQueue

_TOPIC = Option("t", "topic", "topic name", required=True)
_CHARSET = Option("c", "charsetName", "character set of bodies", default="UTF-8")
_TAGS = Option("s", "subExpression", "tags, such as TagA || TagB", default="*")
_BEGIN = Option("b", "beginTimestamp", "from this time on: ms, now or yyyy-MM-dd#HH:mm:ss:SSS")
_END = Option("e", "endTimestamp", "up to this time: ms, now or yyyy-MM-dd#HH:mm:ss:SSS")


def _time(values: Values, option: str) -> int | None:
    text = values.get(option)
    return None if text is None else time_value(option, text)


async def print_topic(admin: Admin, values: Values, out: Output) -> None:
    if values.has("lmqParentTopic"):
        raise UsageError("--lmqParentTopic: light message queues are not supported")
    begin, end = _time(values, "beginTimestamp"), _time(values, "endTimestamp")
    bodies = values.truth("printBody")
    for queue in await admin.messages.queues(values["topic"]):
        name = queue_text(queue)
        try:
            part = await admin.messages.slice(queue, begin=begin, end=end)
            out.line(f"minOffset={part.begin}, maxOffset={part.end}, {name}")
            async for message in admin.messages.read(part, expression=values["subExpression"]):
                shown = body_text("charsetName", values["charsetName"], message) if bodies else None
                out.line(message_text(message, shown))
        except PyrmqError as e:
            out.failed(e, name)
        else:
            out.succeeded()
        out.line("-" * 56)


async def print_queue(admin: Admin, values: Values, out: Output) -> None:
    queue = MessageQueue(values["topic"], values["brokerName"], values.number("queueId", 0, 65_535))
    part = await admin.messages.slice(
        queue, begin=_time(values, "beginTimestamp"), end=_time(values, "endTimestamp")
    )
    prints, bodies = values.truth("print msg"), values.truth("printBody")
    counts, tags = values.truth("calculate"), Counter[str]()
    async for message in admin.messages.read(part, expression=values["subExpression"]):
        if counts and message.tags:
            tags[message.tags] += 1
        if prints:
            shown = body_text("charsetName", values["charsetName"], message) if bodies else None
            out.line(message_text(message, shown))
    for tag, count in sorted(tags.items(), key=lambda item: (-item[1], item[0])):
        out.line(f"Tag: {tag:<30} Count: {count}")


async def consume(admin: Admin, values: Values, out: Output) -> None:
    begin, end = _time(values, "beginTimestamp"), _time(values, "endTimestamp")
    left = values.number("MessageNumber", 1)
    _check_consume(values, begin, end)
    queues = await admin.messages.queues(values["topic"])
    if values.has("brokerName"):
        queues = [q for q in queues if q.broker_name == values["brokerName"]]
    if values.has("queueId"):
        queues = [q for q in queues if q.queue_id == values.number("queueId", 0, 65_535)]
    if not queues:
        raise UsageError(f"topic {values['topic']} has no such queue")
    for queue in queues:
        if left <= 0:
            break
        try:
            left -= await _consume(admin, queue, begin, end, left, values, out)
        except PyrmqError as e:
            out.failed(e, queue_text(queue))
        else:
            out.succeeded()


def _check_consume(values: Values, begin: int | None, end: int | None) -> None:
    now = time.time_ns() // 1_000_000
    if values.has("queueId") and not values.has("brokerName"):
        raise UsageError("--queueId needs --brokerName")
    if values.has("offset") and not values.has("queueId"):
        raise UsageError("--offset needs --queueId")
    if max(begin or 0, end or 0) > now:
        raise UsageError("--beginTimestamp and --endTimestamp cannot be in the future")
    if begin is not None and end is not None and begin > end:
        raise UsageError("--beginTimestamp is after --endTimestamp")
    if values["consumerGroup"] != "TOOLS_CONSUMER":
        raise UsageError("--consumerGroup: nothing is committed, only TOOLS_CONSUMER reads so")


async def _consume(
    admin: Admin,
    queue: MessageQueue,
    begin: int | None,
    end: int | None,
    most: int,
    values: Values,
    out: Output,
) -> int:
    """Prints messages of a queue, at most so many; returns how many they were."""
    name = queue_text(queue)
    part = await admin.messages.slice(queue, begin=begin, end=end)
    first = part.begin
    if values.has("offset"):
        first = max(first, values.number("offset"))
        if first >= part.end:
            out.line(f"{name} no matched msg, offset={first}")
            return 0
    if part.end - first > most:
        out.line(f"The older {most} message of the {name} queue will be provided")
    shown = 0
    async for message in admin.messages.read(QueueSlice(queue, first, min(part.end, first + most))):
        if not shown:
            out.line("Consume ok")
        out.line(message_text(message, body_text("charsetName", "UTF-8", message)))
        shown += 1
    return shown


_READ_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "printMsg",
            (
                _TOPIC,
                _CHARSET,
                _TAGS,
                _BEGIN,
                _END,
                Option("d", "printBody", "true or false: print bodies", default="true"),
                Option("l", "lmqParentTopic", "not offered here"),
            ),
            print_topic,
        ),
        Command(
            "printMsgByQueue",
            (
                _TOPIC,
                Option("a", "brokerName", "broker name", required=True),
                Option("i", "queueId", "queue id", required=True),
                _CHARSET,
                _TAGS,
                _BEGIN,
                _END,
                Option("p", "print msg", "true or false: print messages", default="false"),
                Option("d", "printBody", "true or false: print bodies", default="false"),
                Option("f", "calculate", "true or false: count tags", default="false"),
            ),
            print_queue,
        ),
        Command(
            "consumeMessage",
            (
                _TOPIC,
                Option("b", "brokerName", "broker name"),
                Option("i", "queueId", "queue id"),
                Option("o", "offset", "queue offset"),
                Option("g", "consumerGroup", "group to read as", default="TOOLS_CONSUMER"),
                Option("s", "beginTimestamp", _BEGIN.help),
                Option("e", "endTimestamp", _END.help),
                Option("c", "MessageNumber", "most messages", default="128"),
            ),
            consume,
        ),
    )
}


_SENT = (Column("#Broker Name", 32), Column("#QID", 4), Column("#Send Result", 20, gap=4),
         Column("#MsgId", gap=0))  # fmt: skip
_TIMED = (Column("#Broker Name", 32), Column("#QID", 4), Column("#Send Result", 20, gap=4),
          Column("#RT", gap=0))  # fmt: skip
MAX_SIZE = 64 << 20


async def send(admin: Admin, values: Values, out: Output) -> None:
    if values.has("qid") and not values.has("broker"):
        raise UsageError("--qid needs --broker")
    message = Message(
        values["topic"],
        values["body"].encode(),
        tags=values.get("tags"),
        keys=values.get("key") or "",
    )
    result = await admin.messages.send(
        message,
        broker_name=values.get("broker"),
        queue_id=values.number("qid", 0, 65_535) if values.has("qid") else None,
        trace=values.truth("msgTraceEnable"),
    )
    out.head(_SENT)
    out.row(
        _SENT, result.queue.broker_name, result.queue.queue_id, result.status.name, result.msg_id
    )


async def round_trips(admin: Admin, values: Values, out: Output) -> None:
    topic, amount = values["topic"], values.number("amount", 1, 1_000_000)
    body = b"a" * values.number("size", 1, MAX_SIZE)
    group = str(time.time_ns() // 1_000_000)
    times: list[int] = []
    async with producer_of(admin.link, group, retry_times=0) as producer:
        queues = sorted(await producer.queues(topic), key=lambda q: (q.broker_name, q.queue_id))
        out.head(_TIMED)
        for at in range(amount):
            out.progress("sends", at, amount)
            queue: MessageQueue = queues[at % len(queues)]
            begun = trio.current_time()
            try:
                await producer.send(Message(topic, body), queue=queue)
            except PyrmqError as e:
                out.failed(e, queue.broker_name)
                sent = "false"
            else:
                out.succeeded()
                sent = "true"
            times.append(round((trio.current_time() - begun) * 1000))
            out.row(_TIMED, queue.broker_name, queue.queue_id, sent, times[-1])
    # The first one pays for the connection.
    counted = times[1:] or times
    out.line(f"Avg RT: {sum(counted) / len(counted):.2f}")


_SEND_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "sendMessage",
            (
                _TOPIC,
                Option("p", "body", "the message's body, text", required=True),
                Option("k", "key", "keys, separated by blanks"),
                Option("c", "tags", "the message's tag"),
                Option("b", "broker", "broker name"),
                Option("i", "qid", "queue id"),
                Option("m", "msgTraceEnable", "true or false: trace it", default="false"),
            ),
            send,
        ),
        Command(
            "checkMsgSendRT",
            (
                _TOPIC,
                Option("a", "amount", "how many messages", default="100"),
                Option("s", "size", "bytes of each body", default="128"),
            ),
            round_trips,
        ),
    )
}
COMMANDS = {**_READ_COMMANDS, **_SEND_COMMANDS}
