"""Requests of brokers that consumers of scripted brokers answer, and invalid ones."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import PushConsumer
from pyrmq.model.message import MessageQueue, ReceivedMessage
from pyrmq.net import fastjson
from tests.client.members import after, client_id, collect, consumer
from tests.support.scripted.groups import UPDATE_OFFSET, GroupBroker
from tests.support.wire import FLAG_ONEWAY, Command

RESET, STATUS, RUNNING_INFO, DIRECTLY = 220, 221, 307, 309
Q0 = MessageQueue("T", "broker-a", 0)


async def tell(broker: GroupBroker, code: int, body: bytes = b"", **ext: str) -> None:
    """Each member, one-way."""
    for connection, _ in list(broker.members["g"].values()):
        await connection.send(Command(code, ext, body, opaque=9, flag=FLAG_ONEWAY))


async def ask(reader: PushConsumer, code: int, body: bytes = b"", **ext: str) -> tuple[int, str]:
    """Code and remark of the answer."""
    command = _Command(code, ext, body)
    answer = await reader._client.incoming.on_request[code](command)  # type: ignore[arg-type]
    assert answer is not None
    return answer.code, answer.remark or ""


class _Command:
    def __init__(self, code: int, ext: dict[str, str], body: bytes) -> None:
        self.code, self.ext, self.body = code, ext, body


def table(offset: int, queue: MessageQueue = Q0) -> bytes:
    return fastjson.dumps({"offsetTable": {queue.as_key(): offset}})


async def test_offsets_go_back_and_forth(alone: GroupBroker, clock: MockClock) -> None:
    seen: Counter[bytes] = Counter()
    for n in range(5):
        alone.put(b"%d" % n)
    async with consumer() as reader, trio.open_nursery() as nursery:
        nursery.start_soon(collect, reader, seen)
        await after(6)
        assert alone.offsets["g", "T", 0] == 5
        await tell(alone, RESET, table(2), group="g", topic="T")
        await after(1)
        assert seen == {b"%d" % n: 1 + (n >= 2) for n in range(5)}
        assert [
            c.ext["commitOffset"]
            for c in alone.by(client_id(reader), UPDATE_OFFSET)
            if c.ext["queueId"] == "0" and c.ext["topic"] == "T"
        ] == ["0", "5", "2"]
        await tell(alone, RESET, table(0), group="other", topic="T")
        await tell(alone, RESET, table(0, MessageQueue("X", "broker-a", 0)), group="g")
        await after(1)
        assert sum(seen.values()) == 8
        nursery.cancel_scope.cancel()


async def test_a_listener_under_way_moves_no_offset_that_was_reset(
    alone: GroupBroker, clock: MockClock
) -> None:
    release = trio.Event()

    async def listener(message: ReceivedMessage) -> None:
        await release.wait()

    alone.put(b"x")
    async with consumer(listener=listener):
        await after(1)
        await tell(alone, RESET, table(0), group="g", topic="T")
        await after(1)
        alone.put(b"y")
        await after(10)
        assert alone.offsets["g", "T", 0] == 0
        release.set()
        await after(10)
        assert alone.offsets["g", "T", 0] == 2


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"offsetTable":5}', table(-1)])
async def test_what_is_no_reset_changes_nothing(
    alone: GroupBroker, body: bytes, clock: MockClock
) -> None:
    async with consumer() as reader:
        await after(1)
        before = dict(reader._held.table)
        await tell(alone, RESET, body, group="g", topic="T")
        await after(1)
        assert reader._held.table == before
        assert len(alone.members["g"]) == 1


async def test_other_groups_are_not_answered_for(alone: GroupBroker, clock: MockClock) -> None:
    async with consumer(listener=print) as reader:
        await after(1)
        for code in (RUNNING_INFO, DIRECTLY):
            answer, remark = await ask(reader, code, consumerGroup="other")
            assert (answer, "<other> not exist" in remark) == (1, True)
        assert await ask(reader, STATUS, group="other") == (0, "")
        answer, remark = await ask(reader, DIRECTLY, b"nonsense", consumerGroup="g")
        assert (answer, "cannot be read" in remark) == (1, True)
