"""Tests of code that sends and consumes, on a real broker in the test's own process.

    pytest examples/test_shop.py

`pyrmq_broker` is a fixture that comes with the package: one broker for all tests of a session, on
free ports and a temporary store. `pyrmq.testing.broker()` is one of its own, with settings.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest

import pyrmq.aio
import pyrmq.testing
from pyrmq import ConsumeFrom, MessageIllegalError
from pyrmq.server import Running
from pyrmq.sync import Message, Producer, PushConsumer

# The code under test.


def place_orders(namesrv: str, *items: bytes) -> None:
    with Producer("shop", namesrv=namesrv) as producer:
        for item in items:
            producer.send(Message("TestedOrders", item))


def next_orders(namesrv: str, count: int) -> list[bytes]:
    with PushConsumer(
        "warehouse",
        {"TestedOrders": "*"},
        namesrv=namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as consumer:
        orders = []
        for message in itertools.islice(consumer, count):
            orders.append(message.body)
            consumer.acknowledge(message)
        return orders


# The tests.


def test_orders_reach_the_warehouse(pyrmq_broker: Running) -> None:
    place_orders(pyrmq_broker.namesrv, b"book", b"pen")
    assert sorted(next_orders(pyrmq_broker.namesrv, 2)) == [b"book", b"pen"]


def test_what_the_broker_refuses() -> None:
    with (
        pyrmq.testing.broker(max_message_size=1000) as server,
        Producer("shop", namesrv=server.namesrv, compress_over=1 << 20) as producer,
        pytest.raises(MessageIllegalError) as caught,
    ):
        producer.send(Message("TestedOrders", b"x" * 5000))
    assert not caught.value.retriable


def test_an_order_for_tomorrow() -> None:
    """The broker's clock is put forward: nobody waits."""
    with pyrmq.testing.broker() as server:
        with Producer("shop", namesrv=server.namesrv) as producer:
            producer.send(Message("TestedOrders", b"bread", delay=86_400))
        server.clock.advance(86_400)
        assert next_orders(server.namesrv, 1) == [b"bread"]


def test_asyncio_code() -> None:
    async def test() -> None:
        async with (
            pyrmq.testing.broker() as server,
            pyrmq.aio.Producer("shop", namesrv=server.namesrv) as producer,
        ):
            result = await producer.send(Message("TestedOrders", b"book"))
            assert result.queue_offset == 0

    asyncio.run(test())
