"""Switches the instrumentation on and off."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace
from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]
    BaseInstrumentor,  # its module leaves types out
)
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import TracerProvider

from pyrmq.client.checks import check_kind
from pyrmq.client.telemetry import install, remove
from pyrmq.otel.attributes import SCHEMA
from pyrmq.otel.logs import RecordIds
from pyrmq.otel.metrics import MetricTelemetry
from pyrmq.otel.spans import SpanTelemetry
from pyrmq.version import __version__

NAME = "pyrmq"


@dataclass(slots=True)
class _Installed:
    spans: SpanTelemetry
    metrics: MetricTelemetry | None = None


_installed: _Installed | None = None
_record_ids = RecordIds()


def spans_now() -> SpanTelemetry | None:
    """What makes spans now; None if nothing does."""
    return None if _installed is None else _installed.spans


class PyrmqInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """The instrumentor that `opentelemetry-instrument` finds. `instrument` has the options of
    `pyrmq.otel.instrument`."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: what is instrumented is this package."""
        return ()

    def _instrument(self, **options: Any) -> None:
        _start(**options)

    def _uninstrument(self, **options: Any) -> None:
        _stop()


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    link_only: bool = False,
    create_spans: bool = True,
    metrics: bool = True,
    logs: bool = True,
) -> None:
    """Instruments the producers and consumers that are made after this call. A second call changes
    nothing until `uninstrument`.

    tracer_provider, meter_provider: default: the program's.
    link_only: the `process` span of a single message is a trace of its own, linked to the sender's.
    By default it is a child of the sender's span, and linked.
    create_spans: each message of a batch, and of `send_soon`, has a span `create`. False: the
    messages of a batch have the span of the batch, those of `send_soon` that of the caller.
    metrics: record metrics.
    logs: log records get the ids of the current span, as attributes `otelTraceID` and `otelSpanID`.

    Raises ClientError if an argument is invalid.
    """
    PyrmqInstrumentor().instrument(
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        link_only=link_only,
        create_spans=create_spans,
        metrics=metrics,
        logs=logs,
    )


def uninstrument() -> None:
    """Ends that: clients make no more spans and metrics, and add no context to messages."""
    PyrmqInstrumentor().uninstrument()


def _start(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    link_only: bool = False,
    create_spans: bool = True,
    metrics: bool = True,
    logs: bool = True,
) -> None:
    global _installed
    switches = {"link_only": link_only, "create_spans": create_spans}
    for name, value in (switches | {"metrics": metrics, "logs": logs}).items():
        check_kind(name, value, (bool,), "True or False")
    tracer = trace.get_tracer(NAME, __version__, tracer_provider, SCHEMA)
    spans = SpanTelemetry(tracer, link_only=link_only, create_spans=create_spans)
    _installed = _Installed(spans)
    install(spans)
    if metrics:
        meter = get_meter(NAME, __version__, meter_provider, SCHEMA)
        _installed.metrics = MetricTelemetry(meter)
        install(_installed.metrics)
    if logs:
        _record_ids.start()


def _stop() -> None:
    global _installed
    if _installed is None:
        return
    for telemetry in (_installed.spans, _installed.metrics):
        if telemetry is not None:
            telemetry.active = False
            remove(telemetry)
    _installed = None
    _record_ids.stop()
