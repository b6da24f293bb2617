"""The Dockerfile and the Compose file: their parts fit each other and the configuration."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pyrmq.cli import main
from pyrmq.config.files import parse_properties
from pyrmq.deploy.files import files_of
from pyrmq.version import __version__

DOCKERFILE = files_of("docker")["Dockerfile"].decode()
COMPOSE = {name: content.decode() for name, content in files_of("compose").items()}
STOP = 25
"""Seconds that a stop may take after the drain."""


def _instructions() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, with continued lines joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    stages: list[list[tuple[str, str]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "FROM" or not stages:
            stages.append([])
        stages[-1].append((name, rest.strip()))
    return stages


def test_the_image_is_small_and_not_root() -> None:
    head, build, final = _instructions()
    assert head == [("ARG", "PYTHON=3.12")]
    base = "python:${PYTHON}-slim-bookworm"
    assert (build[0], final[0]) == (("FROM", f"{base} AS build"), ("FROM", base))
    assert [rest for name, rest in final if name == "COPY"] == [
        "--from=build /opt/pyrmq /opt/pyrmq"
    ]
    assert [rest for name, rest in final if name == "USER"] == ["10911:10911"]
    names = [name for name, _ in final]
    assert names.index("USER") > names.index("RUN")
    assert dict(final)["ENTRYPOINT"] == '["pyrmq"]'
    assert "pip uninstall" in dict(build)["RUN"]


def test_the_command_of_the_image_is_one() -> None:
    _, _, final = _instructions()
    words = yaml.safe_load(dict(final)["CMD"])
    ran = CliRunner().invoke(main, [*words, "--help"])
    assert ran.exit_code == 0


def test_the_steps_of_the_image_are_shell() -> None:
    for stage in _instructions():
        for name, rest in stage:
            if name == "RUN":
                assert all(shlex.split(step) for step in rest.split("&&"))


def test_only_the_wheel_goes_to_the_build() -> None:
    lines = files_of("docker")["dockerignore"].decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["*", "!dist/*.whl"]
    assert "COPY dist/*.whl" in DOCKERFILE


def _services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(COMPOSE["compose.yaml"])["services"]
    return services


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)(s|m)", text)
    assert found is not None
    return int(found[1]) * {"s": 1, "m": 60}[found[2]]


@pytest.mark.parametrize("name", ["broker-a", "broker-a-slave"])
def test_a_broker_of_compose(name: str, tmp_path: Path) -> None:
    service = _services()[name]
    (mounted,) = [v for v in service["volumes"] if v.startswith("./")]
    source, target, mode = mounted.split(":")
    assert (target, mode) == (service["command"][-1], "ro")
    text = COMPOSE[source.removeprefix("./")]
    conf = tmp_path / "broker.conf"
    conf.write_text(text)
    ran = CliRunner().invoke(main, [service["command"][0], "-c", str(conf), "--print-config"])
    assert ran.exit_code == 0, ran.output
    values = dict(line.partition("=")[::2] for line in ran.stdout.splitlines())
    port = values["listenPort"]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    names = [part.partition(":")[0] for part in values["namesrvAddr"].split(";")]
    assert names == service["depends_on"]
    (volume,) = [v for v in service["volumes"] if not v.startswith("./")]
    assert values["storePathRootDir"].startswith(volume.partition(":")[2] + "/")
    drain = int(values["drainTimeoutMillis"]) / 1000
    assert _seconds(service["stop_grace_period"]) > drain + STOP
    assert values["metricsExporterType"] == "PROM"


def test_the_pair_of_compose_is_one() -> None:
    master, slave = (
        parse_properties(COMPOSE[name]) for name in ("broker-a.conf", "broker-a-slave.conf")
    )
    assert master["brokerName"] == slave["brokerName"]
    assert (master["brokerRole"], slave["brokerRole"]) == ("SYNC_MASTER", "SLAVE")
    assert (master["brokerId"], slave["brokerId"]) == ("0", "1")


@pytest.mark.parametrize("name", ["namesrv-1", "namesrv-2", "broker-a", "broker-a-slave"])
def test_a_service_of_compose_may_do_little(name: str) -> None:
    service = _services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["image"] == f"${{PYRMQ_IMAGE:-pyrmq:{__version__}}}"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    kind, program, *words = service["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "pyrmq")
    assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0


def test_the_name_servers_of_compose(monkeypatch: pytest.MonkeyPatch) -> None:
    service = _services()["namesrv-1"]
    for variable, value in service["environment"].items():
        monkeypatch.setenv(variable, value)
    ran = CliRunner().invoke(main, [*service["command"], "--print-config"])
    assert ran.exit_code == 0, ran.output
    values = dict(line.partition("=")[::2] for line in ran.stdout.splitlines())
    (url,) = [w for w in service["healthcheck"]["test"] if w.startswith("http")]
    assert url == f"http://127.0.0.1:{values['metricsPromExporterPort']}/readyz"
    assert service["ports"] == [f"127.0.0.1:9876:{values['listenPort']}"]


def test_the_volumes_of_compose_are_declared() -> None:
    used = {
        volume.partition(":")[0]
        for service in _services().values()
        for volume in service["volumes"]
        if not volume.startswith("./")
    }
    assert used == set(yaml.safe_load(COMPOSE["compose.yaml"])["volumes"])
