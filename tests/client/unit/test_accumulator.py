"""Small messages of many sends in one request; each send has its own result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq import (
    ClientError,
    ConnectError,
    Message,
    MessageIllegalError,
    MessageQueue,
    Producer,
    SendResult,
)
from tests.support.scripted.cluster import entries
from tests.support.scripted.script import HANG_UP, SILENCE
from tests.support.scripted.streams import HALF_OFFSET, SEND, StreamBroker, StreamCluster
from tests.support.wire import Command

BATCH = 320


@pytest.fixture
def one(cluster: StreamCluster) -> StreamBroker:
    """The one broker."""
    del cluster.brokers["broker-b"]
    found = cluster["broker-a"]
    found.change[BATCH] = answered
    return found


def answered(c: Command) -> Command:
    ids = ",".join(f"{n:032X}" for n in range(len(entries(c.body))))
    return c.reply(0, {"msgId": ids, "queueId": c.ext["e"], "queueOffset": str(HALF_OFFSET)})


def producer(**options: Any) -> Producer:
    return Producer("pg", namesrv=StreamCluster.namesrv, auto_batch=True, **options)


def batches(broker: StreamBroker) -> list[list[bytes]]:
    return [entries(c.body) for c in broker.requests(BATCH)]


async def send_all(sender: Producer, messages: Iterable[Message], **o: Any) -> list[SendResult]:
    """All at once."""
    results: dict[int, SendResult] = {}

    async def send(n: int, message: Message) -> None:
        results[n] = await sender.send(message, **o)

    async with trio.open_nursery() as nursery:
        for n, message in enumerate(messages):
            nursery.start_soon(send, n, message)
    return [results[n] for n in sorted(results)]


def numbered(count: int, **fields: Any) -> list[Message]:
    return [Message("T", b"%d" % n, **fields) for n in range(count)]


async def test_each_has_its_own_result(one: StreamBroker, clock: MockClock) -> None:
    async with producer() as sender:
        await sender.queues("T")
        began = trio.current_time()
        results = await send_all(sender, numbered(50))
        assert trio.current_time() == began, "nobody waited for the clock"
    (batch,) = batches(one)
    assert sorted(batch) == sorted(m.body for m in numbered(50))
    assert {r.queue_offset for r in results} == set(range(HALF_OFFSET, HALF_OFFSET + 50))
    assert len({r.msg_id for r in results}) == 50
    for n, result in enumerate(results):
        place = batch.index(b"%d" % n)
        assert result.queue_offset == HALF_OFFSET + place
        assert result.offset_msg_id == f"{place:032X}"


async def test_one_at_a_time_waits_for_nothing(one: StreamBroker, clock: MockClock) -> None:
    async with producer() as sender:
        began = trio.current_time()
        for message in numbered(3):
            await sender.send(message)
        assert trio.current_time() == began
    assert batches(one) == [[b"0"], [b"1"], [b"2"]]


async def test_what_comes_meanwhile_waits_for_the_answer_or_for_its_time(
    one: StreamBroker, clock: MockClock
) -> None:
    one.change[BATCH] = lambda c: SILENCE
    async with producer(batch_delay=0.5) as sender, trio.open_nursery() as nursery:
        await sender.queues("T")
        nursery.start_soon(send_all, sender, numbered(2))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(send_all, sender, numbered(3))
        await trio.testing.wait_all_tasks_blocked()
        assert len(batches(one)) == 1
        await one.connections[-1].send(answered(one.requests(BATCH)[0]))
        await trio.testing.wait_all_tasks_blocked()
        assert [len(b) for b in batches(one)] == [2, 3]
        nursery.start_soon(send_all, sender, numbered(4))
        await trio.sleep(0.49)
        assert len(batches(one)) == 2
        await trio.sleep(0.02)
        assert [len(b) for b in batches(one)] == [2, 3, 4]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("limit", ["batch_bytes", "max_message_size"])
async def test_full_ones_do_not_wait(limit: str, one: StreamBroker, clock: MockClock) -> None:
    one.change[BATCH] = lambda c: SILENCE
    async with producer(**{limit: 2000}) as sender, trio.open_nursery() as nursery:
        await sender.queues("T")
        nursery.start_soon(send_all, sender, [Message("T", bytes(400)) for _ in range(9)])
        await trio.testing.wait_all_tasks_blocked()
        assert [len(b) for b in batches(one)] == [4, 4]
        assert all(len(c.body) <= 2000 for c in one.requests(BATCH))
        nursery.cancel_scope.cancel()


async def test_what_does_not_go_together(one: StreamBroker, clock: MockClock) -> None:
    queue = MessageQueue("T", "broker-a", 1)
    async with producer() as sender, trio.open_nursery() as nursery:
        for fields in ({}, {"tags": "a"}, {"tags": "b"}, {"wait_store_ok": False}):
            nursery.start_soon(send_all, sender, numbered(2, **fields))
        nursery.start_soon(send_all, sender, [Message("U", b"x")])
        nursery.start_soon(lambda: send_all(sender, numbered(2), queue=queue))
    assert sorted(len(b) for b in batches(one)) == [1, 2, 2, 2, 2, 2]
    assert not one.requests(SEND)


async def test_what_goes_by_itself(one: StreamBroker, clock: MockClock) -> None:
    async with producer(batch_bytes=1000) as sender:
        for message in (
            Message("T", bytes(600)),
            Message("T", b"x", delay_time_level=1),
            Message("%RETRY%g", b"x"),
            Message("T", b"x", properties={"PGROUP": "pg"}),
        ):
            await sender.send(message)
        await sender.send(Message("T", b"x"), timeout=1)
        await sender.send(Message("T", b"x"), sharding_key="k")
        await sender.send(Message("T", b"x"), select=lambda queues: queues[0])
    assert len(one.requests(SEND)) == 7
    assert not batches(one)


async def test_too_many_bytes_that_wait(one: StreamBroker, clock: MockClock) -> None:
    one.change[BATCH] = one.change[SEND] = lambda c: SILENCE
    async with (
        producer(batch_bytes=1000, batch_total_bytes=1000) as sender,
        trio.open_nursery() as nursery,
    ):
        await sender.queues("T")
        nursery.start_soon(send_all, sender, [Message("T", bytes(400)) for _ in range(5)])
        await trio.testing.wait_all_tasks_blocked()
        assert one.requests(SEND), "those go alone"
        nursery.cancel_scope.cancel()
    assert sender._accumulator is not None
    assert sender._accumulator._held == 0


async def test_a_failure_is_everybodys(one: StreamBroker, clock: MockClock) -> None:
    one.change[BATCH] = lambda c: HANG_UP
    errors: list[Exception] = []

    async def send() -> None:
        try:
            await sender.send(Message("T", b"x"))
        except ConnectError as e:
            errors.append(e)

    async with producer() as sender:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send)
        assert len({id(e) for e in errors}) == 3, "each has its own"
        one.change[BATCH] = lambda c: replace(c.reply(13), remark="no")
        with pytest.raises(MessageIllegalError, match="CODE 13: no") as caught:
            await sender.send(Message("T", b"x"))
        assert (caught.value.code, caught.value.answered) == (13, True)
        with pytest.raises(MessageIllegalError, match="empty"):
            await sender.send(Message("T", b""))
        assert not sender._accumulator._groups  # type: ignore[union-attr]


async def test_who_leaves_takes_his_message_along(one: StreamBroker, clock: MockClock) -> None:
    """Unless it is on its way."""
    one.change[BATCH] = lambda c: SILENCE
    async with producer(batch_delay=1, retry_times=0, send_timeout=30) as sender:
        await sender.queues("T")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sender.send, Message("T", b"on its way"))
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(0.5):
                await send_all(sender, [Message("T", b"leaves")])
            nursery.start_soon(sender.send, Message("T", b"stays"))
            await trio.sleep(0.9)
            nursery.cancel_scope.cancel()
        assert batches(one) == [[b"on its way"], [b"stays"]]


@pytest.mark.parametrize(
    "options", [{"batch_delay": 31}, {"batch_bytes": 0}, {"batch_bytes": 9, "batch_total_bytes": 8}]
)
def test_limits(options: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match="batch_"):
        producer(**options)
    with pytest.raises(ClientError, match="need auto_batch=True"):
        Producer("pg", namesrv=StreamCluster.namesrv, **options)


async def test_a_producer_that_is_left_keeps_nobody_waiting(
    one: StreamBroker, clock: MockClock
) -> None:
    """Neither who has sent, nor who has not sent yet."""
    one.change[BATCH] = lambda c: SILENCE
    errors: list[str] = []

    async def send(sender: Producer, message: Message) -> None:
        try:
            await sender.send(message)
        except ClientError as e:
            errors.append(str(e))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery, producer(batch_delay=0.5) as sender:
            await sender.queues("T")
            for message in numbered(2):
                nursery.start_soon(send, sender, message)
                await trio.testing.wait_all_tasks_blocked()
    assert len(batches(one)) == 1
    assert sorted(errors) == [
        "the producer was left before the broker answered: it may have the message",
        "the producer was left: it was not sent",
    ]
