"""Tracks of messages, entries of queues, and dumps of compaction logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq import ConsumeFrom, LitePullConsumer, Message, MessageModel, Producer, PushConsumer
from pyrmq.admin import Admin
from pyrmq.admin.compaction_dump import messages_of
from pyrmq.admin.traces import TrackType
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.model.record import ReceivedMessage
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import admin, mqadmin
from tests.support.records import MAGIC_V1, Record, encode_record
from tests.support.scripted.replicas import replicas

TOPIC = "Tracked"
CLUSTER = "DefaultCluster"


async def _message(server: Running, tag: str) -> ReceivedMessage:
    async with Producer("PG", namesrv=server.namesrv) as producer:
        sent = await producer.send(Message(TOPIC, b"body", tags=tag))
    async with Admin(server.namesrv) as asked:
        return await asked.messages.get(TOPIC, sent.offset_msg_id)


async def _types(server: Running, message: ReceivedMessage) -> dict[str, TrackType]:
    async with Admin(server.namesrv) as asked:
        return {t.group: t.type for t in await asked.messages.tracks(message)}


async def _until(
    server: Running, message: ReceivedMessage, wanted: Callable[[dict[str, TrackType]], bool]
) -> None:
    while not wanted(await _types(server, message)):  # noqa: ASYNC110
        await trio.sleep(0.05)


async def test_each_state_of_a_group(embedded: Running, tmp_path: Path) -> None:
    message = await _message(embedded, "A")
    words = ("queryMsgById", "-i", message.offset_msg_id, "-t", TOPIC)
    to = ("--bodyPath", str(tmp_path))
    nobody = await mqadmin(embedded.namesrv, *words, *to)
    assert nobody.code == 0, nobody.err
    assert nobody.lines[-3:] == ["", "", "WARN: No Consumer"]
    held = trio.Event()

    async def take(_: Any) -> None:
        pass

    async def hold(_: Any) -> None:
        await held.wait()

    async with (
        _push(embedded, "Done", "*", take),
        _push(embedded, "Filtered", "B", take),
        _push(embedded, "Held", "*", hold),
        _push(embedded, "Cast", "*", take, message_model=MessageModel.BROADCASTING),
    ):
        await _message(embedded, "B")
        await _until(
            embedded,
            message,
            lambda t: len(t) == 4 and t.get("Done") is TrackType.CONSUMED
            and t.get("Cast") is TrackType.CONSUME_BROADCASTING
            and t.get("Held") is TrackType.NOT_CONSUME_YET
            and t.get("Filtered") in (TrackType.CONSUMED_BUT_FILTERED, TrackType.NOT_CONSUME_YET),
        )  # fmt: skip
        for way in (
            words,
            ("queryMsgByUniqueKey", "-i", message.msg_id, "-t", TOPIC),
            ("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", str(message.queue_id),
             "-o", str(message.queue_offset)),
        ):  # fmt: skip
            ran = await mqadmin(embedded.namesrv, *way, *to)
            assert ran.code == 0, ran.err
            assert (
                "MessageTrack [consumerGroup=Done, trackType=CONSUMED, exceptionDesc=null]"
                in ran.lines
            )
        shown = await admin(
            embedded.namesrv, "message", "get", "-t", TOPIC, message.msg_id, "-o", "json"
        )
        tracks = {t["group"]: t["type"] for t in json.loads(shown.out)["tracks"]}
        assert tracks["Held"] == "NOT_CONSUME_YET"
        held.set()
    gone = await _types(embedded, message)
    assert gone["Done"] is TrackType.NOT_ONLINE
    ran = await mqadmin(embedded.namesrv, *words, *to)
    (line,) = [line for line in ran.lines if "consumerGroup=Done," in line]
    assert "exceptionDesc=CODE:206 DESC:" in line


async def test_a_group_that_pulls(embedded: Running) -> None:
    message = await _message(embedded, "A")
    async with LitePullConsumer("Pulls", {TOPIC: "*"}, namesrv=embedded.namesrv) as consumer:
        await consumer.poll(0.1)
        await consumer.commit()
        await _until(embedded, message, lambda t: t.get("Pulls") is TrackType.PULL)


def _push(server: Running, group: str, tags: str, listener: Any, **options: Any) -> PushConsumer:
    return PushConsumer(
        group,
        {TOPIC: tags},
        namesrv=server.namesrv,
        listener=listener,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        **options,
    )


async def test_entries_of_a_queue(embedded: Running) -> None:
    message = await _message(embedded, "A")
    broker = format_address(embedded.broker_address)
    words = ("queryCq", "-t", TOPIC, "-q", str(message.queue_id))
    ran = await mqadmin(embedded.namesrv, *words, "-i", "0")
    assert ran.code == 0, ran.err
    rule = "=" * 38
    entry = (
        f"ConsumeQueueData{{physicOffset={message.commit_log_offset}, "
        f"physicSize={message.store_size}, tagsCode={ord('A')}, extendDataJson='null', "
        "bitMap='null', eval=false, msg='null'}"
    )
    assert ran.lines == ["Queue data: ", "max: 1, min: 0", rule, "idx: 0", entry, rule]
    group = await mqadmin(embedded.namesrv, *words, "-i", "0", "-b", broker, "-g", "G")
    assert group.lines[:3] == ["Filter data: ", f"G@{TOPIC} is not online!", rule]
    beyond = await mqadmin(embedded.namesrv, *words, "-i", "7")
    assert (beyond.code, beyond.out) == (2, "")
    assert "Index 7" in beyond.err
    assert (await mqadmin(embedded.namesrv, *words, "-i", "x")).code == 1
    shown = await admin(
        embedded.namesrv, "message", "queue-index", "-t", TOPIC, "--queue",
        str(message.queue_id), "0", "-o", "json",
    )  # fmt: skip
    (row,) = json.loads(shown.out)["entries"]
    assert (row["index"], row["phys"]) == (0, message.commit_log_offset)


async def test_no_entries_of_a_broker_that_says_nothing() -> None:
    with replicas() as scripted:
        async with Admin(scripted.namesrv) as asked:
            with pytest.raises(ClientError, match="no such entry"):
                await asked.messages.queue_entries("T", 0, 0, broker=scripted.master)


def _record(offset: int) -> bytes:
    host = ("127.0.0.1", 1)
    return encode_record(
        Record(0, MAGIC_V1, 0, 0, 0, offset, 100, 0, 1, host, 2, host, 0, 0, b"x", "Compacted", b"")
    )


async def test_compaction_log(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000"
    records = [_record(n) for n in range(3)]
    file.write_bytes(b"".join(records) + bytes(64))
    ran = await mqadmin("", "dumpCompactionLog", "-f", str(file))
    assert ran.code == 0, ran.err
    assert [line.count("topic='Compacted'") for line in ran.lines] == [1, 1, 1]
    tree = await admin("", "message", "dump", str(file), "-o", "json")
    assert [json.loads(line)["queue_offset"] for line in tree.lines] == [0, 1, 2]
    assert (await mqadmin("", "dumpCompactionLog")).code == 1
    assert (await mqadmin("", "dumpCompactionLog", "-f", str(tmp_path / "none"))).code == 2


@pytest.mark.parametrize(
    "tail",
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\2", b"\0\0\0\10abcd"],
    ids=["negative", "huge", "tiny", "no record"],
)
def test_damaged_compaction_log(tmp_path: Path, tail: bytes) -> None:
    file = tmp_path / "log"
    first = _record(0)
    file.write_bytes(first + tail)
    found = messages_of(file)
    assert next(found).topic == "Compacted"
    with pytest.raises(ProtocolError, match=f"byte {len(first)}"):
        next(found)
