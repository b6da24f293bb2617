"""Configuration keys of the metrics of brokers and name servers. [BrokerConfig]"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyrmq.config.table import FixedKey, UnusedKey, key
from pyrmq.net.address import is_host

DISABLED = "DISABLE"
PROMETHEUS = "PROM"
TYPES = {DISABLED: DISABLED, "0": DISABLED, PROMETHEUS: PROMETHEUS, "2": PROMETHEUS}
"""Values of metricsExporterType, and what they mean. [MetricsExporterType]"""
PORT_KEY = "metricsPromExporterPort"
RESERVED = frozenset({
    "cluster", "consume_mode", "consumer_group", "generation", "invocation_status",
    "is_long_polling", "is_retry", "is_system", "language", "le", "level", "message_type",
    "node_id", "node_type", "path", "processor", "protocol_type", "put_status", "python_version",
    "quantile", "queue_id", "request_code", "response_code", "result", "revive_message_type",
    "role", "slave", "storage_medium", "storage_type", "timer_bound_s", "topic", "version",
})  # fmt: skip
"""Labels that rows have, which metricsLabel cannot have as well."""
MAX_LABELS = 32
MAX_VALUE = 256
"""Characters of a label's value."""

_PUSH = "figures are fetched, not sent: metricsExporterType=PROM"

OTHER_METRICS_KEYS: tuple[FixedKey | UnusedKey, ...] = (
    FixedKey("metricsInDelta", ("false",), "counters grow from the start on"),
    UnusedKey("metricsOtelCardinalityLimit", "metricsMaxSeries bounds the rows"),
    UnusedKey("metricsGrpcExporterTarget", _PUSH),
    UnusedKey("metricsGrpcExporterHeader", _PUSH),
    UnusedKey("metricGrpcExporterTimeOutInMills", _PUSH),
    UnusedKey("metricGrpcExporterIntervalInMills", _PUSH),
    UnusedKey("metricLoggingExporterIntervalInMills", _PUSH),
)


def _type(text: str) -> None:
    if text in ("OTLP_GRPC", "LOG", "1", "3"):
        raise ValueError("this version sends no metrics: set PROM, and let Prometheus fetch them")
    if text not in TYPES:
        raise ValueError(f"{DISABLED} or {PROMETHEUS} expected")


def _host(text: str) -> None:
    if not is_host(text):
        raise ValueError("an address of this machine expected; 0.0.0.0 listens on all of them")


def labels_of(text: str) -> dict[str, str]:
    """The labels of `name:value,name:value`. ValueError says what is wrong."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = part.partition(":")
        if not colon or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
            raise ValueError(f"{part[:64]!r} is not name:value")
        if name.startswith("__") or name in RESERVED:
            raise ValueError(f"the label {name} has a meaning already")
        if name in found:
            raise ValueError(f"the label {name} is there twice")
        if len(value) > MAX_VALUE:
            raise ValueError(f"the value of {name} has more than {MAX_VALUE} characters")
        found[name] = value
    if len(found) > MAX_LABELS:
        raise ValueError(f"at most {MAX_LABELS} labels")
    return found


@dataclass(frozen=True)
class MetricsKeys:
    """The keys of metrics. No slots: settings classes have other bases too."""

    metrics_exporter_type: str = key(
        DISABLED,
        "PROM: /metrics is served over HTTP, for Prometheus.",
        check=_type,
        values="DISABLE, PROM",
        section="Metrics ([metrics.md](metrics.md))",
    )
    metrics_prom_exporter_host: str = key(
        "127.0.0.1",
        "Address at which metrics are served. It has no access control: leave it at loopback, or "
        "let only Prometheus reach it.",
        check=_host,
        values="an address",
    )
    metrics_prom_exporter_port: int = key(
        5557, "Port at which metrics are served; 0: any free one.", high=65535
    )
    metrics_label: str = key(
        "",
        "Labels that all rows get.",
        check=labels_of,
        values="such as zone:a,team:shop",
    )
    metrics_max_series: int = key(
        1000,
        "Most topics of a metric that have a row of their own, and most pairs of group and topic; "
        "all others share one. Not RocketMQ's.",
        low=1,
        high=1_000_000,
    )

    @property
    def serves_metrics(self) -> bool:
        return TYPES[self.metrics_exporter_type] == PROMETHEUS

    def common_labels(self, node: Mapping[str, object]) -> dict[str, object]:
        """Labels of all rows: those of the node, and metricsLabel."""
        return {**node, **labels_of(self.metrics_label)}


def metrics_beside(config: MetricsKeys) -> dict[str, str]:
    """The keys of the name server that serves beside a broker, with one port more; none if the
    broker serves no metrics."""
    if not config.serves_metrics:
        return {}
    port = config.metrics_prom_exporter_port
    return {
        "metricsExporterType": config.metrics_exporter_type,
        "metricsPromExporterHost": config.metrics_prom_exporter_host,
        PORT_KEY: str(port and port + 1),
        "metricsLabel": config.metrics_label,
    }
