"""All loads with TLS, as the server's and the load's options want it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyrmq.bench.loads import config
from pyrmq.bench.options import OptionError, Options
from pyrmq.bench.result import BenchError, Result
from pyrmq.bench.run import run
from pyrmq.errors import ConnectError
from pyrmq.net.address import format_address
from pyrmq.net.client.tls import Tls
from tests.support.certificates import Authority
from tests.support.server import ServerProcess


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("bench-tls"))


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Brokers with plain connections closed and clients without certificates refused."""
    own = authority.issue("broker.example")
    conf = (
        f"tls.server.mode=enforcing\ntls.server.certPath={own.cert}\ntls.server.keyPath={own.key}\n"
        f"tls.server.need.client.auth=require\ntls.server.authClient=true\n"
        f"tls.server.trustCertPath={authority.file}\n"
    )
    with ServerProcess(tmp_path_factory.mktemp("bench-tls-store"), conf=conf) as process:
        yield format_address(process.broker)


@pytest.fixture(scope="module")
def tls(authority: Authority) -> Tls:
    mine = authority.issue("bench")
    return Tls(ca=authority.file, cert=mine.cert, key=mine.key, server_hostname="broker.example")


def measured(server: str, tls: Tls | None, load: str = "send", **options: object) -> Result:
    made = Options(load, address=server, topic=f"Bench{load}", count=320, tls=tls)
    return run(replace(made, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("load", ["send", "batch", "oneway", "latency", "transaction", "delay"])
def test_every_message_comes_back(server: str, tls: Tls, load: str) -> None:
    found = measured(server, tls, load, verify=True, rate=None, connections=3)
    assert found.verify is not None
    assert (found.verify.received, found.verify.lost, found.verify.twice) == (320, 0, 0)
    assert (found.messages, found.errors) == (320, [])
    assert found.settings["tls"] is True
    told = json.dumps(found.to_json())
    assert not any(str(path) in told for path in (tls.ca, tls.cert, tls.key))


@pytest.mark.parametrize("load", ["pull", "push"])
def test_what_is_there_is_read(server: str, tls: Tls, load: str) -> None:
    measured(server, tls, topic="BenchRead", size="30000")
    found = measured(server, tls, load, topic="BenchRead", from_start=load == "push")
    assert found.messages >= 320
    assert found.bytes == found.messages * 30_000


def test_a_server_that_is_not_trusted(
    server: str, tls: Tls, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    with pytest.raises(ConnectError):
        measured(server, replace(tls, ca=other.file))
    with pytest.raises(ConnectError):
        measured(server, replace(tls, server_hostname="other.example"))
    with pytest.raises(ConnectError):
        measured(server, None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"names": {}}, "not valid for name"),
        ({"own": None}, "(in the handshake of TLS)|lost: TLS: received fatal alert"),
    ],
)
def test_what_the_engine_refuses_by_itself(
    server: str, tls: Tls, change: dict[str, object], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(*arguments: Any) -> dict[str, Any]:
        made = config(*arguments)
        return made | {"tls": made["tls"] | change}

    monkeypatch.setattr("pyrmq.bench.run.config", changed)
    with pytest.raises(BenchError, match=why):
        measured(server, tls, on_error="end")


def test_embedded() -> None:
    found = run(Options("send", embedded=True, count=100, tls=Tls(insecure=True)))
    assert (found.messages, found.errors, found.settings["tls"]) == (100, [], True)


def test_a_certificate_that_nobody_can_verify() -> None:
    with pytest.raises(OptionError, match="use --tls-insecure"):
        Options("send", embedded=True, tls=Tls()).check()


def test_the_command_takes_the_options(server: str, tls: Tls, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    words = ["send", "--address", server, "--count", "50", "--json", str(result)]
    words += ["--tls-ca", str(tls.ca), "--tls-cert", str(tls.cert), "--tls-key", str(tls.key)]
    command = [sys.executable, "-m", "pyrmq", "bench", *words]
    done = subprocess.run([*command, "--tls-any-name"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(result.read_text())["settings"]["tls"] is True
    # The certificate has no such name: 127.0.0.1.
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "certificate is not for 127.0.0.1" in done.stderr
