"""Topics with queue.type BatchCQ: a batch is one record, which consumers take apart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import trio

from pyrmq.client import ConsumeFrom, PushConsumer
from tests.support.client import UPDATE_CONSUMER_OFFSET, Client, batch_command
from tests.support.consumed import take, take_none
from tests.support.operators import MESSAGE_ILLEGAL, SYSTEM_ERROR, await_hits, create_topic, query
from tests.support.records import Record, encode_batch
from tests.support.server import ServerProcess
from tests.support.wire import BINARY, JSON, Command

BATCH_CQ = "+queue.type=BatchCQ"
NEED_UNWRAP, INNER_BATCH = 0x40, 0x80
"""Bits of sysFlag. [MessageSysFlag]"""

_numbers = count()

Message = tuple[bytes, dict[str, str]]


def messages(start: int, size: int) -> list[Message]:
    """Messages whose bodies are their queue offsets."""
    return [(b"%d" % n, {"number": str(n)}) for n in range(start, start + size)]


def unique(start: int) -> str:
    return f"7F0000010001{start:020X}"


def send_batch(client: Client, topic: str, start: int, size: int, **options: object) -> Command:
    """One batch of messages that will be at queue offsets start..start+size-1 of queue 0."""
    return client.request(
        batch_command(
            topic, messages(start, size), properties={"UNIQ_KEY": unique(start)}, **options
        )
    )


def check_batch(record: Record, start: int, size: int) -> None:
    """One record with the whole batch as it was sent. [SendMessageProcessor.sendBatchMessage]"""
    assert record.queue_offset == start
    assert record.sys_flag & (NEED_UNWRAP | INNER_BATCH) == NEED_UNWRAP | INNER_BATCH
    assert record.body == encode_batch(messages(start, size))
    properties = record.properties
    assert (properties["INNER_NUM"], properties["INNER_BASE"]) == (str(size), str(start))
    assert properties["UNIQ_KEY"] == unique(start)


@pytest.fixture
def topic(client: Client) -> str:
    """A batch topic of the test's own with one queue."""
    name = f"Batch{next(_numbers)}"
    assert create_topic(client, name, attributes=BATCH_CQ).code == 0
    return name


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_batch_is_one_record(client: Client, topic: str, serialize: int) -> None:
    start = 0
    for size in (3, 1, 5):
        answer = send_batch(client, topic, start, size, serialize=serialize)
        assert answer.code == 0, answer.remark
        assert answer.ext["queueOffset"] == str(start)
        assert answer.ext["batchUniqId"] == answer.ext["transactionId"] == unique(start)
        assert len(answer.ext["msgId"]) == 32, "one id: there is one record"
        pulled = client.pull(topic, 0, start)
        (record,) = pulled.records
        check_batch(record, start, size)
        assert record.offset_msg_id == answer.ext["msgId"]
        start += size
        assert (pulled.next_offset, client.max_offset(topic, 0)) == (start, start)
    assert [r.queue_offset for r in client.pull(topic, 0, 0).records] == [0, 3, 4]
    (record,) = await_hits(client, topic, unique(3), 1, unique=True)
    check_batch(record, 3, 1)


def test_pulls_from_the_middle_of_a_batch(client: Client, topic: str) -> None:
    """The record that holds the offset comes whole; the next offset is behind the batch."""
    starts = [0, 4, 5, 11]
    for start, end in zip(starts, [*starts[1:], 14], strict=True):
        send_batch(client, topic, start, end - start)
    for offset in range(14):
        number = max(i for i, start in enumerate(starts) if start <= offset)
        behind = [*starts, 14][number + 1]
        one = client.pull(topic, 0, offset, maximum=1)
        assert [r.queue_offset for r in one.records] == [starts[number]]
        assert one.next_offset == behind
        rest = client.pull(topic, 0, offset)
        assert [r.queue_offset for r in rest.records] == starts[number:]
        assert (rest.next_offset, rest.min_offset, rest.max_offset) == (14, 0, 14)
    assert client.pull(topic, 0, 14).code == 19, "nothing new yet"
    assert client.pull(topic, 0, 15).code == 21, "behind the end"


def test_single_messages_and_batches_without_a_unique_key(client: Client, topic: str) -> None:
    """Both become plain records; only a batch with a key of its own is kept as one."""
    send_batch(client, topic, 0, 3)
    single = client.send(topic, b"3", queues=1)
    assert (single.ext["queueOffset"], "batchUniqId" in single.ext) == ("3", False)
    split = client.request(batch_command(topic, messages(4, 2)))
    assert (split.ext["queueOffset"], len(split.ext["msgId"].split(","))) == ("4", 2)
    assert "batchUniqId" not in split.ext
    send_batch(client, topic, 6, 2)
    records = client.pull(topic, 0, 0).records
    assert [r.queue_offset for r in records] == [0, 3, 4, 5, 6]
    assert [r.body for r in records[1:4]] == [b"3", b"4", b"5"]
    assert all(not r.sys_flag & (NEED_UNWRAP | INNER_BATCH) for r in records[1:4])
    assert client.max_offset(topic, 0) == 8


def test_a_unique_key_makes_no_batch_elsewhere(client: Client) -> None:
    """In other topics a batch is split, as before."""
    name = f"Simple{next(_numbers)}"
    create_topic(client, name, attributes="+queue.type=SimpleCQ")
    answer = send_batch(client, name, 0, 3)
    assert "batchUniqId" not in answer.ext
    assert len(answer.ext["msgId"].split(",")) == 3
    assert [r.body for r in client.pull(name, 0, 0).records] == [b"0", b"1", b"2"]


def test_tags_of_the_batch_select(client: Client, topic: str) -> None:
    """The tag of a batch is that of the batch itself: the broker does not look inside."""
    for start, tag in ((0, "red"), (3, "blue")):
        keys = {"UNIQ_KEY": unique(start), "TAGS": tag}
        client.request(batch_command(topic, messages(start, 3), properties=keys))
    for tag, wanted in {"red": [0], "blue": [3], "red || blue": [0, 3]}.items():
        pulled = client.pull(topic, 0, 0, subscription=tag)
        assert [r.queue_offset for r in pulled.records] == wanted


@pytest.mark.parametrize(
    "body", [b"", b"\0\0\0\1", encode_batch(messages(0, 2))[:-1], b"\xff" * 40]
)
def test_broken_batches_leave_nothing(client: Client, topic: str, body: bytes) -> None:
    command = batch_command(topic, [], properties={"UNIQ_KEY": unique(0)})
    command.body = body
    assert client.request(command).code == MESSAGE_ILLEGAL
    assert client.max_offset(topic, 0) == 0
    assert send_batch(client, topic, 0, 2).ext["queueOffset"] == "0"


def test_as_many_messages_as_a_batch_may_hold(client: Client, topic: str) -> None:
    """Queue entries have 16 bits for the number of messages."""
    entry: Message = (b"x", {})
    keys = {"UNIQ_KEY": unique(0)}
    answer = client.request(batch_command(topic, [entry] * 32_768, properties=keys))
    assert answer.code == MESSAGE_ILLEGAL
    assert "32767" in (answer.remark or "")
    assert client.max_offset(topic, 0) == 0
    assert client.request(batch_command(topic, [entry] * 32_767, properties=keys)).code == 0
    assert client.max_offset(topic, 0) == 32_767
    assert client.send(topic, b"next", queues=1).ext["queueOffset"] == "32767"
    assert client.pull(topic, 0, 32_766).records[0].queue_offset == 0


@pytest.mark.parametrize(("key", "flag"), [("INNER_NUM", 0), (None, INNER_BATCH)])
def test_the_marks_of_a_batch_are_the_brokers(client: Client, key: str | None, flag: int) -> None:
    """A sender that sets them itself would make records that move offsets by what it says."""
    properties = {key: "3"} if key else {}
    for name in ("Simple", "Batch"):
        topic = f"{name}{next(_numbers)}"
        create_topic(client, topic, attributes=f"+queue.type={name}CQ")
        answer = client.send(topic, b"x", properties=properties, change={"f": str(flag)})
        assert answer.code == MESSAGE_ILLEGAL
        assert answer.remark
        assert client.max_offset(topic, 0) == 0


# What consumers get.


def consumer(server: ServerProcess, topic: str, group: str, expression: str = "*") -> PushConsumer:
    return PushConsumer(
        group,
        {topic: expression},
        namesrv="{}:{}".format(*server.namesrv),
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )


@pytest.mark.usefixtures("deadline")
async def test_a_push_consumer_gets_each_message_once_in_order(
    process: ServerProcess, client: Client, topic: str
) -> None:
    start = 0
    for size in (3, 1, 40, 2, 100):
        send_batch(client, topic, start, size)
        start += size
    client.send(topic, b"%d" % start, queues=1)
    async with consumer(process, topic, f"all-{topic}") as reader:
        got = await take(reader, start + 1)
        assert [m.body for m in got] == [b"%d" % n for n in range(start + 1)]
        assert [m.queue_offset for m in got] == list(range(start + 1))
        assert all(m.properties["number"] == m.body.decode() for m in got[:-1])
        await take_none(reader)
        await trio.to_thread.run_sync(send_batch, client, topic, start + 1, 5)
        assert [m.queue_offset for m in await take(reader, 5)] == list(range(start + 1, start + 6))


@pytest.mark.usefixtures("deadline")
async def test_a_group_goes_on_in_the_middle_of_a_batch(
    process: ServerProcess, client: Client, topic: str
) -> None:
    send_batch(client, topic, 0, 10)
    send_batch(client, topic, 10, 3)
    group = f"middle-{topic}"
    client.heartbeat("admin@1", group, topic)
    place = {"consumerGroup": group, "topic": topic, "queueId": 0}
    assert client.call(UPDATE_CONSUMER_OFFSET, **place, commitOffset=7).code == 0
    client.call(35, clientID="admin@1", consumerGroup=group)
    async with consumer(process, topic, group) as reader:
        assert [m.queue_offset for m in await take(reader, 6)] == list(range(7, 13))
        await take_none(reader)


# Starts.


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of the test's own with small files: six entries to a batch queue file."""
    conf = "mappedFileSizeCommitLog=16384\nmapperFileSizeBatchConsumeQueue=276\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server:
        yield server


@pytest.mark.parametrize("how", ["stop", "kill", "lose queues"])
def test_batches_after_a_start(own: ServerProcess, how: str) -> None:
    """Also when the queue files are gone: topics.json says then what kind they have to be."""
    batches: list[tuple[int, int]] = []
    end = 1
    for turn in range(3):
        with Client(own.broker) as client:
            if turn == 0:
                assert create_topic(client, "B", attributes=BATCH_CQ).code == 0
                assert client.send("B", b"single", queues=1).ext["queueOffset"] == "0"
            for n in range(50):
                size = (3, 1, 7)[n % 3]
                assert send_batch(client, "B", end, size).ext["queueOffset"] == str(end)
                batches.append((end, size))
                end += size
        if how != "stop":
            own.kill()
        if how == "lose queues":
            shutil.rmtree(own.store / "batchconsumequeue")
        own.restart()
        with Client(own.broker) as client:
            assert (client.min_offset("B", 0), client.max_offset("B", 0)) == (0, end)
            at, found = 0, []
            while at < end:
                pulled = client.pull("B", 0, at)
                found += pulled.records
                assert pulled.next_offset > at
                at = pulled.next_offset
            assert found.pop(0).body == b"single"
            for record, (start, size) in zip(found, batches, strict=True):
                check_batch(record, start, size)
            for start, size in batches[::10]:
                for offset in (start, start + size - 1):
                    check_batch(client.pull("B", 0, offset, maximum=1).records[0], start, size)
                (record,) = await_hits(client, "B", unique(start), 1, unique=True)
                check_batch(record, start, size)
    assert not (own.store / "consumequeue" / "B").exists()
    assert len(list((own.store / "batchconsumequeue" / "B" / "0").iterdir())) > 20


# Attributes.


@pytest.mark.parametrize(
    "attributes",
    [
        "+queue.typo=BatchCQ",
        "+queue.type=RocksCQ",
        "+queue.type=",
        "+queue.type",
        "queue.type=BatchCQ",
        "-queue.type=BatchCQ",
        "+",
        "+=",
        "+queue.type=BatchCQ,+unknown=1",
        "+cleanup.policy=COMPACTION",
    ],
)
def test_attributes_that_are_refused(client: Client, attributes: str) -> None:
    name = f"Refused{next(_numbers)}"
    answer = create_topic(client, name, attributes=attributes)
    assert answer.code == SYSTEM_ERROR
    assert answer.remark
    assert query(client, name, "k").code == 22
    plain = create_topic(client, name)
    assert plain.code == 0, "the refused one left nothing behind"
    assert "batchUniqId" not in send_batch(client, name, 0, 2).ext


def test_the_kind_of_a_topic_stays(process: ServerProcess, client: Client, topic: str) -> None:
    """Its queues have their form on disk: neither set, nor unset, nor replaced."""
    simple = f"Simple{next(_numbers)}"
    create_topic(client, simple)
    for name, change in [
        (topic, "+queue.type=SimpleCQ"), (topic, "-queue.type"),
        (simple, BATCH_CQ), (simple, "+queue.type=SimpleCQ"),
    ]:  # fmt: skip
        answer = create_topic(client, name, attributes=change)
        assert answer.code == SYSTEM_ERROR, (name, change)
        assert "queue.type" in (answer.remark or "")
    assert "batchUniqId" in send_batch(client, topic, 0, 2).ext
    assert "batchUniqId" not in send_batch(client, simple, 0, 2).ext


def test_other_changes_keep_the_attributes(
    process: ServerProcess, client: Client, topic: str
) -> None:
    """Widening a batch topic leaves it one; what may change does. topics.json has it all."""

    def saved() -> dict[str, object]:
        text = (process.store / "config" / "topics.json").read_text()
        found: dict[str, object] = json.loads(text)["topicConfigTable"][topic]
        return found

    assert saved()["attributes"] == {"queue.type": "BatchCQ"}
    assert create_topic(client, topic, 3).code == 0
    assert "batchUniqId" in send_batch(client, topic, 0, 2, queue_id=2).ext
    assert create_topic(client, topic, 3, attributes="+message.type=NORMAL").code == 0
    assert saved()["attributes"] == {"queue.type": "BatchCQ", "message.type": "NORMAL"}
    assert create_topic(client, topic, 3, attributes="-message.type," + BATCH_CQ).code == 0
    assert saved()["attributes"] == {"queue.type": "BatchCQ"}
    assert saved()["writeQueueNums"] == 3
