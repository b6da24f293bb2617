"""Trace ids in log records. Formatters and handlers find them as attributes of a record.

The names are those of OpenTelemetry's own LoggingInstrumentor (`otelTraceID`, `otelSpanID`,
`otelTraceSampled`), and `trace_id` and `span_id`, which pyrmq's own lines of the log have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.trace import format_span_id, format_trace_id

TRACE_ID, SPAN_ID, SAMPLED = "otelTraceID", "otelSpanID", "otelTraceSampled"
_Factory = Callable[..., logging.LogRecord]


def add_ids(record: logging.LogRecord) -> None:
    """Adds the ids of the current span, if there is one and nobody has added them before."""
    if getattr(record, TRACE_ID, "0") != "0":
        return
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        trace_id, span_id = format_trace_id(span.trace_id), format_span_id(span.span_id)
        record.trace_id, record.span_id = trace_id, span_id
        setattr(record, TRACE_ID, trace_id)
        setattr(record, SPAN_ID, span_id)
        setattr(record, SAMPLED, span.trace_flags.sampled)


class TraceIds(logging.Filter):
    """A filter that lets all records pass, and adds the ids of the current span to each: for
    handlers of programs that log without `instrument(logs=True)`. Without a span `otelTraceID`
    and `otelSpanID` are "0", so that a format may name them."""

    def filter(self, record: logging.LogRecord) -> bool:
        add_ids(record)
        if not hasattr(record, TRACE_ID):
            setattr(record, TRACE_ID, "0")
            setattr(record, SPAN_ID, "0")
            setattr(record, SAMPLED, False)
        return True


class RecordIds:
    """Adds the ids to all records of this process, from `start` to `stop`."""

    def __init__(self) -> None:
        self._active = False
        self._before: _Factory | None = None

    def start(self) -> None:
        self._active = True
        if self._before is None:
            self._before = logging.getLogRecordFactory()
            logging.setLogRecordFactory(self._make)

    def stop(self) -> None:
        """Others may have put a factory of theirs before this one: then this one stays, and adds
        nothing."""
        self._active = False
        if self._before is not None and logging.getLogRecordFactory() == self._make:
            logging.setLogRecordFactory(self._before)
            self._before = None

    def _make(self, *args: object, **options: object) -> logging.LogRecord:
        assert self._before is not None
        record = self._before(*args, **options)
        if self._active:
            add_ids(record)
        return record
