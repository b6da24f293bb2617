"""Spans of loops, polls, simple consumers and popping; settlements; `processing`."""

from __future__ import annotations

import pytest
import trio
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode

from pyrmq import (
    ClientError,
    ConsumeFrom,
    InvalidHandleError,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from pyrmq.otel import processing
from pyrmq.otel.instrumentor import spans_now
from pyrmq.server import Running
from tests.otel.spans import Recorded, linked, recording, said, span_id
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")
FIRST = ConsumeFrom.FIRST_OFFSET


async def send(server: Running, *bodies: bytes) -> None:
    async with Producer("p", namesrv=server.namesrv) as producer:
        for body in bodies:
            await producer.send(Message("T", body))


def now() -> int:
    return trace.get_current_span().get_span_context().span_id


@pytest.mark.parametrize("pop", [False, True])
async def test_a_loop(embedded: Running, recorded: Recorded, pop: bool) -> None:
    await send(embedded, b"1", b"2")
    inside = []
    async with PushConsumer(
        "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST, pop=pop
    ) as consumer:
        async for message in consumer:
            assert now() == 0
            with processing(message) as span:
                inside.append(span.get_span_context().span_id)
                assert now() == inside[-1]
            assert now() == 0
            if len(inside) == 2:
                consumer.acknowledge(message)
                break
    found = recorded.all("process")
    assert [span_id(span) for span in found] == inside
    assert sorted(linked(span)[0] for span in found) == sorted(map(span_id, recorded.all("send")))
    assert {span.parent.span_id for span in found if span.parent} == {
        span_id(span) for span in recorded.all("send")
    }


async def test_a_message_that_a_loop_sends_back(embedded: Running, recorded: Recorded) -> None:
    await send(embedded, b"1")
    async with PushConsumer(
        "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST
    ) as consumer:
        async for message in consumer:
            with pytest.raises(LookupError), processing(message):
                raise LookupError("no such order")
            await consumer.send_back(message)
            break
    back, processed = recorded.one("send_back"), recorded.one("process")
    assert (back.name, back.kind) == ("send_back T", SpanKind.CLIENT)
    assert said(back)["messaging.operation.type"] == "settle"
    assert linked(back) == [span_id(recorded.one("send"))]
    assert processed.status.status_code is StatusCode.ERROR
    assert processed.status.description == "LookupError: no such order"


async def test_a_loop_that_is_left(embedded: Running, recorded: Recorded) -> None:
    """What it did not acknowledge has no span; another loop gets the message, with one."""
    await send(embedded, b"1")
    for leaves in (True, False):
        async with PushConsumer(
            "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST
        ) as consumer:
            async for message in consumer:
                if not leaves:
                    consumer.acknowledge(message)
                break
        assert len(recorded.all("process")) == (not leaves)


async def test_a_message_that_nobody_saw(embedded: Running, recorded: Recorded) -> None:
    """As where a task of asyncio is cancelled while a message is on its way to it."""
    await send(embedded, b"1")
    async with PushConsumer(
        "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST
    ) as consumer:
        first, call = aiter(consumer), object()
        message = await first.next_unseen(call)
        spans = spans_now()
        assert spans is not None
        assert spans.in_loop(message) is not None
        await first.give_back(call)
        assert spans.in_loop(message) is None
        async for message in consumer:
            consumer.acknowledge(message)
            break
    assert len(recorded.all("process")) == 1


async def test_lite_pull(embedded: Running, recorded: Recorded) -> None:
    await send(embedded, b"1", b"2", b"3")
    async with LitePullConsumer(
        "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST
    ) as consumer:
        messages = []
        while len(messages) < 2:
            messages += await consumer.poll(30)
        with recorded.inside("app") as app:
            with processing(messages[0], group="g") as span:
                assert now() == span.get_span_context().span_id
            async for _ in consumer:
                break
        await consumer.poll(0)
        await consumer.commit()
    received = recorded.all("receive")
    assert {(span.name, span.kind) for span in received} == {("receive T", SpanKind.CLIENT)}
    assert sum(said(span)["messaging.batch.message_count"] for span in received) == 3
    links = [one for span in received for one in linked(span)]
    assert sorted(links) == sorted(span_id(span) for span in recorded.all("send"))
    processed = recorded.one("process")
    assert processed.parent is not None
    assert processed.parent.span_id == app.get_span_context().span_id
    assert linked(processed) == [links[0]]
    assert said(processed)["messaging.consumer.group.name"] == "g"
    committed = recorded.one("commit_offsets")
    assert (committed.name, committed.kind) == ("commit_offsets", SpanKind.CLIENT)


async def test_simple_consumer(embedded: Running, recorded: Recorded) -> None:
    await send(embedded, b"1", b"2", b"3")
    async with SimpleConsumer(
        "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST
    ) as consumer:
        messages = []
        while len(messages) < 3:
            with recorded.inside("app") as app:
                messages += await consumer.receive(1, timeout=30)
        assert await consumer.receive(1, timeout=0) == []
        await consumer.change_invisible(messages[0], 30)
        await consumer.ack(messages[0])
        await consumer.ack_all(messages[1:])
        with pytest.raises(ClientError):
            await consumer.ack("no message")  # type: ignore[arg-type]
        messages[0].properties["POP_CK"] = "nonsense"
        with pytest.raises(InvalidHandleError):
            await consumer.ack(messages[0])
    received = recorded.all("receive")
    assert [len(linked(span)) for span in received] == [1, 1, 1]
    assert received[-1].parent is not None
    assert received[-1].parent.span_id == app.get_span_context().span_id
    assert all(span.start_time <= span.end_time for span in received)  # type: ignore[operator]
    changed, (one, both) = recorded.one("change_invisible"), recorded.all("ack")
    assert [span.kind for span in (changed, one, both)] == [SpanKind.CLIENT] * 3
    assert linked(one) == linked(changed) == linked(received[0])
    assert said(one)["messaging.message.id"] == messages[0].msg_id
    assert said(both)["messaging.batch.message_count"] == 2
    assert {said(span)["messaging.operation.type"] for span in (changed, one, both)} == {"settle"}


async def test_popping_with_a_listener(embedded: Running, recorded: Recorded) -> None:
    await send(embedded, b"1")
    inside: list[int] = []

    async def listener(message: object) -> None:
        inside.append(now())

    async with PushConsumer(
        "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST, pop=True, listener=listener
    ):
        await eventually_trio(lambda: inside, "the listener had it")
    processed = recorded.one("process")
    assert inside == [span_id(processed)]
    assert linked(processed) == [span_id(recorded.one("send"))]


async def test_orderly(embedded: Running, recorded: Recorded) -> None:
    await send(embedded, b"1")
    inside: list[int] = []

    async def listener(message: object) -> None:
        inside.append(now())
        if len(inside) == 1:
            raise LookupError("once")

    async with PushConsumer(
        "g",
        {"T": "*"},
        namesrv=embedded.namesrv,
        consume_from=FIRST,
        orderly=True,
        suspend_time=0.05,
        listener=listener,
    ):
        await eventually_trio(lambda: len(inside) == 2, "it came twice")
    first, second = recorded.all("process")
    assert inside == [span_id(first), span_id(second)]
    assert linked(first) == linked(second) == [span_id(recorded.one("send"))]
    assert said(first)["error.type"] == "LookupError"
    assert "error.type" not in said(second)


async def test_processing_without_instrumentation(embedded: Running) -> None:
    await send(embedded, b"1")
    async with LitePullConsumer(
        "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST
    ) as consumer:
        with trio.fail_after(30):
            messages = await consumer.poll(30)
    with processing(messages[0]) as span:
        assert span is INVALID_SPAN
    with pytest.raises(ClientError, match="ReceivedMessage"), processing("text"):  # type: ignore[arg-type]
        pass


async def test_trace_producers_have_no_spans(embedded: Running) -> None:
    with recording() as recorded:
        async with Producer("p", namesrv=embedded.namesrv, trace=True) as producer:
            await producer.send(Message("T", b"1"))
        assert [span.name for span in recorded.spans] == ["send T"]
