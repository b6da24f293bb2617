"""Every member gets all messages, and keeps its offsets in a file."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom, MessageModel, PushConsumer
from pyrmq.client.consumer.local_offsets import LocalOffsets
from pyrmq.client.consumer.offsets import decode_table
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.model.message import MessageQueue, ReceivedMessage
from pyrmq.net import fastjson
from tests.client.members import after, collect, consumer
from tests.support.scripted.groups import LOCK, QUERY_OFFSET, UPDATE_OFFSET, GroupBroker
from tests.support.scripted.streams import HEART_BEAT

Q0, Q1 = (MessageQueue("T", "broker-a", n) for n in (0, 1))


def member(folder: Path, **options: Any) -> PushConsumer:
    return consumer(message_model=MessageModel.BROADCASTING, offset_folder=folder, **options)


async def test_every_member_gets_everything(
    alone: GroupBroker, tmp_path: Path, mock_clock: MockClock
) -> None:
    mock_clock.rate = 10
    seen: list[Counter[bytes]] = [Counter(), Counter()]
    async with (
        member(tmp_path, instance_name="one") as one,
        member(tmp_path, instance_name="two") as two,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(collect, one, seen[0])
        nursery.start_soon(collect, two, seen[1])
        for n in range(10):
            alone.put(b"%d" % n, queue=n % 2)
        await trio.sleep(5)
        assert one.assigned == two.assigned == [Q0, Q1]
        nursery.cancel_scope.cancel()
    assert seen == [{b"%d" % n: 1 for n in range(10)}] * 2
    assert not alone.requests(QUERY_OFFSET, UPDATE_OFFSET, LOCK)
    (data,) = json.loads(alone.requests(HEART_BEAT)[0].body)["consumerDataSet"]
    assert data["messageModel"] == "BROADCASTING"
    assert [s["topic"] for s in data["subscriptionDataSet"]] == ["T"], "nothing is retried"


async def test_it_goes_on_where_it_was(
    alone: GroupBroker, tmp_path: Path, mock_clock: MockClock
) -> None:
    mock_clock.rate = 10
    for text in (b"1", b"2"):
        alone.put(text)
        async with member(tmp_path) as reader:
            with trio.fail_after(20):
                message = await anext(aiter(reader))
            assert message.body == text
            reader.acknowledge(message)
    (path,) = tmp_path.rglob("offsets.json")  # noqa: ASYNC240 - small
    assert path.parts[-2] == "g"
    assert path.parts[-3].endswith("@DEFAULT")
    table = fastjson.loads_object(path.read_bytes())["offsetTable"]
    assert decode_table(table) == {Q0: 2, Q1: 0}
    assert path.with_name("offsets.json.bak").exists()
    assert b'{"brokerName":"broker-a","queueId":0,"topic":"T"}:2' in path.read_bytes()


async def test_what_a_listener_fails_on_is_left(
    alone: GroupBroker, tmp_path: Path, mock_clock: MockClock
) -> None:
    mock_clock.rate = 10

    async def listener(message: ReceivedMessage) -> None:
        raise ValueError("bad")

    alone.put(b"x")
    async with member(tmp_path, listener=listener):
        await trio.sleep(2)
    assert not alone.sent_back
    async with member(tmp_path) as reader:
        with trio.move_on_after(2) as limit:
            await anext(aiter(reader))
        assert limit.cancelled_caught


async def test_one_file_has_one_consumer(
    alone: GroupBroker, tmp_path: Path, mock_clock: MockClock
) -> None:
    mock_clock.rate = 10
    async with member(tmp_path):
        with pytest.raises(ClientError, match="instance_name"):
            async with member(tmp_path):
                pass
        async with member(tmp_path, instance_name="other"):
            pass
    async with member(tmp_path):
        pass


async def test_two_that_want_one_file_at_once(tmp_path: Path) -> None:
    opened: list[LocalOffsets] = []

    async def open_one() -> None:
        one = store(tmp_path)
        with suppress(ClientError):
            await one.open()
            opened.append(one)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_one)
        nursery.start_soon(open_one)
    (one,) = opened
    one.close()
    one.path.mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(ClientError, match="cannot be read"):
            await one.open()


def store(folder: Path) -> LocalOffsets:
    return LocalOffsets(folder, "ip@DEFAULT", "g")


async def test_a_damaged_file_is_replaced_by_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = store(tmp_path)
    await first.open()
    for offset in (1, 2):
        await first.write(Q0, offset)
        await first.flush()
    first.close()
    first.path.write_bytes(b"{")
    second = store(tmp_path)
    await second.open()
    assert await second.read(Q0) == 1
    assert await second.read(Q1) is None
    assert await second.has_any("a topic that only the damaged file had")
    assert f"offsets in {first.path} are damaged" in caplog.text
    assert f"offsets of {first.path}.bak are used" in caplog.text
    await second.write(Q0, 3)
    await second.flush()
    assert first.path.with_name("offsets.json.damaged").read_bytes() == b"{"
    second.close()
    third = store(tmp_path)
    await third.open()
    assert await third.read(Q0) == 3
    assert await third.has_any("T")
    assert not await third.has_any("Other")
    third.close()


@pytest.mark.parametrize(
    "damage",
    [b"", b"\0" * 4096, b" \n", b"{", b"[]", b"{}", b'{"offsetTable":{{"topic":"T"', b"\xff\xfe",
     b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:-1}}'],
)  # fmt: skip
@pytest.mark.parametrize("backup", [None, b""])
async def test_a_damaged_file_without_another_skips_nothing(
    alone: GroupBroker,
    tmp_path: Path,
    damage: bytes,
    backup: bytes | None,
    clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The member was there before: what came while it was away is not left out, and the log says
    that it may have some twice."""
    options: Any = {"consume_from": ConsumeFrom.LAST_OFFSET}
    alone.put(b"before")
    async with member(tmp_path, **options):
        await after(6)
    (path,) = tmp_path.rglob("offsets.json")  # noqa: ASYNC240 - small
    path.write_bytes(damage)
    bak = path.with_name("offsets.json.bak")
    bak.unlink(missing_ok=True)
    if backup is not None:
        bak.write_bytes(backup)
    alone.put(b"while away")
    seen: Counter[bytes] = Counter()
    async with member(tmp_path, **options) as reader, trio.open_nursery() as nursery:
        nursery.start_soon(collect, reader, seen)
        await after(6)
        nursery.cancel_scope.cancel()
    assert seen == {b"before": 1, b"while away": 1}
    assert f"offsets in {path} are damaged" in caplog.text
    assert "read from their first message" in caplog.text
    assert path.with_name("offsets.json.damaged").read_bytes() == damage


async def test_a_file_that_cannot_be_written_is_reported_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = store(tmp_path)
    await offsets.open()
    await offsets.write(Q0, 1)
    (tmp_path / "ip@DEFAULT").write_bytes(b"a file in the way")
    await offsets.flush()
    assert "offsets not written" in caplog.text
    (tmp_path / "ip@DEFAULT").unlink()
    await offsets.flush()
    assert offsets.path.exists()
    offsets.close()


JSON_FORMS = [
    b'{"t":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}}',
    b'{"t":[[{"brokerName":"broker-a","queueId":0,"topic":"T"},5]]}',
    b'{"t":[{"brokerName":"broker-a","queueId":0,"topic":"T","offset":5}]}',
]


@pytest.mark.parametrize("text", JSON_FORMS)
def test_forms_of_a_table(text: bytes) -> None:
    assert decode_table(fastjson.loads_object(text)["t"]) == {Q0: 5}


@pytest.mark.parametrize(
    "text",
    [
        b'{"t":5}',
        b'{"t":{"x":5}}',
        b'{"t":[5]}',
        b'{"t":[[5,5]]}',
        b'{"t":[{"brokerName":"b","queueId":0,"topic":"T"}]}',
        b'{"t":{{"brokerName":"b","queueId":"0","topic":"T"}:5}}',
        b'{"t":{{"brokerName":"b","queueId":0,"topic":"T"}:-1}}',
        b'{"t":{{"brokerName":"b","queueId":0,"topic":"T"}:true}}',
        b"{}",
    ],
)
def test_what_is_no_table(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_table(fastjson.loads_object(text).get("t"))


async def test_in_clustering_there_is_no_file(alone: GroupBroker, clock: MockClock) -> None:
    with pytest.raises(ClientError, match="BROADCASTING"):
        consumer(offset_folder="x")
    async with consumer():
        await after(1)
