"""Records spans and metrics in memory, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceState

import pyrmq.otel
from pyrmq.otel import PyrmqInstrumentor


class Recorded:
    """What was recorded since `recording` began."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])
        self.tracer = self.provider.get_tracer("tests")

    @property
    def spans(self) -> list[ReadableSpan]:
        """All that have ended, but those of the tests themselves."""
        found = self._exporter.get_finished_spans()
        return [
            span
            for span in found
            if span.instrumentation_scope is not None and span.instrumentation_scope.name == "pyrmq"
        ]

    def all(self, operation: str) -> list[ReadableSpan]:
        """Those of an operation, in the order of their ends."""
        return [s for s in self.spans if said(s).get("messaging.operation.name") == operation]

    def one(self, operation: str, index: int | None = None) -> ReadableSpan:
        """The only one of an operation, or the one with this number."""
        found = self.all(operation)
        if index is None:
            assert len(found) == 1, [span.name for span in self.spans]
        return found[index or 0]

    @contextmanager
    def inside(self, name: str, state: TraceState | None = None) -> Iterator[Span]:
        """A span of the program around a block, of a trace with this state."""
        context = None
        if state is not None:
            parent = SpanContext(0x1234, 0x5678, True, trace.TraceFlags(1), state)
            context = trace.set_span_in_context(NonRecordingSpan(parent))
        with self.tracer.start_as_current_span(name, context=context) as span:
            yield span

    def metrics(self) -> dict[str, list[Any]]:
        """The points of each metric."""
        data = self._reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def said(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span."""
    return dict(span.attributes or {})


def span_id(span: ReadableSpan) -> int:
    """Its id."""
    assert span.context is not None
    return span.context.span_id


def linked(span: ReadableSpan) -> list[int]:
    """The ids of the spans that it is linked to."""
    return [link.context.span_id for link in span.links]


@contextmanager
def recording(*, sampler: Sampler | None = None, **options: Any) -> Iterator[Recorded]:
    """Instruments the clients that are made in the block."""
    recorded = Recorded(sampler)
    pyrmq.otel.instrument(
        tracer_provider=recorded.provider, meter_provider=recorded.meters, **options
    )
    try:
        yield recorded
    finally:
        if PyrmqInstrumentor().is_instrumented_by_opentelemetry:
            pyrmq.otel.uninstrument()
        recorded.provider.shutdown()
        recorded.meters.shutdown()
