"""mqadmin's commands about messages."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from pyrmq import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
)
from pyrmq.admin import Admin
from pyrmq.errors import NotFoundError
from pyrmq.net.address import message_id
from pyrmq.server import Running
from tests.support.mqadmin import admin, mqadmin

TOPIC = "Mqadmin"


async def _sent(server: Running, count: int = 3) -> list[SendResult]:
    async with Producer("PG", namesrv=server.namesrv) as producer:
        first = await producer.send(Message(TOPIC, b"body 0", tags="A", keys="k common"))
        found = [first]
        for n in range(1, count):
            tag = "AB"[n % 2]
            message = Message(TOPIC, b"body %d" % n, tags=tag, keys=["common", f"k{n}"])
            found.append(await producer.send(message, queue=first.queue))
    await _indexed(server, "common", count)
    return found


async def _indexed(server: Running, key: str, count: int) -> None:
    """The index follows the log."""
    async with Admin(server.namesrv) as admin:
        while True:
            with suppress(NotFoundError):
                if len(await admin.messages.by_key(TOPIC, key)) == count:
                    return
            await trio.sleep(0.01)


async def test_a_message_by_its_ids_and_its_place(embedded: Running, tmp_path: Path) -> None:
    first, second, _ = await _sent(embedded)
    queue_id = str(first.queue.queue_id)
    ways = [
        ("queryMsgById", "-i", first.offset_msg_id),
        ("queryMsgById", "-i", first.msg_id),
        ("queryMsgByUniqueKey", "-i", first.msg_id),
        ("queryMsgByOffset", "-b", first.queue.broker_name, "-i", queue_id, "-o", "0"),
    ]
    for way in ways:
        ran = await mqadmin(embedded.namesrv, *way, "-t", TOPIC, "--bodyPath", str(tmp_path))
        assert ran.code == 0, ran.err
        assert f"{'Topic:':<20} {TOPIC}" in ran.lines
        assert f"{'Tags:':<20} [A]" in ran.lines
        assert f"{'Keys:':<20} [k common]" in ran.lines
        (path,) = [line.split()[-1] for line in ran.lines if line.startswith("Message Body Path:")]
        assert await trio.Path(path).read_bytes() == b"body 0"
        assert ("OffsetID:" in ran.out) == (way[0] != "queryMsgByUniqueKey")
    text = await mqadmin(
        embedded.namesrv, "queryMsgById", "-i", second.offset_msg_id, "-t", TOPIC, "-f", "utf8",
        "--bodyPath", str(tmp_path),
    )  # fmt: skip
    assert f"{'Message Body:':<20} body 1" in text.lines


@pytest.mark.parametrize("key", ["t\tu", "k\u00a0l", "\u3000张三\u3000"])
async def test_a_key_with_blanks_that_separate_nothing(embedded: Running, key: str) -> None:
    """It is found by the key that the broker has indexed."""
    async with Producer("pg", namesrv=embedded.namesrv) as producer:
        sent = await producer.send(Message(TOPIC, b"x", keys=["first", key]))
    await _indexed(embedded, key, 1)
    ran = await mqadmin(embedded.namesrv, "queryMsgByKey", "-t", TOPIC, "-k", key)
    assert [line.split()[0] for line in ran.lines[1:]] == [sent.msg_id]


async def test_messages_by_key(embedded: Running) -> None:
    sent = await _sent(embedded)
    ran = await mqadmin(embedded.namesrv, "queryMsgByKey", "-t", TOPIC, "-k", "common")
    assert ran.lines[0] == f"{'#Message ID':<50} {'#QID':>4} {'#Offset':>40}"
    assert [line.split()[0] for line in ran.lines[1:]] == [r.msg_id for r in sent]
    none = await mqadmin(embedded.namesrv, "queryMsgByKey", "-t", TOPIC, "-k", "nothing")
    assert (none.code, none.out) == (2, "")
    assert "no message has the key nothing" in none.err


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("queryMsgById", "-t", TOPIC, "-i", "../../etc/passwd"), "is no message id", 2),
        (("queryMsgById", "-t", TOPIC, "-i", "0" * 32, "-g", "g"), "go together", 1),
        (("queryMsgByUniqueKey", "-t", TOPIC, "-i", "F" * 32), "no message has the id", 2),
        (("queryMsgByOffset", "-t", TOPIC, "-b", "broker-x", "-i", "0", "-o", "0"), "broker-x", 2),
        (("printMsg", "-t", "NoSuchTopic"), "NoSuchTopic", 2),
        (("printMsg", "-t", TOPIC, "-b", "yesterday"), "--beginTimestamp takes", 1),
        (("consumeMessage", "-t", TOPIC, "-i", "0"), "--queueId needs", 1),
        (("sendMessage", "-t", TOPIC, "-p", "x", "-i", "0"), "--qid needs", 1),
        (
            ("sendMessage", "-t", TOPIC, "-p", "x", "-b", "broker-x"),
            "has no queue",
            2,
        ),
        (("DecodeMessageId", "-i", "xyz"), "is no message id", 2),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
async def test_what_cannot_be_done_is_said(
    embedded: Running, words: tuple[str, ...], said: str, code: int
) -> None:
    await _sent(embedded, 1)
    ran = await mqadmin(embedded.namesrv, *words)
    assert ran.code == code, ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err


async def test_printing_a_topic_and_a_queue(embedded: Running) -> None:
    first, *_ = await _sent(embedded, 40)
    ran = await mqadmin(embedded.namesrv, "printMsg", "-t", TOPIC)
    assert sum(line.startswith("MSGID: ") for line in ran.lines) == 40
    assert f"MSGID: {first.msg_id} MessageExt [brokerName={first.queue.broker_name}, " in ran.out
    assert ran.lines[-1] == "-" * 56
    tagged = await mqadmin(embedded.namesrv, "printMsg", "-t", TOPIC, "-s", "B", "-d", "false")
    assert sum(line.endswith("BODY: NOT PRINT BODY") for line in tagged.lines) == 20
    queue = ("-a", first.queue.broker_name, "-i", str(first.queue.queue_id))
    counted = await mqadmin(embedded.namesrv, "printMsgByQueue", "-t", TOPIC, *queue, "-f", "true")
    assert counted.lines == [f"Tag: {'A':<30} Count: 20", f"Tag: {'B':<30} Count: 20"]


async def test_consuming_commits_nothing(embedded: Running) -> None:
    first, *_ = await _sent(embedded, 10)
    queue = ("-b", first.queue.broker_name, "-i", str(first.queue.queue_id))
    for _ in range(2):
        ran = await mqadmin(
            embedded.namesrv, "consumeMessage", "-t", TOPIC, *queue, "-o", "4", "-c", "3"
        )
        bodies = [line.rpartition("BODY: ")[2] for line in ran.lines if "MSGID" in line]
        assert bodies == ["body 4", "body 5", "body 6"]
        assert "Consume ok" in ran.lines


async def test_sending(embedded: Running) -> None:
    await _sent(embedded, 1)
    ran = await mqadmin(
        embedded.namesrv, "sendMessage", "-t", TOPIC, "-p", "hello", "-k", "sent", "-c", "T"
    )
    assert ran.lines[0] == f"{'#Broker Name':<32}  {'#QID':<4}  {'#Send Result':<20}    #MsgId"
    broker, _, status, message_id = ran.lines[1].split()
    assert status == "SEND_OK"
    await _indexed(embedded, "sent", 1)
    async with Admin(embedded.namesrv) as admin:
        (found,) = await admin.messages.by_key(TOPIC, "sent")
        assert (found.msg_id, found.body, found.tags) == (message_id, b"hello", "T")
        assert found.broker_name == broker
    timed = await mqadmin(embedded.namesrv, "checkMsgSendRT", "-t", TOPIC, "-a", "5", "-s", "16")
    assert [line.split()[2] for line in timed.lines[1:6]] == ["true"] * 5
    assert timed.lines[-1].startswith("Avg RT: ")
    again = await mqadmin(
        embedded.namesrv, "queryMsgById", "-t", TOPIC, "-i", message_id, "-s", "true"
    )
    assert again.lines[0] == f"prepare resend msg. originalMsgId={message_id}"
    assert "sendStatus=SEND_OK" in again.lines[1]


async def test_what_an_id_says(embedded: Running) -> None:
    (first,) = await _sent(embedded, 1)
    ran = await mqadmin("", "DecodeMessageId", "-i", first.msg_id)
    assert ran.code == 0, ran.err
    assert ran.lines[0].startswith("ip=")
    async with Admin(embedded.namesrv) as admin:
        message = await admin.messages.get(TOPIC, first.msg_id)
    from pyrmq.admin.message_ids import decode_id

    assert abs(decode_id(first.msg_id).born - message.born_timestamp) < 5000


async def test_the_tree(embedded: Running) -> None:
    first, *_ = await _sent(embedded, 4)
    found = await admin(embedded.namesrv, "message", "by-key", "-t", TOPIC, "common", "-o", "json")
    shown = json.loads(found.out)
    assert [m["body"] for m in shown] == ["body 0", "body 1", "body 2", "body 3"]
    assert shown[0]["msgId"] == first.msg_id
    got = await admin(embedded.namesrv, "message", "get", "-t", TOPIC, first.offset_msg_id)
    assert [line.split() for line in got.lines if line.startswith("body")] == [
        ["body", "body", "0"]
    ]
    printed = await admin(
        embedded.namesrv, "message", "print", "-t", TOPIC, "--tags", "B", "--limit", "1"
    )
    assert len(printed.lines) == 1
    assert printed.lines[0].endswith("[B]  body 1")
    sent = await admin(
        embedded.namesrv, "message", "send", "-t", TOPIC, "--body", "x\x1b[2J", "-o", "json"
    )
    assert json.loads(sent.out)["status"] == "SEND_OK"
    lines = (await admin(embedded.namesrv, "message", "print", "-t", TOPIC)).lines
    assert sum("\x1b" in line for line in lines) == 0, "a body moves no cursor"
    none = await admin(embedded.namesrv, "message", "by-key", "-t", TOPIC, "nothing")
    assert none.code == 2
    wrong = await admin(embedded.namesrv, "message", "print", "-t", TOPIC, "--begin", "1700000000")
    assert wrong.code == 1
    assert "is no time" in wrong.err


async def test_the_trace_of_a_message(embedded: Running) -> None:
    got = trio.Event()

    async def listen(message: ReceivedMessage) -> None:
        got.set()

    async with Producer("PG_traced", namesrv=embedded.namesrv, trace=True) as producer:
        sent = await producer.send(Message(TOPIC, b"x"))
        async with PushConsumer(
            "CG_traced",
            {TOPIC: "*"},
            namesrv=embedded.namesrv,
            listener=listen,
            trace=True,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):
            await got.wait()
    with trio.fail_after(20):
        while True:
            ran = await mqadmin(embedded.namesrv, "queryMsgTraceById", "-i", sent.msg_id)
            if "PG_traced" in ran.out and "CG_traced" in ran.out:
                break
            await trio.sleep(0.05)
    heads = [line.split() for line in ran.lines if line.startswith("#")]
    assert heads[0][:2] == ["#Type", "#ProducerGroup"]
    assert heads[1][:2] == ["#Type", "#ConsumerGroup"]
    rows = [line for line in ran.lines if line and not line.startswith("#")]
    assert all(row.endswith("success") for row in rows)
    none = await mqadmin(embedded.namesrv, "queryMsgTraceById", "-i", "0" * 32)
    assert none.code == 2


async def test_a_time_within_a_second(embedded: Running) -> None:
    """The index counts whole seconds; what is asked for is met to the millisecond."""
    await _sent(embedded)
    async with Admin(embedded.namesrv) as asked:
        (found,) = await asked.messages.by_key(TOPIC, "k1")
        at = found.store_timestamp
        assert len(await asked.messages.by_key(TOPIC, "k1", begin=at, end=at)) == 1
        for window in ({"begin": at + 1}, {"end": at - 1}):
            with pytest.raises(NotFoundError, match="the key k1"):
                await asked.messages.by_key(TOPIC, "k1", **window)


async def test_an_offset_id_of_a_broker_that_is_not_there(embedded: Running) -> None:
    first, *_ = await _sent(embedded)
    async with Admin(embedded.namesrv) as asked:
        found = await asked.messages.get(TOPIC, first.offset_msg_id)
        assert found.broker_name == first.queue.broker_name
        gone = message_id(("127.0.0.1", 1), 77)
        with pytest.raises(NotFoundError, match=f"the id {gone}") as error:
            await asked.messages.get(TOPIC, gone)
        assert "if it is an offset id: cannot connect to 127.0.0.1:1" in str(error.value)
