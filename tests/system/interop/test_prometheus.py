"""A real Prometheus scrapes a real broker and name server by our files, and alerts."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from pyrmq.broker import Broker, BrokerConfig
from pyrmq.deploy.files import files_of, write
from pyrmq.metrics import exposition
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from tests.support.client import Client
from tests.support.operators import create_topic
from tests.support.waiting import eventually
from tests.system.interop import toolchain
from tests.system.interop.prometheus.programs import program
from tests.system.interop.prometheus.server import Prometheus, prometheus

Address = tuple[str, int]
UPDATE_BROKER_CONFIG, GET_ROUTEINFO_BY_TOPIC = 25, 105
OFTEN = "200ms"
DASHBOARDS = {
    name: json.loads(text)
    for name, text in files_of("monitoring").items()
    if name.endswith(".json")
}
SERVED: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}


@pytest.fixture(autouse=True)
def there() -> None:
    try:
        program("prometheus")
    except toolchain.Missing as problem:
        if toolchain.required():
            pytest.fail(str(problem), pytrace=False)
        pytest.skip(str(problem))


def configured(folder: Path, ports: list[int]) -> Path:
    """Our files with these targets, and looked at so often that a test need not wait: what lasts
    minutes in the rules lasts nothing."""
    write("monitoring", folder)
    rules = yaml.safe_load((folder / "alerts.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    (folder / "alerts.yaml").write_text(yaml.safe_dump(rules))
    path = folder / "prometheus.yaml"
    config = yaml.safe_load(path.read_text())
    config["global"] = {
        "scrape_interval": OFTEN, "scrape_timeout": OFTEN, "evaluation_interval": OFTEN,
    }  # fmt: skip
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    jobs["rocketmq"]["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
    del jobs["rocketmq-clients"]
    config["scrape_configs"] = list(jobs.values())
    path.write_text(yaml.safe_dump(config))
    return path


@asynccontextmanager
async def running(server: NameServer) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield
        nursery.cancel_scope.cancel()


async def test_alerts_fire_and_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "FRESH", 0.0)
    monkeypatch.setattr(exposition, "MOST_FRESH", 0.0)
    names = NameServer(
        NamesrvConfig(
            listen_port=0,
            bind_address="127.0.0.1",
            kv_config_path=tmp_path / "kv.json",
            **SERVED,
        )
    )
    config = BrokerConfig(
        store_path_root_dir=tmp_path / "store",
        bind_address="127.0.0.1",
        broker_ip1="127.0.0.1",
        listen_port=0,
        mapped_file_size_commit_log=1 << 20,
        **SERVED,
    )
    async with running(names):
        own = replace(config, namesrv_addr=names.reachable)
        async with Broker.serving(own) as broker:
            ports = [a[1] for a in (broker.metrics_address, names.metrics_address) if a is not None]
            assert len(ports) == 2
            files = configured(tmp_path / "files", ports)
            await trio.to_thread.run_sync(
                _watch, files, tmp_path / "data", broker.address, names.address
            )


def _watch(files: Path, data: Path, broker: Address, namesrv: Address) -> None:
    with prometheus(files, data) as server:
        _alerted(server, broker)
        _shown(server, broker, namesrv)


def _alerted(server: Prometheus, broker: Address) -> None:
    """While the broker refuses messages an alert fires; its texts name the broker."""
    name = "PyrmqBrokerRefusesMessages"
    eventually(lambda: server.targets() == ["up", "up"], "both are scraped")
    eventually(lambda: all(rule["health"] == "ok" for rule in server.rules()), "rules are judged")
    wrong = {name, "PyrmqServerDown", "PyrmqNoBroker", "PyrmqBrokerWithoutMaster"}
    eventually(lambda: not server.firing().keys() & wrong, "all is well")
    with Client(broker) as client:
        assert client.call(UPDATE_BROKER_CONFIG, b"brokerPermission=4").code == 0
        eventually(lambda: name in server.firing(), "it fires")
        alert = server.firing()[name]
        assert alert["labels"]["severity"] == "critical"
        assert alert["labels"]["instance"] in alert["annotations"]["summary"]
        assert alert["annotations"]["runbook"] == f"docs/monitoring.md#{name.lower()}"
        assert client.call(UPDATE_BROKER_CONFIG, b"brokerPermission=6").code == 0
        eventually(lambda: name not in server.firing(), "it clears")
    assert [rule for rule in server.rules() if rule.get("lastError")] == []


def _shown(server: Prometheus, broker: Address, namesrv: Address) -> None:
    """Prometheus takes every expression of the dashboards; those of servers show something."""
    with Client(broker) as client, Client(namesrv) as names:
        create_topic(client, "T")
        client.heartbeat("c", "G", "T")

        def used() -> set[str]:
            assert client.send("T").code == 0
            assert client.pull("T", 0, 0, group="G").records
            for asked in (client, names):
                assert asked.call(GET_ROUTEINFO_BY_TOPIC, topic="nowhere").code != 0
            return empty()

        def empty() -> set[str]:
            return {
                panel["title"]
                for name in ("grafana-brokers.json", "grafana-namesrv.json")
                for panel in DASHBOARDS[name]["panels"]
                for target in panel.get("targets", ())
                if not server.query(filled(target["expr"]))
            }

        eventually(used, "all panels show something", until=lambda titles: not titles)
    for dashboard in DASHBOARDS.values():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                server.query(filled(target["expr"]))


def filled(expression: str) -> str:
    """As Grafana fills in its variables, all chosen."""
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m"))
