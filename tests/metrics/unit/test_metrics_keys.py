"""The configuration keys of metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError
from pyrmq.metrics.settings import labels_of, metrics_beside
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.processes.plan import check_ports, plan


@pytest.mark.parametrize(
    ("value", "serves"), [("DISABLE", False), ("0", False), ("PROM", True), ("2", True)]
)
@pytest.mark.parametrize("of", [BrokerConfig, NamesrvConfig])
def test_the_type(of: type[BrokerConfig | NamesrvConfig], value: str, serves: bool) -> None:
    assert of.from_properties({"metricsExporterType": value}).serves_metrics is serves


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("metricsExporterType", "OTLP_GRPC", "sends no metrics: set PROM"),
        ("metricsExporterType", "LOG", "sends no metrics: set PROM"),
        ("metricsExporterType", "prom", "DISABLE or PROM expected"),
        ("metricsPromExporterHost", "", "an address of this machine"),
        ("metricsPromExporterHost", "a b", "an address of this machine"),
        ("metricsPromExporterPort", "65536", "0 to 65535"),
        ("metricsMaxSeries", "0", "1 to 1000000"),
        ("metricsLabel", "zone", "'zone' is not name:value"),
        ("metricsLabel", "a-b:c", "'a-b:c' is not name:value"),
        ("metricsLabel", "topic:x", "has a meaning already"),
        ("metricsLabel", "__x:y", "has a meaning already"),
        ("metricsLabel", "a:1,a:2", "is there twice"),
        ("metricsLabel", f"a:{'x' * 257}", "more than 256"),
        ("metricsLabel", ",".join(f"a{n}:x" for n in range(33)), "at most 32 labels"),
        ("metricsInDelta", "true", "not supported"),
    ],
)
def test_what_is_refused(key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        BrokerConfig.from_properties({key: value})
    assert key in str(error.value)


def test_labels() -> None:
    assert labels_of("zone:a, team:b:c,") == {"zone": "a", "team": "b:c"}
    config = BrokerConfig(metrics_label="zone:a")
    assert config.common_labels({"node_id": "n"}) == {"node_id": "n", "zone": "a"}


def test_the_name_server_of_pyrmq_server_has_one_port_more() -> None:
    assert metrics_beside(BrokerConfig()) == {}
    config = BrokerConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=7000)
    beside = NamesrvConfig.from_properties(metrics_beside(config))
    assert (beside.serves_metrics, beside.metrics_prom_exporter_port) == (True, 7001)
    config = BrokerConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=0)
    assert metrics_beside(config)["metricsPromExporterPort"] == "0"


def test_ports_of_several_brokers(tmp_path: Path) -> None:
    without = BrokerConfig(store_path_root_dir=tmp_path)
    assert all("metricsPromExporterPort" not in member.keys for member in plan(without, 2))
    config = BrokerConfig(store_path_root_dir=tmp_path, metrics_exporter_type="PROM")
    members = plan(config, 3)
    ports = [member.keys["metricsPromExporterPort"] for member in members]
    assert ports == ["5557", "5567", "5577"]
    check_ports(members, {9876, 5558})
    with pytest.raises(ConfigError, match="metricsPromExporterPort"):
        check_ports(members, {5567})
