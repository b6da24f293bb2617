"""Consuming in order, in broadcasting and by polls, on a real broker."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import trio

from pyrmq.client import ConsumeFrom, LitePullConsumer, MessageModel, Producer, PushConsumer
from pyrmq.model.message import Message, MessageQueue, ReceivedMessage
from pyrmq.server import Running
from tests.support.consumed import bodies, queues_assigned, take, take_none
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")


async def send(server: Running, first: int, count: int) -> None:
    """Numbered messages to each of four queues."""
    async with Producer("pg", namesrv=server.namesrv) as producer:
        for queue in range(4):
            batch = [Message("Topic", b"%03d" % n) for n in range(first, first + count)]
            await producer.send_batch(batch, queue=MessageQueue("Topic", "broker-a", queue))


async def test_order_across_hand_overs(embedded: Running) -> None:
    """Members come and go; a message may come twice, but never before an earlier one has come."""
    seen: dict[int, list[int]] = defaultdict(list)
    running: set[int] = set()
    twice: list[int] = []

    async def listener(message: ReceivedMessage) -> None:
        if message.queue_id in running:
            twice.append(message.queue_id)
        running.add(message.queue_id)
        await trio.sleep(0.002)
        running.discard(message.queue_id)
        seen[message.queue_id].append(int(message.body))

    def member() -> PushConsumer:
        return PushConsumer(
            "ordered",
            {"Topic": "*"},
            namesrv=embedded.namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            listener=listener,
            orderly=True,
            pull_batch_size=8,
        )

    await send(embedded, 0, 60)
    async with member() as first:
        await queues_assigned(first, 4)
        async with member() as second:
            await queues_assigned(second, 2)
            await send(embedded, 60, 60)
        await eventually_trio(
            lambda: {q: set(s) for q, s in seen.items()},
            "all messages of all queues",
            until=lambda found: found == {q: set(range(120)) for q in range(4)},
        )
    assert not twice
    for numbers in seen.values():
        highest = -1
        for n in numbers:
            assert n <= highest + 1, "nothing is left out"
            highest = max(highest, n)
        assert len(numbers) == 120, "nothing comes twice while nobody fails"


async def test_broadcasting(embedded: Running, tmp_path: Path) -> None:
    def member(name: str) -> PushConsumer:
        return PushConsumer(
            "everybody",
            {"Topic": "*"},
            namesrv=embedded.namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            message_model=MessageModel.BROADCASTING,
            instance_name=name,
            offset_folder=tmp_path,
        )

    await send(embedded, 0, 3)
    async with member("a") as a, member("b") as b:
        assert bodies(await take(a, 12)) == bodies(await take(b, 12))
    await send(embedded, 3, 1)
    async with member("a") as a:
        assert bodies(await take(a, 4)) == [b"003"] * 4
        await take_none(a, 0.1)


async def test_lite_pull(embedded: Running) -> None:
    def lite(topics: dict[str, str] | None) -> LitePullConsumer:
        return LitePullConsumer(
            "lite", topics, namesrv=embedded.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
        )

    await send(embedded, 0, 5)
    queue = MessageQueue("Topic", "broker-a", 1)
    async with lite({"Topic": "*"}) as consumer:
        got: list[ReceivedMessage] = []
        while len(got) < 20:
            got += await consumer.poll()
        assert len({(m.queue_id, m.queue_offset) for m in got}) == 20
        await consumer.commit()
        assert await consumer.committed(queue) == 5
        await consumer.seek(queue, 3)
        assert [m.body for m in await consumer.poll()] == [b"003", b"004"]
        await consumer.commit()
    async with lite(None) as consumer:
        assert len(await consumer.queues("Topic")) == 4
        consumer.assign([queue])
        assert await consumer.poll(0.2) == [], "all is committed"
        stored = next(m.store_timestamp for m in got if m.queue_id == 1 and m.body == b"000")
        await consumer.seek(queue, await consumer.offset_for_timestamp(queue, stored))
        assert [m.body for m in await consumer.poll()] == [b"%03d" % n for n in range(5)]
