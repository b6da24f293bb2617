"""Metrics of clients by OpenTelemetry's API: the conventions' names, and RocketMQ 5's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from pyrmq.client.measures import (
    CACHED_BYTES,
    CACHED_MESSAGES,
    HISTOGRAMS,
    MAX_SERIES,
    Fold,
    Histogram,
    Measures,
)
from pyrmq.client.telemetry import ClientInfo, Operation, Work
from pyrmq.model.record import ReceivedMessage
from pyrmq.otel import attributes as names

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
MAX_KEPT = 8192
"""Sets of attributes that are kept for the next time."""
_CLIENTS = frozenset(names.TYPES) - {Work.CREATE, Work.PROCESS, Work.CHECK}
"""Operations that a client starts."""


class MetricTelemetry:
    """A `Telemetry` that records metrics."""

    def __init__(self, meter: Meter, max_series: int = MAX_SERIES) -> None:
        self.active = True
        self._kept: dict[tuple[object, ...], names.Attributes] = {}
        self._fold = Fold(max_series)
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of an operation that a producer or consumer started",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Messages that a producer tried to send",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Messages that were delivered to the program",
        )
        self._processed = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing messages",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._histograms = {
            histogram: meter.create_histogram(
                histogram.name,
                unit="ms",
                description=histogram.text,
                explicit_bucket_boundaries_advisory=histogram.bounds,
            )
            for histogram in HISTOGRAMS
        }
        self._measures = Measures(self._record, max_series)
        for index, gauge in enumerate((CACHED_MESSAGES, CACHED_BYTES)):
            meter.create_observable_gauge(
                gauge.name,
                callbacks=[self._observer(index, gauge.labels)],
                unit=gauge.unit,
                description=gauge.text,
            )

    def _observer(self, index: int, labels: tuple[str, ...]):  # type: ignore[no-untyped-def]
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            if not self.active:
                return
            for values, cached in self._measures.cached().items():
                yield Observation(cached[index], dict(zip(labels, values, strict=True)))

        return observe

    def _record(self, histogram: Histogram, labels: tuple[str, ...], value: float) -> None:
        key = (histogram, *labels)
        said = self._kept.get(key)
        if said is None:
            said = self._keep(key, dict(zip(histogram.labels, labels, strict=True)))
        self._histograms[histogram].record(value, said)

    def _keep(self, key: tuple[object, ...], said: names.Attributes) -> names.Attributes:
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[key] = said
        return said

    def opened(self, client: ClientInfo) -> None:
        self._measures.opened(client)

    def arrived(self, client: ClientInfo, messages: Sequence[ReceivedMessage], waits: bool) -> None:
        if self.active:
            self._measures.arrived(client, messages, waits)

    def begin(self, operation: Operation) -> None:
        if not self.active:
            return
        self._measures.begin(operation)
        if operation.work is Work.PROCESS or operation.work is Work.RECEIVE:
            self._consumed.add(operation.count, self._said(operation, None))

    def end(self, operation: Operation) -> None:
        if not self.active:
            return
        self._measures.end(operation)
        work = operation.work
        said = self._said(operation, names.error_type(operation))
        if work is Work.PROCESS:
            self._processed.record(operation.seconds, said)
        elif work in _CLIENTS:
            self._duration.record(operation.seconds, said)
        if work is Work.SEND or work is Work.REQUEST:
            self._sent.add(operation.count, said)

    def forget(self, operation: Operation) -> None:
        pass

    def _said(self, operation: Operation, error: str | None) -> names.Attributes:
        name = names.operation_name(operation)
        server = names.server_of(operation)
        key = (name, operation.topic, operation.client.group, server, error)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        said: names.Attributes = {names.SYSTEM: "rocketmq", names.OPERATION: name}
        kind = names.TYPES.get(operation.work)
        if kind is not None:
            said[names.OPERATION_TYPE] = kind
        client = operation.client
        if client.consumes:
            said[names.CONSUMER_GROUP] = client.group
        if operation.topic:
            said[names.DESTINATION] = self._fold.topic(name, operation.topic, client.group)
        names.add_address(said, server)
        if error is not None:
            said[names.ERROR] = error
        return self._keep(key, said)
