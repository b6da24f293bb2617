"""Messages that no task waits for: batches, results that are read later, failures that are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
    PendingSend,
    Producer,
    RequestTimeoutError,
    SendsFailedError,
)
from tests.client.unit.test_accumulator import BATCH, answered, batches, numbered, one, producer
from tests.support.scripted.cluster import entries
from tests.support.scripted.script import HANG_UP, SILENCE
from tests.support.scripted.streams import HALF_OFFSET, SEND, StreamBroker, StreamCluster

__all__ = ["one"]
QUEUE = MessageQueue("T", "broker-a", 1)


@asynccontextmanager
async def ready(**options: Any) -> AsyncIterator[Producer]:
    """A producer that knows its route."""
    async with producer(**options) as sender:
        await sender.queues("T")
        yield sender


async def give(sender: Producer, count: int, **options: Any) -> list[PendingSend]:
    return [await sender.send_soon(m, **options) for m in numbered(count)]


async def test_results_are_read_when_they_are_wanted(one: StreamBroker, clock: MockClock) -> None:
    async with ready() as sender:
        began = trio.current_time()
        pending = await give(sender, 50)
        assert not any(p.done for p in pending)
        assert not batches(one), "nobody else had a turn"
        results = [await p for p in pending]
        assert trio.current_time() == began
        assert all(p.done for p in pending)
        assert await pending[7].result() == results[7]
        await sender.flush()
    assert batches(one) == [[m.body for m in numbered(50)]]
    assert [r.queue_offset for r in results] == list(range(HALF_OFFSET, HALF_OFFSET + 50))
    assert [r.offset_msg_id for r in results] == [f"{n:032X}" for n in range(50)]
    assert len({r.msg_id for r in results}) == 50
    assert (await pending[7]).msg_id == results[7].msg_id, "also when it was left"


async def test_others_get_turns_and_a_cancellation_is_seen(
    one: StreamBroker, clock: MockClock
) -> None:
    async with ready() as sender:
        taken = 0
        with trio.CancelScope() as scope:
            scope.cancel()
            while True:
                await sender.send_soon(Message("T", b"x"))
                taken += 1
        assert 0 < taken <= 100
    assert sum(len(b) for b in batches(one)) == taken, "one that was not taken was not sent"


async def test_what_is_sent_does_not_change(one: StreamBroker, clock: MockClock) -> None:
    async with ready() as sender:
        for size in (10, 20_000):
            message = Message("T", b"a" * size)
            await sender.send_soon(message)
            message.topic, message.body = "U", b"b"
    for code in (BATCH, SEND):
        (request,) = one.requests(code)
        assert request.ext["b"] == "T"
        assert b"a" in request.body or code == SEND


async def test_full_ones_leave_and_others_wait_for_the_answer_or_their_time(
    one: StreamBroker, clock: MockClock
) -> None:
    one.change[BATCH] = lambda c: SILENCE
    async with ready(batch_bytes=2000, batch_delay=0.5, send_timeout=2, retry_times=0) as sender:
        for _ in range(9):
            await sender.send_soon(Message("T", bytes(400)))
        await trio.testing.wait_all_tasks_blocked()
        assert [len(b) for b in batches(one)] == [4, 4]
        assert all(len(c.body) <= 2000 for c in one.requests(BATCH))
        await trio.sleep(0.49)
        assert len(batches(one)) == 2
        await trio.sleep(0.02)
        assert [len(b) for b in batches(one)] == [4, 4, 1]


async def test_to_one_queue_in_the_order_of_the_calls(one: StreamBroker, clock: MockClock) -> None:
    """Whatever makes another request of it: another size, tags, `wait_store_ok`, a full batch."""
    seen: list[bytes] = []
    under_way = 0

    def slow(c: Any) -> Any:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        seen.extend(entries(c.body) if c.code == BATCH else [c.body])
        under_way -= 1
        return answered(c) if c.code == BATCH else ordinary(c)

    def ordinary(c: Any) -> Any:
        return c.reply(0, {"msgId": "0" * 32, "queueId": "1", "queueOffset": "7"})

    one.change[BATCH] = one.change[SEND] = slow
    expected = []
    async with ready(batch_bytes=1000, compress_over=1 << 20) as sender:
        for n in range(40):
            body = (b"%03d" % n).ljust(600 if n % 7 == 3 else 9, b".")
            expected.append(body)
            message = Message("T", body, tags="ab"[n % 2], wait_store_ok=n % 10 > 4)
            await sender.send_soon(message, queue=QUEUE)
    assert seen == expected
    assert one.requests(SEND)
    assert one.requests(BATCH)


async def test_what_goes_by_itself(one: StreamBroker, clock: MockClock) -> None:
    messages = [
        Message("T", bytes(600)),
        Message("T", b"x", delay_time_level=1),
        Message("%RETRY%g", b"x"),
        Message("T", b"x", properties={"PGROUP": "pg"}),
    ]
    async with ready(batch_bytes=1000) as sender:
        results = [await (await sender.send_soon(m)) for m in messages]
    assert len({r.msg_id for r in results}) == len(one.requests(SEND)) == 4
    assert not batches(one)


async def test_room_is_waited_for(one: StreamBroker, clock: MockClock) -> None:
    """In the order of the calls; a larger message has its turn alone."""
    one.change[BATCH] = lambda c: SILENCE
    most = 2000
    async with ready(batch_bytes=1000, batch_total_bytes=most, retry_times=0) as sender:
        soon = sender._soon
        assert soon is not None
        taken: list[int] = []

        async def fill() -> None:
            for n in range(20):
                await sender.send_soon(Message("T", bytes(4000 if n == 19 else 400)))
                taken.append(n)

        with trio.move_on_after(0.1):
            await fill()
        assert taken == [0, 1, 2, 3]
        assert 0 < soon._held <= most
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fill)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert taken == [0, 1, 2, 3]
        one.change[BATCH] = answered
        await fill()
        assert taken[4:] == list(range(20))
        with pytest.raises(SendsFailedError, match="4 messages of send_soon failed"):
            await sender.flush()
        assert soon._held == 0


async def test_failures_are_told_once_if_nobody_has_asked(
    one: StreamBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    one.change[BATCH] = lambda c: HANG_UP
    async with ready(retry_times=0) as sender:
        pending = await give(sender, 5)
        errors = []
        for p in pending[:2] * 2:
            with pytest.raises(ConnectError) as caught:
                await p
            errors.append(caught.value)
        assert len({id(e) for e in errors}) == 4, "each has its own"
        with pytest.raises(SendsFailedError, match="3 messages of send_soon") as failed:
            await sender.flush()
        assert failed.value.count == 3
        assert isinstance(failed.value.__cause__, ConnectError)
        await sender.flush()
        with pytest.raises(ConnectError):
            await pending[4]
        await give(sender, 4)
        assert not caplog.records
    (record,) = [r for r in caplog.records if r.levelname == "ERROR"]
    assert record.getMessage().startswith("4 messages of send_soon failed")
    assert sender._soon is not None
    assert not sender._soon._lanes


async def test_who_waits_is_told_and_not_flush(one: StreamBroker, clock: MockClock) -> None:
    one.change[BATCH] = lambda c: HANG_UP

    async def wait(p: PendingSend) -> None:
        with pytest.raises(ConnectError):
            await p

    async with ready(retry_times=0) as sender:
        async with trio.open_nursery() as nursery:
            for p in await give(sender, 3):
                nursery.start_soon(wait, p)
            await trio.testing.wait_all_tasks_blocked()
            await sender.flush()
        await sender.flush()
        (p,) = await give(sender, 1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await p
        with pytest.raises(SendsFailedError, match="1 messages"):
            await sender.flush()


async def test_many_failures_keep_few_causes(one: StreamBroker, clock: MockClock) -> None:
    one.change[BATCH] = lambda c: HANG_UP
    async with ready(retry_times=0) as sender:
        assert sender._soon is not None
        for _ in range(30):
            await give(sender, 1)
            await sender._soon._answered()
        assert len(sender._soon._failures._kept) < 30
        with pytest.raises(SendsFailedError, match="30 messages"):
            await sender.flush()


async def test_leaving_sends_what_is_held(one: StreamBroker, clock: MockClock) -> None:
    async with ready() as sender:
        pending = await give(sender, 300)
        pending += await give(sender, 300, queue=QUEUE)
    assert sum(len(b) for b in batches(one)) == 600
    assert len({(await p).msg_id for p in pending}) == 600
    with pytest.raises(ClientError, match="not connected"):
        await sender.send_soon(Message("T", b"x"))


async def test_a_cancelled_body_sends_it_too(one: StreamBroker, clock: MockClock) -> None:
    with trio.CancelScope() as scope:
        async with ready() as sender:
            pending = await give(sender, 10)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert len({(await p).msg_id for p in pending}) == 10


async def test_leaving_ends_with_a_broker_that_is_silent(
    one: StreamBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    one.change[BATCH] = lambda c: SILENCE
    pending = []
    async with ready(batch_bytes=1000, batch_total_bytes=10_000, retry_times=0) as sender:
        for _ in range(20):
            pending.append(await sender.send_soon(Message("T", bytes(400)), queue=QUEUE))
        began = trio.current_time()
    assert trio.current_time() - began < 10
    with pytest.raises(RequestTimeoutError):
        await pending[0]
    with pytest.raises(ClientError, match="it may have the message"):
        await pending[2]
    with pytest.raises(ClientError, match="was left: it was not sent"):
        await pending[-1]
    assert [r.getMessage()[:11] for r in caplog.records if r.levelname == "ERROR"] == [
        "20 messages"
    ]


async def test_leaving_refuses_who_waits_for_room(one: StreamBroker, clock: MockClock) -> None:
    refused = 0

    async def send(sender: Producer) -> None:
        nonlocal refused
        with pytest.raises(ClientError, match="not connected"):
            await sender.send_soon(Message("T", bytes(400)))
        refused += 1

    one.change[BATCH] = lambda c: SILENCE
    async with (
        trio.open_nursery() as nursery,
        ready(batch_bytes=1000, batch_total_bytes=1000) as sender,
    ):
        for _ in range(2):
            await sender.send_soon(Message("T", bytes(400)))
        for _ in range(3):
            nursery.start_soon(send, sender)
        await trio.testing.wait_all_tasks_blocked()
    assert refused == 3
    assert sender._soon is not None
    assert sender._soon._held == 0


async def test_what_cannot_be_sent_is_refused_at_once(one: StreamBroker, clock: MockClock) -> None:
    async with ready() as sender:
        with pytest.raises(MessageIllegalError, match="empty"):
            await sender.send_soon(Message("T", b""))
        with pytest.raises(ClientError, match="a Message is needed"):
            await sender.send_soon(b"x")  # type: ignore[arg-type]
        with pytest.raises(ClientError, match="not a queue of topic U"):
            await sender.send_soon(Message("U", b"x"), queue=QUEUE)
        with pytest.raises(ClientError, match="a MessageQueue"):
            await sender.send_soon(Message("T", b"x"), queue=[])  # type: ignore[arg-type]
        await sender.flush()
    assert not batches(one)
    async with Producer("pg", namesrv=StreamCluster.namesrv) as plain:
        for call in (plain.send_soon(Message("T", b"x")), plain.flush()):
            with pytest.raises(ClientError, match="auto_batch=True"):
                await call


async def test_a_batch_is_no_larger_than_a_message_may_be(
    one: StreamBroker, clock: MockClock
) -> None:
    async with ready(max_message_size=1000) as sender:
        for _ in range(10):
            await sender.send_soon(Message("T", bytes(300)))
        await sender.flush()
    assert sum(len(b) for b in batches(one)) == 10
