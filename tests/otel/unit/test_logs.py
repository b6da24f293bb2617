"""Trace ids in log records."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

import pyrmq.otel
from pyrmq.otel import TraceIds
from pyrmq.otel.logs import RecordIds
from tests.otel.spans import recording

TRACE, SPAN = 0x1F, 0x2E
IDS = ("0000000000000000000000000000001f", "000000000000002e", True)


def record(name: str = "app") -> logging.LogRecord:
    return logging.getLogger(name).makeRecord(name, logging.INFO, __file__, 1, "text", (), None)


def ids(one: logging.LogRecord) -> tuple[object, ...]:
    names = ("otelTraceID", "otelSpanID", "otelTraceSampled")
    return tuple(getattr(one, name, None) for name in names)


@pytest.fixture
def inside() -> Iterator[None]:
    with use_span(NonRecordingSpan(SpanContext(TRACE, SPAN, False, TraceFlags(1)))):
        yield


def test_records_have_ids_while_instrumented(inside: None) -> None:
    before = logging.getLogRecordFactory()
    assert ids(record()) == (None, None, None)
    with recording():
        assert ids(record()) == IDS
        own = record("pyrmq.client")
        assert ids(own) == IDS
        assert (own.trace_id, own.span_id) == IDS[:2]  # type: ignore[attr-defined]
        with use_span(trace.INVALID_SPAN):
            assert ids(record()) == (None, None, None)
    assert ids(record()) == (None, None, None)
    assert logging.getLogRecordFactory() is before


def test_records_without(inside: None) -> None:
    with recording(logs=False):
        assert ids(record()) == (None, None, None)


def test_another_factory_that_came_later_stays(inside: None) -> None:
    before = logging.getLogRecordFactory()
    own = RecordIds()
    own.start()
    below = logging.getLogRecordFactory()

    def later(*args: object, **options: object) -> logging.LogRecord:
        made = below(*args, **options)
        made.later = True
        return made

    try:
        logging.setLogRecordFactory(later)
        own.stop()
        assert logging.getLogRecordFactory() is later
        assert ids(record()) == (None, None, None)
        own.start()
        assert ids(record()) == IDS
    finally:
        logging.setLogRecordFactory(before)


def test_the_filter(inside: None) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(TraceIds())
    handler.setFormatter(logging.Formatter("%(otelTraceID)s %(otelSpanID)s %(otelTraceSampled)s"))
    handler.handle(record())
    with use_span(trace.INVALID_SPAN):
        handler.handle(record())
    assert out.getvalue().splitlines() == [f"{IDS[0]} {IDS[1]} True", "0 0 False"]


def test_ids_of_another_instrumentation_stay(inside: None) -> None:
    one = record()
    one.otelTraceID, one.otelSpanID, one.otelTraceSampled = "a", "b", False
    assert TraceIds().filter(one)
    assert ids(one) == ("a", "b", False)
    assert pyrmq.otel.TraceIds is TraceIds
