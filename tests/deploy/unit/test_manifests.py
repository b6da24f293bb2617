"""The Kubernetes manifests: their parts fit each other and the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pyrmq.cli import main
from pyrmq.deploy.files import files_of

FILES = {name: content.decode() for name, content in files_of("kubernetes").items()}
STOP = 25
"""Seconds that a stop may take after the drain."""
SETS = ["pyrmq-namesrv", "pyrmq-broker", "pyrmq-slave"]
Manifest = dict[str, Any]


def _documents() -> list[Manifest]:
    listed = yaml.safe_load(FILES["kustomization.yaml"])["resources"]
    return [doc for name in listed for doc in yaml.safe_load_all(FILES[name])]


def _of(kind: str, name: str) -> Manifest:
    (found,) = [d for d in _documents() if d["kind"] == kind and d["metadata"]["name"] == name]
    return found


def _pod(name: str) -> Manifest:
    pod: Manifest = _of("StatefulSet", name)["spec"]["template"]["spec"]
    return pod


def _container(name: str) -> Manifest:
    (container,) = _pod(name)["containers"]
    found: Manifest = container
    return found


def _values(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The configuration that the container of a StatefulSet has."""
    container = _container(name)
    command, _, path = container["args"]
    conf = tmp_path / Path(path).name
    conf.write_text(_of("ConfigMap", "pyrmq")["data"][conf.name])
    for variable in container.get("env", []):
        value = variable.get("value", "0").replace("$(POD_INDEX)", "0")
        monkeypatch.setenv(variable["name"], value)
    ran = CliRunner().invoke(main, [command, "-c", str(conf), "--print-config"])
    assert ran.exit_code == 0, ran.output
    return dict(line.partition("=")[::2] for line in ran.stdout.splitlines())


def test_each_file_is_a_resource() -> None:
    listed = yaml.safe_load(FILES["kustomization.yaml"])["resources"]
    assert {*listed, "kustomization.yaml"} == set(FILES)


@pytest.mark.parametrize("name", SETS)
def test_selectors_find_the_pods(name: str) -> None:
    spec = _of("StatefulSet", name)["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    service = _of("Service", spec["serviceName"])
    assert service["spec"]["selector"] == labels
    assert service["spec"]["clusterIP"] == "None"
    budget = _of("PodDisruptionBudget", name)
    assert budget["spec"]["selector"]["matchLabels"] == labels
    policy = _of("NetworkPolicy", "pyrmq")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("name", SETS)
def test_ports_are_those_of_the_configuration(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = _values(name, tmp_path, monkeypatch)
    ports = {p["name"]: p["containerPort"] for p in _container(name)["ports"]}
    assert str(ports["remoting"]) == values["listenPort"]
    assert str(ports["metrics"]) == values["metricsPromExporterPort"]
    assert (values["metricsExporterType"], values["metricsPromExporterHost"]) == (
        "PROM", "0.0.0.0",
    )  # fmt: skip
    service = _of("Service", name)["spec"]["ports"]
    assert {p["name"]: p["port"] for p in service} == ports
    if "haListenPort" in values:
        assert ports["ha"] == ports["remoting"] + 1
        assert ports["vip"] == ports["remoting"] - 2
    rules = _of("NetworkPolicy", "pyrmq")["spec"]["ingress"]
    assert set(ports.values()) <= {p["port"] for rule in rules for p in rule["ports"]}


def test_strangers_do_not_reach_the_ha_port() -> None:
    for rule in _of("NetworkPolicy", "pyrmq")["spec"]["ingress"]:
        if 10912 in [p["port"] for p in rule["ports"]]:
            assert rule["from"] == [
                {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "pyrmq"}}}
            ]


@pytest.mark.parametrize("name", SETS)
def test_probes(name: str) -> None:
    container = _container(name)
    paths = {
        probe: container[probe]["httpGet"] for probe in
        ("startupProbe", "livenessProbe", "readinessProbe")
    }  # fmt: skip
    assert {p: get["path"] for p, get in paths.items()} == {
        "startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz",
    }  # fmt: skip
    names = {p["name"] for p in container["ports"]}
    assert {get["port"] for get in paths.values()} <= names
    live = container["livenessProbe"]
    assert live["periodSeconds"] * live["failureThreshold"] >= 60
    start = container["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 120


@pytest.mark.parametrize("name", SETS)
def test_a_stop_has_the_time_to_drain(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = _values(name, tmp_path, monkeypatch)
    drain = int(values.get("drainTimeoutMillis", 0)) / 1000
    assert _pod(name)["terminationGracePeriodSeconds"] > drain + STOP
    # Routes are learnt every 30 s.
    assert _of("StatefulSet", name)["spec"]["minReadySeconds"] > 30


@pytest.mark.parametrize("name", SETS)
def test_a_pod_is_restricted(name: str) -> None:
    pod, container = _pod(name), _container(name)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    dockerfile = files_of("docker")["Dockerfile"].decode()
    assert f"USER {pod['securityContext']['runAsUser']}:" in dockerfile


@pytest.mark.parametrize("name", SETS)
def test_what_is_written_is_on_a_volume(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = _values(name, tmp_path, monkeypatch)
    spec, container = _of("StatefulSet", name)["spec"], _container(name)
    mounts = {m["name"]: m for m in container["volumeMounts"]}
    claims = {c["metadata"]["name"] for c in spec["volumeClaimTemplates"]}
    volumes = {v["name"] for v in spec["template"]["spec"]["volumes"]}
    assert set(mounts) == claims | volumes
    path = values.get("storePathRootDir") or values["kvConfigPath"]
    assert path.startswith(mounts["store"]["mountPath"] + "/")
    assert container["args"][2].startswith(mounts["conf"]["mountPath"] + "/")


@pytest.mark.parametrize("name", ["pyrmq-broker", "pyrmq-slave"])
def test_brokers_find_the_name_servers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = _values(name, tmp_path, monkeypatch)
    servers = _of("StatefulSet", "pyrmq-namesrv")["spec"]
    assert values["namesrvAddr"].split(";") == [
        f"pyrmq-namesrv-{n}.{servers['serviceName']}:9876" for n in range(servers["replicas"])
    ]


def test_each_master_has_a_slave_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = _values("pyrmq-broker", tmp_path, monkeypatch)
    slave = _values("pyrmq-slave", tmp_path, monkeypatch)
    assert master["brokerName"] == slave["brokerName"] == "broker-0"
    assert (master["brokerRole"], slave["brokerRole"]) == ("SYNC_MASTER", "SLAVE")
    assert (master["brokerId"], slave["brokerId"]) == ("0", "1")
    sets = [_of("StatefulSet", n)["spec"] for n in ("pyrmq-broker", "pyrmq-slave")]
    assert sets[0]["replicas"] == sets[1]["replicas"] >= 2
    assert sets[0]["volumeClaimTemplates"] == sets[1]["volumeClaimTemplates"]
    for one in sets:  # a variable would pin the role, and a promotion would be refused
        (container,) = one["template"]["spec"]["containers"]
        names = {v["name"] for v in container["env"]}
        assert names == {"POD_INDEX", "PYRMQ_BROKER_CONF_BROKER_NAME"}


@pytest.mark.thorough("needs a package of 22 MB: pip install kubernetes-validate")
def test_the_schemas_of_kubernetes() -> None:
    """Each member is one that Kubernetes knows."""
    validate = pytest.importorskip("kubernetes_validate")
    for document in _documents():
        validate.validate(document, "1.28", strict=True)
