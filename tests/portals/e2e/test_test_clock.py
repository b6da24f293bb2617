"""The clock of a test broker: what waits for it is due at once, in each kind of program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import trio

import pyrmq
import pyrmq.testing
from pyrmq import (
    ClientError,
    ConsumeFrom,
    IllegalOperationError,
    InvalidHandleError,
    Message,
    ReceivedMessage,
    TransactionState,
    aio,
    sync,
)
from pyrmq.net.clock import machine_ms, now_ms
from tests.support.consumed import bodies, take

HOURS = 7200
"""Delay level 18."""
LATER = Message("Later", b"x", delay_time_level=18)
FROM_FIRST = {"consume_from": ConsumeFrom.FIRST_OFFSET}


async def first_of(messages: AsyncIterator[Any]) -> Any:
    async for message in messages:
        return message
    raise AssertionError


def far_from_machine(server: pyrmq.testing.TestServer) -> float:
    return server.clock.now().timestamp() - machine_ms() / 1000


async def test_on_trio() -> None:
    async with pyrmq.testing.broker() as server:
        async with pyrmq.Producer("pg", namesrv=server.namesrv) as producer:
            await producer.send(LATER)
        server.clock.advance(HOURS)
        async with pyrmq.PushConsumer(
            "g", {"Later": "*"}, namesrv=server.namesrv, **FROM_FIRST
        ) as consumer:
            with trio.fail_after(30):
                got = await first_of(consumer)
    assert got.body == b"x"
    assert got.store_timestamp - got.born_timestamp > (HOURS - 60) * 1000, "the broker's time"


def test_in_plain_code() -> None:
    with pyrmq.testing.broker() as server:
        with sync.Producer("pg", namesrv=server.namesrv) as producer:
            producer.send(LATER)
            server.clock.advance(timedelta(seconds=HOURS))
        with sync.PushConsumer(
            "g", {"Later": "*"}, namesrv=server.namesrv, **FROM_FIRST
        ) as consumer:
            assert next(iter(consumer)).body == b"x"


def test_on_asyncio() -> None:
    async def run() -> Any:
        async with pyrmq.testing.broker() as server:
            async with aio.Producer("pg", namesrv=server.namesrv) as producer:
                await producer.send(LATER)
            server.clock.advance(HOURS)
            async with aio.PushConsumer(
                "g", {"Later": "*"}, namesrv=server.namesrv, **FROM_FIRST
            ) as consumer:
                return await asyncio.wait_for(first_of(consumer), 30)

    assert asyncio.run(run()).body == b"x"


async def test_timers_and_their_recall() -> None:
    """Days ahead, with one in two steps; `deliver_at` counts by the broker's clock."""
    async with (
        pyrmq.testing.broker(recall_message_enable=True) as server,
        pyrmq.Producer("pg", namesrv=server.namesrv) as producer,
    ):
        gone = await producer.send(Message("Timers", b"gone", delay=2 * 86_400))
        assert gone.recall_handle is not None
        await producer.send(Message("Timers", b"stays", delay=timedelta(days=2)))
        await producer.recall("Timers", gone.recall_handle)
        server.clock.advance(timedelta(days=1))
        at = server.clock.now() + timedelta(days=2)
        await producer.send(Message("Timers", b"at", deliver_at=at))
        await producer.send(Message("Timers", b"now", deliver_at=at - timedelta(days=3)))
        server.clock.advance(timedelta(days=2))
        async with pyrmq.PushConsumer(
            "g", {"Timers": "*"}, namesrv=server.namesrv, **FROM_FIRST
        ) as consumer:
            assert bodies(await take(consumer, 3)) == [b"at", b"now", b"stays"]
        later = await producer.send(Message("Timers", b"later", delay=86_400))
        assert later.recall_handle is not None
        server.clock.advance(2 * 86_400)
        with pytest.raises(IllegalOperationError):
            await producer.recall("Timers", later.recall_handle)


async def test_popped_messages_follow_it_too() -> None:
    """Received, acknowledged and visible again, on a clock that has moved before and meanwhile."""
    async with (
        pyrmq.testing.broker() as server,
        pyrmq.Producer("pg", namesrv=server.namesrv) as producer,
    ):
        server.clock.advance(timedelta(days=1))
        for body in (b"a", b"b"):
            await producer.send(Message("Popped", body))
        async with pyrmq.SimpleConsumer(
            "g", {"Popped": "*"}, namesrv=server.namesrv, **FROM_FIRST
        ) as consumer:

            async def receive() -> ReceivedMessage:
                [message] = await consumer.receive(1, 600, timeout=30)
                return message

            with trio.fail_after(60):
                late, first = await receive(), await receive()
                await consumer.ack(first)
                server.clock.advance(300)
                await consumer.change_invisible(late, 600)
                server.clock.advance(599)
                assert await consumer.receive(timeout=0) == []
                server.clock.advance(2)
                again = await receive()
                assert (again.body, again.reconsume_times) == (late.body, 1)
                with pytest.raises(InvalidHandleError):
                    await consumer.ack(late)
                await consumer.ack(again)
                server.clock.advance(timedelta(days=1))
                assert await consumer.receive(timeout=0) == []


def test_popped_messages_in_plain_code() -> None:
    with pyrmq.testing.broker() as server, sync.Producer("pg", namesrv=server.namesrv) as producer:
        producer.send(Message("Popped", b"x", delay=HOURS))
        server.clock.advance(HOURS)
        with sync.SimpleConsumer(
            "g", {"Popped": "*"}, namesrv=server.namesrv, **FROM_FIRST
        ) as consumer:
            [message] = consumer.receive(timeout=30)
            consumer.ack_all([message])
            assert message.body == b"x"


async def test_a_transaction_is_checked_at_once() -> None:
    """The broker asks after half an hour, and looks for what it may ask about every minute."""

    class Undecided:
        def execute_local_transaction(self, message: object, arg: object) -> TransactionState:
            return TransactionState.UNKNOWN

        def check_local_transaction(self, message: object) -> TransactionState:
            checked.set()
            return TransactionState.COMMIT

    checked = threading.Event()
    async with (
        pyrmq.testing.broker(
            transaction_time_out=1_800_000, transaction_check_interval=60_000
        ) as server,
        pyrmq.TransactionalProducer("pg", Undecided(), namesrv=server.namesrv) as producer,
    ):
        await producer.send_in_transaction(Message("Undecided", b"x"))
        server.clock.advance(timedelta(minutes=31))
        with trio.fail_after(30):
            await trio.to_thread.run_sync(checked.wait, 30)
    assert checked.is_set()


async def test_each_broker_has_its_own() -> None:
    async with pyrmq.testing.broker() as moved, pyrmq.testing.broker() as other:
        moved.clock.advance(HOURS)
        moved.clock.advance(0.5)
        assert HOURS < far_from_machine(moved) < HOURS + 60
        assert abs(far_from_machine(other)) < 60
        assert abs(now_ms() - machine_ms()) < 60_000, "the test's own tasks have the machine's"
        async with pyrmq.Producer("pg", namesrv=other.namesrv) as producer:
            await producer.send(Message("T", b"x"))
        assert other.broker.store.get("T", 0, 0) is not None


async def test_it_does_not_go_back() -> None:
    async with pyrmq.testing.broker() as server:
        wrong: Any
        for wrong in (-1, timedelta(-1), float("nan"), float("inf"), "1", True, None):
            with pytest.raises(ClientError, match="by is"):
                server.clock.advance(wrong)
        assert abs(far_from_machine(server)) < 60


def test_of_a_broker_that_has_stopped() -> None:
    with pyrmq.testing.broker() as server:
        pass
    with pytest.raises(ClientError, match="the broker has stopped"):
        server.clock.advance(1)
