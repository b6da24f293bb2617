"""Spans of batches, and of messages that are collected into batches."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from opentelemetry.trace import SpanKind

from pyrmq import (
    Message,
    ReceivedMessage,
)
from pyrmq.server import Running
from tests.otel.listening import Heard, heard, producer
from tests.otel.spans import Recorded, linked, recording, said, span_id
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")


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
