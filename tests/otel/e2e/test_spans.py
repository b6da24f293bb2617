"""Spans of producers and listeners, through an embedded broker."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from pyrmq import (
    ConsumeResult,
    Message,
    MessageModel,
    NotSentError,
    ReceivedMessage,
    RequestTimeoutError,
    TopicNotExistError,
    reply_to,
)
from pyrmq.server import Running
from tests.otel.listening import Heard, heard, producer
from tests.otel.spans import Recorded, linked, said, span_id
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")


async def test_a_message_makes_one_trace(embedded: Running, recorded: Recorded) -> None:
    with recorded.inside("app") as app:
        async with producer(embedded) as sender:
            message = Message("T", b"body", tags="TagA", keys=["k1", "k2"])
            result = await sender.send(message)
    assert message.properties == {}
    async with heard(embedded, 1) as found:
        pass
    sent, processed = recorded.one("send"), recorded.one("process")
    assert (sent.name, sent.kind) == ("send T", SpanKind.PRODUCER)
    assert sent.parent is not None
    assert sent.parent.span_id == app.get_span_context().span_id
    host, port = embedded.broker_address
    both = {
        "messaging.system": "rocketmq",
        "messaging.rocketmq.namespace": "",
        "messaging.destination.name": "T",
        "messaging.destination.partition.id": f"broker-a/{result.queue.queue_id}",
        "messaging.message.id": result.msg_id,
        "messaging.rocketmq.message.tag": "TagA",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
        "messaging.rocketmq.message.type": "normal",
        "server.address": host,
        "server.port": port,
    }
    told = said(sent)
    assert told.pop("messaging.client.id")
    assert told == both | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.rocketmq.client_group": "p",
    }
    assert (processed.name, processed.kind) == ("process T", SpanKind.CONSUMER)
    assert processed.parent is not None
    assert (processed.parent.span_id, processed.parent.is_remote) == (span_id(sent), True)
    assert linked(processed) == [span_id(sent)]
    told = said(processed)
    assert told.pop("messaging.client.id")
    assert told == both | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "g",
        "messaging.rocketmq.consumption_model": "clustering",
    }
    assert found.inside == [span_id(processed)]
    assert {span.status.status_code for span in recorded.spans} == {StatusCode.UNSET}


async def test_a_plain_listener_runs_inside(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded) as sender:
        await sender.send(Message("T", b"body"))

    def plain(found: Heard) -> Any:
        def listener(message: ReceivedMessage) -> None:
            found.take(message)

        return listener

    async with heard(embedded, 1, plain) as found:
        pass
    assert found.inside == [span_id(recorded.one("process"))]


async def test_what_a_listener_sends_goes_on(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded) as sender:
        await sender.send(Message("T", b"body"))

        def forwarding(found: Heard) -> Any:
            async def listener(message: ReceivedMessage) -> None:
                await sender.send(Message("Next", message.body))
                found.take(message)

            return listener

        async with heard(embedded, 1, forwarding):
            pass
    first, second = recorded.all("send")
    processed = recorded.one("process")
    assert second.parent is not None
    assert second.parent.span_id == span_id(processed)
    assert first.context is not None
    assert second.context is not None
    assert first.context.trace_id == second.context.trace_id


async def test_a_worker_keeps_no_span(embedded: Running, recorded: Recorded) -> None:
    """Each message is in the trace of its sender, whatever the worker had before."""
    async with producer(embedded) as sender:
        for number in range(3):
            await sender.send(Message("T", b"%d" % number))
    async with heard(embedded, 3, concurrency=1) as found:
        pass
    parents = {span.parent.span_id for span in recorded.all("process") if span.parent}
    assert parents == {span_id(span) for span in recorded.all("send")}
    assert len(set(found.inside)) == 3


async def test_a_failed_listener(embedded: Running, recorded: Recorded) -> None:
    def answer(message: ReceivedMessage) -> Any:
        if message.body == b"raise":
            raise LookupError("no such order")
        return ConsumeResult.RECONSUME_LATER

    async with producer(embedded) as sender:
        await sender.send(Message("T", b"raise"))
        await sender.send(Message("T", b"later"))
    async with heard(embedded, 2, Heard(answer)):
        pass
    failed = {said(span)["error.type"]: span for span in recorded.all("process")}
    assert failed.keys() == {"LookupError", "FAILED"}
    assert {span.status.status_code for span in failed.values()} == {StatusCode.ERROR}
    assert failed["LookupError"].status.description == "LookupError: no such order"
    assert [event.name for event in failed["LookupError"].events] == ["exception"]


async def test_kinds_of_messages(serve: Serve, recorded: Recorded) -> None:
    async with serve(message_delay_level="1s") as server, producer(server) as sender:
        await sender.send_oneway(Message("T", b"1"))
        await sender.send(Message("T", b"2"), sharding_key="order-7")
        await sender.send(Message("T", b"3", delay_time_level=1))
        await sender.send(Message("T", b"4", deliver_at=4e9 // 1000))
        async with heard(server, 4) as found:
            pass
    oneway, ordered, delayed, timed = (said(span) for span in recorded.all("send"))
    assert "messaging.message.id" not in oneway
    assert ordered["messaging.rocketmq.message.type"] == "fifo"
    assert ordered["messaging.rocketmq.message.group"] == "order-7"
    assert delayed["messaging.rocketmq.message.type"] == "delay"
    assert delayed["messaging.rocketmq.message.delay_time_level"] == 1
    assert timed["messaging.rocketmq.message.delivery_timestamp"] == 4e9 // 1000 * 1000
    by_id = {said(s)["messaging.message.id"]: said(s) for s in recorded.all("process")}
    kinds = {
        message.body: by_id[message.msg_id]["messaging.rocketmq.message.type"]
        for message in found.messages
    }
    assert kinds == {b"1": "normal", b"2": "fifo", b"3": "delay", b"4": "delay"}


async def test_broadcasting_and_namespace(
    embedded: Running, recorded: Recorded, tmp_path: Any
) -> None:
    async with producer(embedded, namespace="n") as sender:
        await sender.send(Message("T", b"body"))
    async with heard(
        embedded,
        1,
        namespace="n",
        message_model=MessageModel.BROADCASTING,
        offset_folder=tmp_path,
    ):
        pass
    for span in (recorded.one("send"), recorded.one("process")):
        told = said(span)
        assert told["messaging.destination.name"] == "T"
        assert told["messaging.rocketmq.namespace"] == "n"
        assert told["server.port"] == embedded.broker_address[1]
    assert said(recorded.one("process"))["messaging.rocketmq.consumption_model"] == "broadcasting"


async def test_failed_sends(serve: Serve, recorded: Recorded) -> None:
    async with serve(auto_create_topic_enable=False) as server, producer(server) as sender:
        with pytest.raises(TopicNotExistError):
            await sender.send(Message("Missing", b"body"))
        with pytest.raises(NotSentError):
            await sender.send(Message("T", b""))
        with pytest.raises(RequestTimeoutError), recorded.inside("app"):
            await sender.send(Message("Missing", b"body"), timeout=1e-9)
    failed = recorded.all("send")
    assert [said(span)["error.type"] for span in failed][1:] == ["RequestTimeoutError"]
    assert said(failed[0])["error.type"] == "TOPIC_NOT_EXIST"
    assert {span.status.status_code for span in failed} == {StatusCode.ERROR}


async def test_request_and_reply(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded) as asking, producer(embedded) as replying:

        def answering(found: Heard) -> Any:
            async def listener(message: ReceivedMessage) -> None:
                await replying.send(reply_to(message, b"pong"))
                found.take(message)

            return listener

        async with heard(embedded, 1, answering):
            reply = await asking.request(Message("T", b"ping"), timeout=20)
    request, answer = recorded.one("request"), recorded.one("send")
    assert reply.body == b"pong"
    assert (request.kind, linked(request)) == (SpanKind.PRODUCER, [span_id(answer)])
    assert (
        said(request)["messaging.message.conversation_id"]
        == said(answer)["messaging.message.conversation_id"]
        == reply.properties["CORRELATION_ID"]
    )
    assert answer.parent is not None
    assert answer.parent.span_id == span_id(recorded.one("process"))
