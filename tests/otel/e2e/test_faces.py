"""Spans of the clients for asyncio and for plain code, and of OpenMessaging's: the same, and in the
same contexts."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry import trace

import pyrmq
from pyrmq import ConsumeFrom, Message, ReceivedMessage, TransactionState, aio, sync
from pyrmq.oms.sync import MessagingAccessPoint
from pyrmq.otel import processing
from pyrmq.server import Running
from tests.otel.spans import Recorded, linked, said, span_id
from tests.support.waiting import eventually

FIRST = ConsumeFrom.FIRST_OFFSET


@pytest.fixture
def running() -> Any:
    with pyrmq.testing.broker() as server:
        yield server


def now() -> int:
    return trace.get_current_span().get_span_context().span_id


def test_plain_code(running: Running, recorded: Recorded) -> None:
    with sync.Producer("p", namesrv=running.namesrv) as producer:
        with recorded.inside("app") as app:
            producer.send(Message("T", b"1"))
        producer.send(Message("T", b"2"))
    first, second = recorded.all("send")
    assert first.parent is not None
    assert first.parent.span_id == app.get_span_context().span_id
    assert second.parent is None
    inside: list[int] = []
    heard = threading.Event()

    def listener(message: ReceivedMessage) -> None:
        inside.append(now())
        if len(inside) == 2:
            heard.set()

    with sync.PushConsumer(
        "g", {"T": "*"}, namesrv=running.namesrv, consume_from=FIRST, listener=listener
    ):
        assert heard.wait(30)
    assert sorted(inside) == sorted(map(span_id, recorded.all("process")))
    with sync.PushConsumer(
        "loop", {"T": "*"}, namesrv=running.namesrv, consume_from=FIRST
    ) as consumer:
        for message in consumer:
            with processing(message) as span:
                assert now() == span.get_span_context().span_id
            consumer.acknowledge(message)
            break
    assert span.get_span_context().span_id == span_id(recorded.all("process")[-1])
    assert now() == 0


def test_asyncio(running: Running, recorded: Recorded) -> None:
    async def main() -> list[int]:
        inside: list[int] = []
        heard = asyncio.Event()

        async def listener(message: ReceivedMessage) -> None:
            await asyncio.sleep(0)
            inside.append(now())
            heard.set()

        async with aio.Producer("p", namesrv=running.namesrv) as producer:
            with recorded.inside("app") as app:
                await producer.send(Message("T", b"1"))
        sent = recorded.one("send")
        assert sent.parent is not None
        assert sent.parent.span_id == app.get_span_context().span_id
        async with aio.PushConsumer(
            "g", {"T": "*"}, namesrv=running.namesrv, consume_from=FIRST, listener=listener
        ):
            await asyncio.wait_for(heard.wait(), 30)
        async with aio.PushConsumer(
            "loop", {"T": "*"}, namesrv=running.namesrv, consume_from=FIRST
        ) as consumer:
            async for message in consumer:
                with processing(message) as span:
                    inside.append(now())
                    assert inside[-1] == span.get_span_context().span_id
                await consumer.acknowledge(message)
                break
        return inside

    inside = asyncio.run(main())
    assert inside == [span_id(span) for span in recorded.all("process")]


def test_transactions_of_asyncio(running: Running, recorded: Recorded) -> None:
    inside: list[int] = []

    class Local:
        async def execute_local_transaction(self, message: Message, arg: Any) -> Any:
            inside.append(now())
            return TransactionState.COMMIT

        async def check_local_transaction(self, message: ReceivedMessage) -> Any:
            return TransactionState.UNKNOWN

    async def main() -> None:
        async with aio.TransactionalProducer("tx", Local(), namesrv=running.namesrv) as producer:
            await producer.send_in_transaction(Message("T", b"1"))

    asyncio.run(main())
    assert inside == [span_id(recorded.one("execute"))]


def test_openmessaging(running: Running, recorded: Recorded) -> None:
    point = MessagingAccessPoint(f"oms:rocketmq://{running.namesrv}/default:default")
    with point.create_producer() as producer:
        producer.send(producer.create_bytes_message("T", b"1"))
    inside: list[int] = []

    def listener(message: Any, context: Any) -> None:
        inside.append(now())
        context.ack()

    consumer = point.create_push_consumer({"CONSUMER_ID": "g"})
    consumer.attach_queue("T", listener)
    with consumer:
        producing = recorded.one("send")
        eventually(lambda: inside, "the listener had it")
    processed = recorded.one("process")
    assert inside == [span_id(processed)]
    assert linked(processed) == [span_id(producing)]
    assert said(processed)["messaging.consumer.group.name"] == "g"
