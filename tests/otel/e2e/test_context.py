"""The context that messages carry, what may be wrong with it, and what else runs beside spans."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind

import pyrmq.otel
from pyrmq import (
    ClientError,
    ConsumeContext,
    ConsumeMessageHook,
    ConsumeOutcome,
    ConsumeResult,
    Message,
    MessageIllegalError,
    SendContext,
    SendMessageHook,
)
from pyrmq.server import Running
from tests.otel.listening import Heard, heard, producer
from tests.otel.spans import Recorded, linked, recording, said, span_id
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")


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
