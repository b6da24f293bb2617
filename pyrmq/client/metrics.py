"""Metrics of clients for Prometheus, with RocketMQ 5's names.

from prometheus_client import REGISTRY, start_http_server

metrics = pyrmq.ClientMetrics()  # before the clients are made
REGISTRY.register(metrics)
start_http_server(9100)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from pyrmq.client.checks import check_whole
from pyrmq.client.measures import (
    CACHED_BYTES,
    CACHED_MESSAGES,
    HISTOGRAMS,
    MAX_SERIES,
    Histogram,
    Measures,
)
from pyrmq.client.telemetry import install, remove


class _Series:
    """One histogram with the values of its labels."""

    __slots__ = ("counts", "sum")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.sum = 0.0


class ClientMetrics(Collector):
    """A collector of prometheus-client for all producers and consumers of this process that are
    made after it. Register it in a registry of yours.

    max_series: most combinations of labels of one metric; what is more has the topic `_other`.

    Raises ClientError if the argument is invalid.
    """

    def __init__(self, *, max_series: int = MAX_SERIES) -> None:
        check_whole("max_series", max_series, 1, 1_000_000)
        self._series: dict[Histogram, dict[tuple[str, ...], _Series]]
        self._series = {histogram: {} for histogram in HISTOGRAMS}
        self._measures = Measures(self._record, max_series)
        install(self._measures)

    def close(self) -> None:
        """Clients that are made from now on are not measured. What was measured stays."""
        remove(self._measures)

    def _record(self, histogram: Histogram, labels: tuple[str, ...], value: float) -> None:
        # Without a lock, which a forked child might never get: a series is one client's, and so one
        # thread's.
        series = self._series[histogram].get(labels)
        if series is None:
            series = self._series[histogram][labels] = _Series(len(histogram.bounds))
        series.counts[bisect_left(histogram.bounds, value)] += 1
        series.sum += value

    def collect(self) -> Iterator[Metric]:
        """All metrics; a registry calls it."""
        for histogram in HISTOGRAMS:
            family = HistogramMetricFamily(histogram.name, histogram.text, labels=histogram.labels)
            bounds = [*(repr(float(bound)) for bound in histogram.bounds), "+Inf"]
            known = list(self._series[histogram].items())
            for labels, series in known:
                counts = accumulate(list(series.counts))
                family.add_metric(labels, list(zip(bounds, counts, strict=True)), series.sum)
            yield family
        cached = self._measures.cached()
        for index, gauge in enumerate((CACHED_MESSAGES, CACHED_BYTES)):
            shown = GaugeMetricFamily(gauge.name, gauge.text, labels=gauge.labels)
            for labels, values in cached.items():
                shown.add_metric(labels, values[index])
            yield shown
