"""Small messages that are large once they are decompressed: a consumer's memory stays bounded, and
its queues go on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom, LitePullConsumer, MessageModel
from pyrmq.errors import ProtocolError
from pyrmq.model import record as records
from pyrmq.model.message import ReceivedMessage
from pyrmq.model.record import Room
from tests.client.members import after, consumer
from tests.support.records import encode_record
from tests.support.scripted.groups import PULL, GroupBroker
from tests.support.scripted.streams import StreamCluster

ZSTD = 0x201
LIMIT = 10_000


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_BODY", LIMIT)


def put(broker: GroupBroker, first: bytes, size: int) -> None:
    """A message of `size` bytes, which begins with `first`."""
    body = first + bytes(size - len(first))
    broker.put(zstandard.compress(body), sys_flag=ZSTD, UNIQ_KEY=first.decode())


async def test_a_pull_brings_what_there_is_room_for(alone: GroupBroker, clock: MockClock) -> None:
    """The rest is pulled when the first messages are consumed; each comes once, in order."""
    for n in range(30):
        put(alone, b"%02d" % n, 4000)
        alone.put(b"plain")
    got: list[bytes] = []
    most = 0
    async with consumer(max_cached_bytes=LIMIT) as reader:
        async for message in reader:
            (process,) = (p for p in reader._held.held() if p.queue == reader.assigned[0])
            most = max(most, process.waiting_bytes)
            got.append(message.body[:2])
            if len(got) == 60:
                break
    assert got == [text for n in range(30) for text in (b"%02d" % n, b"pl")]
    assert most < 3 * LIMIT
    offsets = [int(c.ext["queueOffset"]) for c in alone.requests(PULL)]
    assert len(set(offsets)) > 10, "several pulls"


async def test_polls(alone: GroupBroker, clock: MockClock) -> None:
    for n in range(9):
        put(alone, b"%02d" % n, 4000)
    got: list[bytes] = []
    options: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET}
    async with LitePullConsumer(
        "g", {"T": "*"}, namesrv=StreamCluster.namesrv, **options
    ) as reader:
        while len(got) < 9:
            got += [m.body[:2] for m in await reader.poll()]
    assert got == [b"%02d" % n for n in range(9)]


async def test_one_that_is_too_large_by_itself(alone: GroupBroker, clock: MockClock) -> None:
    """It is said which one; it goes back to its broker, and in the end to the dead letters."""
    put(alone, b"before", 9000)
    put(alone, b"bomb", LIMIT + 1)
    put(alone, b"behind", 9000)
    seen: Counter[bytes] = Counter()
    errors: list[str] = []

    async def listener(message: ReceivedMessage) -> None:
        if message.body_error is not None:
            errors.append(str(message.body_error))
        seen[message.body[:6]] += 1

    async with consumer(listener=listener):
        await after(6)
    assert seen == {b"before": 1, b"behind": 1}
    (error,) = errors
    assert "body of message bomb: " in error
    assert "topic T, queue 0, offset 1" in error
    assert f"more than {LIMIT} bytes" in error
    assert [c.ext["originMsgId"] for c in alone.sent_back] == ["bomb"]
    assert alone.offsets["g", "T", 0] == 3


@pytest.mark.parametrize("broadcasting", [False, True])
async def test_in_order_it_does_not_stop_its_queue(
    alone: GroupBroker, broadcasting: bool, tmp_path: Path, clock: MockClock
) -> None:
    """Without `max_reconsume_times` as well: it would fail for ever."""
    put(alone, b"bomb", LIMIT + 1)
    alone.put(b"no ZSTD", sys_flag=ZSTD, UNIQ_KEY="damaged")
    put(alone, b"behind", 100)
    seen: Counter[bytes] = Counter()

    async def listener(message: ReceivedMessage) -> None:
        seen[message.body[:6]] += 1

    options: Any = {}
    if broadcasting:
        options = {"message_model": MessageModel.BROADCASTING, "offset_folder": tmp_path}
    async with consumer(listener=listener, orderly=True, **options):
        await after(6)
    assert seen == {b"behind": 1}
    dead = [(c.ext["originMsgId"], c.ext["delayLevel"]) for c in alone.sent_back]
    assert dead == ([] if broadcasting else [("bomb", "-1"), ("damaged", "-1")])


async def test_in_a_loop(alone: GroupBroker, clock: MockClock) -> None:
    """A loop that looks at `body_error` goes on."""
    put(alone, b"bomb", LIMIT + 1)
    put(alone, b"behind", 100)
    seen: Counter[bytes] = Counter()
    async with consumer() as reader:
        async for message in reader:
            if message.body_error is None:
                seen[message.body[:6]] += 1
                break
    assert seen == {b"behind": 1}


@pytest.mark.parametrize("cut", [4, 5, 9, 10])
def test_a_broker_whose_offsets_go_back(cut: int) -> None:
    room = Room(cuts=True)
    assert room.next_offset(5, 9) == 9
    room.cut = cut
    with pytest.raises(ProtocolError, match=f"offset {cut}"):
        room.next_offset(5, 9)


async def test_an_answer_without_cuts(alone: GroupBroker) -> None:
    """What tools ask for: the message is there, and why its body is not."""
    for n in range(3):
        put(alone, b"%02d" % n, 4000)
    answer = b"".join(encode_record(r) for r in alone.queues["T", 0])
    first, second, third = records.decode_records(answer)
    assert (first.body[:2], second.body[:2]) == (b"00", b"01")
    assert "ask for it alone" in str(third.body_error)
