"""Trace context between our client and Java's with OpenTelemetry's own instrumentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import TraceState, format_span_id, format_trace_id

from pyrmq.sync import ConsumeFrom, Message, Producer, PushConsumer
from tests.otel.spans import Recorded, recording

from .conftest import built
from .drivers import Driver
from .server import Server

TIMEOUT = 60.0


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    with recording() as recorded:
        yield recorded


@pytest.fixture
def traced(server: Server) -> Driver:
    return Driver("traced", tuple(built("traced")), server.namesrv, server.state)


def ids(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return format_trace_id(span.context.trace_id), format_span_id(span.context.span_id)


def test_java_goes_on_with_our_traces(
    recorded: Recorded, traced: Driver, server: Server, topic: str, group: str
) -> None:
    with Producer("P-" + group, namesrv=server.namesrv) as producer:
        state = TraceState([("vendor", "opaque")])
        with recorded.inside("app", state):
            producer.send(Message(topic, b"alone"))
            producer.send_batch([Message(topic, b"first"), Message(topic, b"second")])
    report = traced.run("consume", topic=topic, group=group, count=3)
    sent = [ids(recorded.one("send", 0)), *(ids(span) for span in recorded.all("create"))]
    heard = {line["body"]: line for line in report.received}
    assert sorted(line["traceparent"] for line in heard.values()) == sorted(
        f"00-{trace}-{span}-{heard['alone']['traceparent'][-2:]}" for trace, span in sent
    )
    assert {line["tracestate"] for line in heard.values()} == {"vendor=opaque"}
    processed = [line for line in report.of("span") if line["kind"] == "CONSUMER"]
    found = {(line["traceId"], line["parent"]) for line in processed if line["remote"]}
    assert found == set(sent)
    assert all(line["traceState"] == 1 for line in processed)


def test_we_go_on_with_javas(
    recorded: Recorded, traced: Driver, server: Server, topic: str, group: str
) -> None:
    report = traced.run("produce", topic=topic, group="P-" + group, count=2)
    sent = {
        (line["traceId"], line["spanId"])
        for line in report.of("span")
        if line["kind"] == "PRODUCER"
    }
    left: list[Any] = [None] * 2
    with PushConsumer(
        group, {topic: "*"}, namesrv=server.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        for message in consumer:
            left.pop()
            consumer.acknowledge(message)
            if not left:
                break
    found = recorded.all("process")
    parents = {
        (format_trace_id(span.parent.trace_id), format_span_id(span.parent.span_id))
        for span in found
        if span.parent is not None and span.parent.is_remote
    }
    assert parents == sent
    links = {format_span_id(link.context.span_id) for span in found for link in span.links}
    assert links == {span for _, span in sent}
