"""Our alert rules in the real Prometheus: promtool takes them, and each fires and clears."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyrmq.deploy.files import write
from tests.system.interop import toolchain
from tests.system.interop.prometheus.cases import CASES, QUIET, Case
from tests.system.interop.prometheus.programs import program


@pytest.fixture(scope="module")
def promtool() -> str:
    try:
        return program("promtool")
    except toolchain.Missing as problem:
        if toolchain.required():
            pytest.fail(str(problem), pytrace=False)
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("rules")
    write("monitoring", where)
    return where


def run(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def alerts(folder: Path) -> list[str]:
    groups = yaml.safe_load((folder / "alerts.yaml").read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def promtool_test(name: str, case: Case, fires: bool) -> dict[str, Any]:
    """A test of promtool: of the series ALERTS, which has a row for each alert that fires."""
    expression = f'count(ALERTS{{alertname="{name}", alertstate="firing"}})'
    expected = [(case.good, 0), (case.fires, int(fires)), (case.clear, 0)]
    return {
        "name": f"{name} {'fires and clears' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.rows],
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": count}] if count else [],
            }
            for minute, count in expected
        ],
    }


def test_promtool_takes_rules_and_configuration(promtool: str, folder: Path) -> None:
    said = run(promtool, "check", "rules", str(folder / "alerts.yaml"))
    assert f"{len(CASES)} rules found" in said
    run(promtool, "check", "config", str(folder / "prometheus.yaml"))


def test_every_alert_has_a_case(folder: Path) -> None:
    assert list(CASES) == alerts(folder)
    assert QUIET.keys() <= CASES.keys()


def test_each_alert_fires_and_clears(promtool: str, folder: Path) -> None:
    tests = [promtool_test(name, case, True) for name, case in CASES.items()]
    tests += [promtool_test(name, case, False) for name, case in QUIET.items()]
    file = folder / "promtool.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    run(promtool, "test", "rules", str(file))


def test_a_rule_that_never_fires_is_found(promtool: str, folder: Path, tmp_path: Path) -> None:
    """The test before this one fails if an alert does not fire, and if one does not clear."""
    name = "PyrmqStoreFailed"
    for expression in ("pyrmq_store_failed == 2", "pyrmq_store_failed >= 0"):
        rule = {"alert": name, "expr": expression}
        rules = {"groups": [{"name": "g", "rules": [rule]}]}
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
        tests = {"rule_files": ["rules.yaml"], "tests": [promtool_test(name, CASES[name], True)]}
        (tmp_path / "promtool.yaml").write_text(yaml.safe_dump(tests))
        command = [promtool, "test", "rules", str(tmp_path / "promtool.yaml")]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 1
        assert "FAILED" in ran.stdout + ran.stderr
