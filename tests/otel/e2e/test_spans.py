"""Spans of producers and listeners, through an embedded broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import pyrmq.otel
from pyrmq import (
    ClientError,
    ConsumeContext,
    ConsumeFrom,
    ConsumeMessageHook,
    ConsumeOutcome,
    ConsumeResult,
    Message,
    MessageIllegalError,
    MessageModel,
    NotSentError,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RequestTimeoutError,
    SendContext,
    SendMessageHook,
    TopicNotExistError,
    reply_to,
)
from pyrmq.server import Running
from tests.otel.spans import Recorded, linked, recording, said, span_id
from tests.support.fixtures import Serve
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")


class Heard:
    """A listener that keeps messages and the spans that it runs in."""

    def __init__(self, answer: Callable[[ReceivedMessage], Any] = lambda message: None) -> None:
        self.messages: list[ReceivedMessage] = []
        self.inside: list[int] = []
        self._answer = answer

    def take(self, message: ReceivedMessage) -> Any:
        self.inside.append(trace.get_current_span().get_span_context().span_id)
        self.messages.append(message)
        return self._answer(message)

    async def __call__(self, message: ReceivedMessage) -> Any:
        await trio.lowlevel.checkpoint()
        return self.take(message)


@asynccontextmanager
async def heard(
    server: Running, count: int, listener: Any = None, **options: Any
) -> AsyncIterator[Heard]:
    """Leaves when the listener has had so many messages."""
    found = listener if isinstance(listener, Heard) else Heard()
    options = {"consume_from": ConsumeFrom.FIRST_OFFSET, **options}
    topics = options.pop("topics", {"T": "*"})
    called = found if listener is None or isinstance(listener, Heard) else listener(found)
    async with PushConsumer("g", topics, namesrv=server.namesrv, listener=called, **options):
        yield found
        await eventually_trio(lambda: len(found.messages) >= count, f"{count} messages")


def producer(server: Running, **options: Any) -> Producer:
    return Producer("p", namesrv=server.namesrv, **options)


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


async def test_retries_and_dead_letters_keep_the_context(serve: Serve, recorded: Recorded) -> None:
    async with serve(message_delay_level="1s 1s 1s 1s") as server:
        async with producer(server) as sender:
            await sender.send(Message("T", b"body"))

        async with heard(
            server, 2, Heard(lambda message: ConsumeResult.RECONSUME_LATER), max_reconsume_times=1
        ):
            pass
        async with heard(server, 1, topics={"%DLQ%g": "*"}) as dead:
            pass
    sent = recorded.one("send")
    processed = recorded.all("process")
    assert [linked(span) for span in processed] == [[span_id(sent)]] * 3
    assert "traceparent" in dead.messages[0].properties
    assert [said(span)["messaging.rocketmq.message.type"] for span in processed] == ["normal"] * 3


async def test_a_batch_has_a_span_for_each_message(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded) as sender:
        await sender.send_batch([Message("T", b"1", tags="a"), Message("T", b"2", tags="b")])
    async with heard(embedded, 2):
        pass
    created, sent = recorded.all("create"), recorded.one("send")
    assert [span.kind for span in created] == [SpanKind.PRODUCER] * 2
    assert [said(span)["messaging.rocketmq.message.tag"] for span in created] == ["a", "b"]
    assert (sent.kind, linked(sent)) == (SpanKind.CLIENT, [span_id(span) for span in created])
    assert said(sent)["messaging.batch.message_count"] == 2
    assert sorted(linked(span)[0] for span in recorded.all("process")) == sorted(linked(sent))


@pytest.mark.parametrize("count", [2, 200])
async def test_a_batch_without_create_spans(embedded: Running, count: int) -> None:
    """Also one that is larger than a span has links."""
    with recording(create_spans=count > 128) as recorded:
        async with producer(embedded) as sender:
            await sender.send_batch([Message("T", b"x") for _ in range(count)])
        async with heard(embedded, count):
            pass
    sent = recorded.one("send")
    assert recorded.all("create") == []
    assert (sent.kind, linked(sent)) == (SpanKind.PRODUCER, [])
    assert [linked(span) for span in recorded.all("process")] == [[span_id(sent)]] * count


async def test_a_listener_for_batches(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded) as sender:
        await sender.send_batch([Message("T", b"1"), Message("T", b"2")])

    def batches(found: Heard) -> Any:
        async def listener(messages: list[ReceivedMessage]) -> None:
            for message in messages:
                found.take(message)

        return listener

    async with heard(embedded, 2, batches, batch_size=8) as found:
        pass
    processed = recorded.one("process")
    assert processed.parent is None
    assert linked(processed) == [span_id(span) for span in recorded.all("create")]
    assert [dict(link.attributes or {})["messaging.message.id"] for link in processed.links] == [
        message.msg_id for message in found.messages
    ]
    assert said(processed)["messaging.batch.message_count"] == 2
    assert "messaging.message.id" not in said(processed)
    assert set(found.inside) == {span_id(processed)}


@pytest.mark.parametrize("create", [True, False])
async def test_send_soon(embedded: Running, create: bool) -> None:
    with recording(create_spans=create) as recorded:
        async with producer(embedded, auto_batch=True) as sender:
            with recorded.inside("app") as app:
                taken = [await sender.send_soon(Message("T", b"%d" % n)) for n in range(5)]
            results = [await pending for pending in taken]
        async with heard(embedded, 5):
            pass
    created = recorded.all("create")
    contexts = [span_id(span) for span in created] if create else [app.get_span_context().span_id]
    links = [one for span in recorded.all("send") for one in linked(span)]
    assert (len(links), set(links)) == (5, set(contexts))
    assert {span.parent for span in recorded.all("send")} == {None}
    assert sum(said(s)["messaging.batch.message_count"] for s in recorded.all("send")) == 5
    assert {one for span in recorded.all("process") for one in linked(span)} == set(contexts)
    if create:
        assert [said(s)["messaging.message.id"] for s in created] == [r.msg_id for r in results]


async def test_auto_batched_sends_have_a_span_each(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded, auto_batch=True) as sender, trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(sender.send, Message("T", b"%d" % number))
        await eventually_trio(lambda: len(recorded.all("send")) == 4, "all are sent")
    async with heard(embedded, 4):
        pass
    assert sorted(linked(span)[0] for span in recorded.all("process")) == sorted(
        span_id(span) for span in recorded.all("send")
    )


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


async def test_a_context_of_the_program_stays(embedded: Running, recorded: Recorded) -> None:
    given = f"00-{1:032x}-{2:016x}-01"
    async with producer(embedded) as sender:
        await sender.send(Message("T", b"body", properties={"traceparent": given}))
    async with heard(embedded, 1) as found:
        pass
    assert found.messages[0].properties["traceparent"] == given
    sent = recorded.one("send")
    assert (sent.kind, linked(sent)) == (SpanKind.CLIENT, [2])
    assert linked(recorded.one("process")) == [2]


async def test_hostile_context(embedded: Running, recorded: Recorded) -> None:
    """What a listener gets of a message that others have sent; no span refers to it."""
    with recording():
        pass
    bad = {"traceparent": "00-" + "x" * 20_000, "tracestate": "a=" + "b" * 8192}
    pyrmq.otel.uninstrument()
    async with producer(embedded) as sender:
        await sender.send(Message("T", b"body", properties=bad))
    pyrmq.otel.instrument(tracer_provider=recorded.provider, meter_provider=recorded.meters)
    async with heard(embedded, 1) as found:
        pass
    processed = recorded.one("process")
    assert (processed.parent, linked(processed)) == (None, [])
    assert found.inside == [span_id(processed)]


async def test_full_properties_are_sent(embedded: Running, recorded: Recorded) -> None:
    full = {"big": "x" * 31_000}
    async with producer(embedded) as sender:
        await sender.send(Message("T", b"body", properties=dict(full)))
    async with heard(embedded, 1) as found:
        pass
    assert found.messages[0].properties["big"] == full["big"]
    assert "traceparent" not in found.messages[0].properties
    assert said(recorded.one("send"))["messaging.message.id"] == found.messages[0].msg_id


async def test_links_only(embedded: Running) -> None:
    with recording(link_only=True) as recorded:
        async with producer(embedded) as sender:
            await sender.send(Message("T", b"body"))
        async with heard(embedded, 1):
            pass
    processed = recorded.one("process")
    assert processed.parent is None
    assert linked(processed) == [span_id(recorded.one("send"))]


async def test_unsampled_traces_stay_unsampled(embedded: Running) -> None:
    with recording(sampler=ALWAYS_OFF) as recorded:
        async with producer(embedded) as sender:
            await sender.send(Message("T", b"body"))
            await sender.send_batch([Message("T", b"body")])
        async with heard(embedded, 2) as found:
            pass
    assert recorded.spans == []
    for message in found.messages:
        flags = int(message.properties["traceparent"][-2:], 16)
        assert flags & 1 == 0


async def test_uninstrumented_clients_go_on(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded, auto_batch=True) as sender:
        await sender.send(Message("T", b"1"))
        pyrmq.otel.uninstrument()
        await sender.send(Message("T", b"2"))
        await (await sender.send_soon(Message("T", b"3")))
        async with heard(embedded, 3) as found:
            pass
    assert [span.name for span in recorded.spans] == ["send T"]
    with_context = {m.body for m in found.messages if "traceparent" in m.properties}
    assert with_context == {b"1"}


async def test_an_error_of_the_instrumentation_costs_no_message(
    embedded: Running, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyrmq.otel.spans import SpanTelemetry

    def fail(*args: object) -> None:
        raise RuntimeError("fault of the test")

    for name in ("begin", "end", "arrived", "opened"):
        monkeypatch.setattr(SpanTelemetry, name, fail)
    async with producer(embedded) as sender:
        await sender.send(Message("T", b"body"))
    async with heard(embedded, 1) as found:
        pass
    assert found.messages[0].body == b"body"


async def test_hooks_of_the_program(embedded: Running, recorded: Recorded) -> None:
    """They hear of the message itself; what they add is sent beside the context."""
    order: list[Any] = []

    class Sends(SendMessageHook):
        def before(self, context: SendContext) -> None:
            context.messages[0].properties["mine"] = "1"
            order.append(dict(context.messages[0].properties))

        def after(self, context: SendContext) -> None:
            order.append(context.result)

    class Consumes(ConsumeMessageHook):
        def before(self, context: ConsumeContext) -> None:
            order.append(trace.get_current_span().get_span_context().span_id)

        def after(self, context: ConsumeContext) -> None:
            order.append((context.status, trace.get_current_span().get_span_context().span_id))

    async with producer(embedded, auto_batch=True, hooks=[Sends()]) as sender:
        result = await sender.send(Message("T", b"body"))
        with pytest.raises(ClientError, match="calls no hooks"):
            await sender.send_soon(Message("T", b"body"))
    async with heard(embedded, 1, hooks=[Consumes()]) as found:
        pass
    assert found.messages[0].properties["mine"] == "1"
    assert "traceparent" in found.messages[0].properties
    inside = span_id(recorded.one("process"))
    assert order == [{"mine": "1"}, result, inside, (ConsumeOutcome.SUCCESS, inside)]


async def test_a_cancelled_send(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded) as sender:
        with trio.CancelScope() as scope:
            scope.cancel()
            await sender.send(Message("T", b"body"))
    assert said(recorded.one("send"))["error.type"] == "Cancelled"


async def test_odd_text_does_not_reach_exporters(embedded: Running, recorded: Recorded) -> None:
    async with producer(embedded) as sender:
        with pytest.raises(MessageIllegalError):
            await sender.send(Message("T", b"body", tags="\ud800", keys="k" * 5000))
    told = said(recorded.one("send"))
    assert told["messaging.rocketmq.message.tag"] == "?"
    assert len(told["messaging.rocketmq.message.keys"][0]) == 1024
