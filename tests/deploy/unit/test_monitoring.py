"""Dashboards and alert rules: what they name is there, and Grafana can read them."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pyrmq.deploy.files import files_of
from tests.deploy.unit.expressions import TABLE, faults, metrics_of

ROOT = Path(__file__).resolve().parents[3]
FILES = files_of("monitoring")
DASHBOARDS = {name: json.loads(text) for name, text in FILES.items() if name.endswith(".json")}
RULES = [
    rule for group in yaml.safe_load(FILES["alerts.yaml"])["groups"] for rule in group["rules"]
]
SCHEMA = json.loads(Path(__file__).with_name("grafana_dashboard.schema.json").read_text())
SHOWN = re.compile(r"\{\{\s*\$labels\.(\w+)")
LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def targets(dashboard: dict[str, Any]) -> list[tuple[str, str]]:
    """Expression and legend of each line of a dashboard."""
    return [
        (target["expr"], target["legendFormat"])
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]


def test_the_files() -> None:
    assert set(DASHBOARDS) == {
        f"grafana-{name}.json"
        for name in (
            "brokers", "clients", "ha", "namesrv", "topics-groups", "transactions-timers-pop",
        )
    }  # fmt: skip
    others = FILES.keys() - DASHBOARDS.keys()
    assert others == {"alerts.yaml", "prometheus.yaml", "grafana-dashboards.yaml"}
    uids = [dashboard["uid"] for dashboard in DASHBOARDS.values()]
    assert len(set(uids)) == len(uids)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_grafanas(name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(DASHBOARDS[name])


def test_the_schema_refuses_what_is_wrong() -> None:
    for change in (
        {"schemaVersion": "39"}, {"panel": []}, {"panels": [{"type": "graph"}]}, {"timezone": "x"},
    ):  # fmt: skip
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**DASHBOARDS["grafana-ha.json"], **change}, SCHEMA)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap(name: str) -> None:
    cells: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in DASHBOARDS[name]["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in DASHBOARDS[name]["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not own & cells, panel["title"]
        cells |= own


@pytest.mark.parametrize("name", DASHBOARDS)
def test_metrics_and_labels_of_a_dashboard_are_there(name: str) -> None:
    dashboard = DASHBOARDS[name]
    wrong = [
        f"{expr}: {fault}"
        for expr, legend in targets(dashboard)
        for fault in faults(expr, *LEGEND.findall(legend))
    ]
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            asked, _, label = variable["query"]["query"].removesuffix(")").rpartition(", ")
            wrong += faults(asked.removeprefix("label_values("), label.strip())
    used = set(re.findall(r"\$(\w+)", json.dumps(dashboard))) - {"__rate_interval", "__all"}
    assert used <= variables
    assert wrong == []


def test_every_metric_of_the_servers_is_shown() -> None:
    """Those that are not are named here, with what shows the same."""
    shown = {
        name
        for dashboard in DASHBOARDS.values()
        for expr, _ in targets(dashboard)
        for name in metrics_of(expr)
    }
    ends = re.compile(r"_(?:bucket|sum|count)$")
    missing = {ends.sub("", name) for name in TABLE} - {ends.sub("", n) for n in shown}
    assert missing == {
        "up", "pyrmq_build_info", "process_start_time_seconds", "process_virtual_memory_bytes",
        "python_gc_collections_total", "python_gc_objects_collected_total",
        "pyrmq_metrics_pages_total", "pyrmq_store_queues", "pyrmq_store_log_start_offset",
        "pyrmq_store_stall_seconds", "pyrmq_disk_free_bytes", "pyrmq_store_recovered_records",
        "pyrmq_store_recovered_bytes",
        # rocketmq_rpc_latency shows both requests
        "rocketmq_topic_create_execution_time", "rocketmq_consumer_group_create_execution_time",
    }  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule(rule: dict[str, Any]) -> None:
    told = rule["annotations"]
    assert set(told) == {"summary", "description", "runbook"}
    shown = {label for text in told.values() for label in SHOWN.findall(text)}
    assert faults(rule["expr"], *shown) == []
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_runbook_says_what_to_do(rule: dict[str, Any]) -> None:
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == rule["alert"].lower()
    text = (ROOT / path).read_text()
    section = re.search(rf"^### {rule['alert']}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    assert section is not None, f"{path} has no section {rule['alert']}"
    assert len(section[1].split()) >= 20


def test_no_runbook_is_of_an_alert_that_is_gone() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    assert re.findall(r"^### (Pyrmq\w+)$", text, re.M) == [rule["alert"] for rule in RULES]


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("rocketmq_messages_total > 0", "no metric rocketmq_messages_total"),
        ("pyrmq_store_send_seconds > 0", "no metric pyrmq_store_send_seconds"),
        ('up{cluster="a"} == 0', "up has no label cluster"),
        ('sum by (topics) (rate(rocketmq_messages_in_total{topic="T"}[5m]))', "no label topics"),
        ("pyrmq_ha_slaves unless on (role) pyrmq_store_failed", "no label role"),
        ("sum by (topic) (rocketmq_half_messages)", "the label instance is not there"),
    ],
)
def test_what_is_not_there_is_found(expression: str, fault: str) -> None:
    assert any(fault in found for found in faults(expression, "instance"))


def test_the_scraped_ports_are_the_defaults() -> None:
    config = yaml.safe_load(FILES["prometheus.yaml"])
    assert config["rule_files"] == ["alerts.yaml"]
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    ports = [t.rpartition(":")[2] for s in jobs["rocketmq"]["static_configs"] for t in s["targets"]]
    assert ports == ["5557", "5558"]


def test_the_dashboards_are_those_of_the_script() -> None:
    script = ROOT / "scripts" / "dashboards.py"
    if not script.exists() or importlib.util.find_spec("pyrmq.engine") is None:
        pytest.skip("this is no checkout")
    command = [sys.executable, str(script), "--check"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
