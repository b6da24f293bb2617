"""pyrmq's client behind the command line of the drivers of the Java and the Go client (drivers.py):

    python -m tests.system.interop.python_driver consume namesrv=HOST:PORT topic=T group=G count=10

`produce`, `consume` and `consume-orderly`, with the words of the Java driver; compress=LZ4 or ZSTD;
tlsConfig=FILE, RocketMQ's tls.properties, to connect with TLS.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

import pyrmq
from pyrmq import CompressionType, Message, Producer, PushConsumer, ReceivedMessage, SendResult

INCOMPLETE, LATE = 2, 3
GRACE = 10.0
"""Seconds that consuming ends before the time of the whole process."""
AFTERWARDS = 2.0
"""Seconds for what becomes of the last ones, and for what is too many."""


class Incomplete(Exception):
    """Fewer messages than asked for."""


class Words(dict[str, str]):
    """The words of the command line."""

    def number(self, name: str, otherwise: int = 0) -> int:
        return int(self.get(name, otherwise))


def access(words: Words) -> dict[str, Any]:
    """The arguments of a client that signs, or speaks TLS."""
    found: dict[str, Any] = {}
    if "accessKey" in words:
        found["credentials"] = pyrmq.Credentials(words["accessKey"], words["secretKey"])
    if "tlsConfig" in words:
        found["tls"] = pyrmq.Tls.from_properties(words["tlsConfig"])
    return found


def write(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


# Sending.


def message(words: Words, number: int) -> Message:
    tags = words.get("tags", "TagA,TagB,TagC").split(",")
    return Message(
        words["topic"],
        body(words, number),
        tags=tags[number % len(tags)],
        keys=[f"key-{number}"],
        properties={"index": str(number), "greeting": "héllo wörld – 你好 🚀"},
        delay_time_level=words.number("delay"),
    )


def body(words: Words, number: int) -> bytes:
    """Mostly short text; number 1 compresses well, number 2 is binary."""
    if number == 1:
        return b"".join(b"a line that compresses well, number %d\n" % n for n in range(200))
    if number == 2:
        return random.Random(number).randbytes(5000)
    return f"message {number} ☃ of {words.get('label', 'run')}".encode()


def told(number: int, sent: Message, result: SendResult) -> None:
    write(
        event="sent",
        topic=sent.topic,
        body=text(sent.body),
        tags=sent.tags,
        keys=" ".join(sent.keys),
        properties={**sent.all_properties(), "UNIQ_KEY": result.msg_id},
        index=number,
        msgId=result.msg_id,
        offsetMsgId=result.offset_msg_id,
        brokerName=result.queue.broker_name,
        queueId=result.queue.queue_id,
        queueOffset=result.queue_offset,
        sendStatus=str(result.status),
    )


async def produce(words: Words) -> dict[str, Any]:
    start, count = words.number("start"), words.number("count", 30)
    async with Producer(
        words["group"],
        namesrv=words["namesrv"],
        send_timeout=10,
        compress_type=CompressionType[words.get("compress", "ZLIB")],
        **access(words),
    ) as producer:
        for n in range(start, start + count):
            one = message(words, n)
            told(n, one, await producer.send(one))
    return {"sent": count}


# Consuming.


class Seen:
    """What was delivered; `enough` is set when that is as much as the words ask for."""

    def __init__(self, words: Words) -> None:
        self.places: set[tuple[str, str, int, int]] = set()
        self.deliveries = 0
        self.enough = trio.Event()
        self._words = words

    def add(self, m: ReceivedMessage) -> None:
        self.deliveries += 1
        self.places.add((m.topic, m.broker_name, m.queue_id, m.queue_offset))
        wanted = self._words.number("deliveries")
        if self.deliveries >= wanted if wanted else self.complete():
            self.enough.set()

    def complete(self) -> bool:
        return len(self.places) >= self._words.number("count", 1)


def received(m: ReceivedMessage) -> dict[str, Any]:
    return {
        "event": "received",
        "consumer": "pyrmq",
        "topic": m.topic,
        "body": text(m.body),
        "tags": m.tags,
        "keys": " ".join(m.keys),
        "properties": dict(m.properties),
        "msgId": m.msg_id,
        "offsetMsgId": m.offset_msg_id,
        "queueId": m.queue_id,
        "queueOffset": m.queue_offset,
        "commitLogOffset": m.commit_log_offset,
        "sysFlag": m.sys_flag,
        "flag": m.flag,
        "reconsumeTimes": m.reconsume_times,
        "bornTimestamp": m.born_timestamp,
        "storeTimestamp": m.store_timestamp,
        "receivedAt": int(time.time() * 1000),
    }


async def consume(words: Words, *, orderly: bool = False) -> dict[str, Any]:
    seen = Seen(words)

    async def listener(m: ReceivedMessage) -> None:
        write(**received(m))
        seen.add(m)
        await trio.sleep(words.number("work") / 1000)
        if m.reconsume_times < words.number("fail"):
            raise pyrmq.ReconsumeLater("as it was told")

    most = words.number("max", -1)
    subscription = pyrmq.Sql(words["sql"]) if "sql" in words else words.get("filter", "*")
    async with PushConsumer(
        words["group"],
        dict.fromkeys(words["topic"].split(","), subscription),
        namesrv=words["namesrv"],
        listener=listener,
        consume_from=pyrmq.ConsumeFrom.FIRST_OFFSET,
        orderly=orderly,
        max_reconsume_times=None if most < 0 else most,
        instance_name=words.get("instance"),
        **access(words),
    ):
        if words.number("stay"):
            await stdin_ends()
            return {"deliveries": seen.deliveries}
        with trio.move_on_after(words.number("timeout", 60) - GRACE):
            await seen.enough.wait()
        if words.number("deliveries"):
            await trio.sleep(AFTERWARDS)
    if not seen.enough.is_set():
        raise Incomplete(f"received {len(seen.places)} of {words.number('count', 1)}")
    return {"received": len(seen.places), "deliveries": seen.deliveries}


async def consume_orderly(words: Words) -> dict[str, Any]:
    return await consume(words, orderly=True)


async def stdin_ends() -> None:
    async with trio.lowlevel.FdStream(os.dup(0)) as stdin:
        async for _ in stdin:
            pass


COMMANDS: dict[str, Callable[[Words], Awaitable[dict[str, Any]]]] = {
    "produce": produce,
    "consume": consume,
    "consume-orderly": consume_orderly,
}


async def run(command: str, words: Words) -> int:
    summary: dict[str, Any] = {}
    code = LATE
    with trio.move_on_after(words.number("timeout", 60)):
        try:
            summary = await COMMANDS[command](words)
            code = 0
        except Incomplete as e:
            summary, code = {"error": str(e)}, INCOMPLETE
    write(**summary, done=code == 0)
    return code


if __name__ == "__main__":
    if level := os.environ.get("INTEROP_PYTHON_LOG"):
        logging.basicConfig(level=level.upper(), format="%(asctime)s %(name)s: %(message)s")
    sys.exit(trio.run(run, sys.argv[1], Words(w.split("=", 1) for w in sys.argv[2:])))
