"""Fetches metrics as Prometheus does, and reads them with its parser."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pyrmq.testing import TestServer

Address = tuple[str, int]
SERVED: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
"""Keys of a broker that serves metrics."""
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;q=0.1"


def get(address: Address | None, path: str = "/metrics", accept: str = ACCEPT) -> tuple[int, str]:
    """Status and body."""
    assert address is not None, "metrics are not served"
    connection = HTTPConnection(*address, timeout=60)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        assert response.headers.get_all("cache-control") == ["no-store"]
        return response.status, response.read().decode()
    finally:
        connection.close()


class Scrape:
    """One page, by family and by sample."""

    def __init__(self, address: Address | None) -> None:
        status, self.text = get(address)
        assert status == 200, self.text
        self.families: dict[str, Metric] = {
            family.name: family for family in text_string_to_metric_families(self.text)
        }
        self.samples = [s for family in self.families.values() for s in family.samples]

    def rows(self, name: str, **labels: str) -> dict[tuple[str, ...], float]:
        """The samples of a name that have these labels: their other labels' values -> value."""
        found = {}
        for sample in self.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                others = {k: v for k, v in sample.labels.items() if k not in labels}
                key = tuple(v for k, v in others.items() if k not in ("cluster", "node_type"))
                assert key not in found, f"{name}{key} is there twice"
                found[key] = sample.value
        return found

    def one(self, name: str, **labels: str) -> float:
        """The only sample of a name with these labels."""
        (value,) = self.rows(name, **labels).values()
        return value


def scrape(server: TestServer) -> Scrape:
    return Scrape(server.broker.metrics_address)
