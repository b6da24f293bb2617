"""OpenTelemetry: spans, trace context in messages, metrics and trace ids in logs.

    import pyrmq.otel

    pyrmq.otel.instrument()  # before producers and consumers are made

`opentelemetry-instrument python app.py` does the same without a change of the program. The package
needs the extra `otel`; nothing else of pyrmq imports it.
"""

from __future__ import annotations

try:
    import opentelemetry.instrumentation.instrumentor
    import opentelemetry.trace  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] not in ("opentelemetry", "wrapt"):
        raise
    raise ModuleNotFoundError(
        f"pyrmq.otel needs OpenTelemetry ({missing}): pip install 'pyrmq-broker[otel]'",
        name=missing.name,
    ) from missing

from pyrmq.otel.instrumentor import PyrmqInstrumentor, instrument, uninstrument
from pyrmq.otel.logs import TraceIds
from pyrmq.otel.processing import processing
from pyrmq.otel.propagation import context_of

__all__ = [
    "PyrmqInstrumentor",
    "TraceIds",
    "context_of",
    "instrument",
    "processing",
    "uninstrument",
]
