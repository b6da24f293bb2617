"""mqadmin's commands that send messages."""

from __future__ import annotations

import time

import trio

from pyrmq.admin.api import Admin
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.errors import PyrmqError
from pyrmq.model.message import Message, MessageQueue
from pyrmq.net.address import format_address

_TOPIC = Option("t", "topic", "topic name", required=True)
_SENT = (Column("#Broker Name", 32), Column("#QID", 4), Column("#Send Result", 20, gap=4),
         Column("#MsgId", gap=0))  # fmt: skip
_TIMED = (Column("#Broker Name", 32), Column("#QID", 4), Column("#Send Result", 20, gap=4),
          Column("#RT", gap=0))  # fmt: skip
MAX_SIZE = 64 << 20


def _namesrv(admin: Admin) -> str:
    return ";".join(format_address(a) for a in admin.link.namesrv)


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
    from pyrmq.client import Producer

    topic, amount = values["topic"], values.number("amount", 1, 1_000_000)
    body = b"a" * values.number("size", 1, MAX_SIZE)
    group = str(time.time_ns() // 1_000_000)
    times: list[int] = []
    async with Producer(group, namesrv=_namesrv(admin), retry_times=0) as producer:
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


COMMANDS = {
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
