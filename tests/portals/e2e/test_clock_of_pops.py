"""The clock of a test broker and POP: what is not acknowledged comes again once it is put forward.
Clients keep the machine's clock, which the broker counts their waiting by."""

from __future__ import annotations

import trio

import pyrmq
import pyrmq.testing
from pyrmq import ConsumeFrom, Message, ReceivedMessage
from tests.support.consumed import take

HOUR = 3600
FROM_FIRST = {"consume_from": ConsumeFrom.FIRST_OFFSET}


async def received(consumer: pyrmq.SimpleConsumer, invisible: float = HOUR) -> ReceivedMessage:
    """The next message, which has to come."""
    with trio.fail_after(30):
        while True:
            for message in await consumer.receive(1, invisible, timeout=5):
                return message


async def test_a_simple_consumer_on_a_broker_that_was_put_forward_before() -> None:
    async with pyrmq.testing.broker() as server:
        server.clock.advance(HOUR)
        async with (
            pyrmq.Producer("pg", namesrv=server.namesrv) as producer,
            pyrmq.SimpleConsumer("g", {"T": "*"}, namesrv=server.namesrv, **FROM_FIRST) as consumer,
        ):
            await producer.send(Message("T", b"x"))
            first = await received(consumer)
            server.clock.advance(HOUR)
            again = await received(consumer)
            assert (first.reconsume_times, again.reconsume_times) == (0, 1)
            assert again.msg_id == first.msg_id
            await consumer.change_invisible(again, 2 * HOUR)
            server.clock.advance(3 * HOUR)
            third = await received(consumer)
            assert (third.msg_id, third.reconsume_times) == (first.msg_id, 2)
            await consumer.ack(third)


async def test_orderly_pops() -> None:
    async with (
        pyrmq.testing.broker() as server,
        pyrmq.Producer("pg", namesrv=server.namesrv) as producer,
        pyrmq.SimpleConsumer(
            "g", {"T": "*"}, namesrv=server.namesrv, fifo=True, **FROM_FIRST
        ) as consumer,
    ):
        for body in (b"first", b"second"):
            await producer.send(Message("T", body), sharding_key="k")
        assert (await received(consumer)).body == b"first"
        server.clock.advance(HOUR)
        again = await received(consumer)
        assert again.body == b"first"
        await consumer.ack(again)
        assert (await received(consumer)).body == b"second"


async def test_a_push_consumer_that_pops() -> None:
    """What a member got that was closed without a word comes to the next one."""
    async with (
        pyrmq.testing.broker() as server,
        pyrmq.Producer("pg", namesrv=server.namesrv) as producer,
    ):
        server.clock.advance(HOUR)
        options = {"pop": True, "invisible_time": 300, **FROM_FIRST}
        async with pyrmq.PushConsumer(
            "g", {"T": "*"}, namesrv=server.namesrv, **options
        ) as consumer:
            await producer.send(Message("T", b"x"))
            with trio.fail_after(30):
                async for message in consumer:
                    assert message.body == b"x"
                    break  # not acknowledged
        server.clock.advance(HOUR)
        async with pyrmq.PushConsumer(
            "g", {"T": "*"}, namesrv=server.namesrv, **options
        ) as consumer:
            with trio.fail_after(30):
                (again,) = await take(consumer, 1)
        assert (again.body, again.reconsume_times) == (b"x", 1)
