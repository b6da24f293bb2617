"""A Prometheus of a test's own, on loopback."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.ports import free_port_triple, give_back
from tests.support.waiting import eventually
from tests.system.interop.prometheus.programs import program

START = 60.0
"""Seconds that a start may take."""


class Prometheus:
    """Asked by its HTTP API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def firing(self) -> dict[str, dict[str, Any]]:
        """The alerts that fire, by name."""
        alerts = self.ask("alerts")["alerts"]
        return {a["labels"]["alertname"]: a for a in alerts if a["state"] == "firing"}

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def query(self, expression: str) -> list[Any]:
        """The rows that an expression has now; HTTPError if it is none."""
        rows = self.ask("query?" + urlencode({"query": expression}))["result"]
        assert isinstance(rows, list)
        return rows

    def targets(self) -> list[str]:
        """How the targets are: up, down or unknown."""
        return [target["health"] for target in self.ask("targets")["activeTargets"]]


@contextmanager
def prometheus(config: Path, data: Path) -> Iterator[Prometheus]:
    """Missing, if there is no Prometheus here."""
    port = free_port_triple()
    command = [
        program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    log = data.with_suffix(".log")
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    server = Prometheus(port)
    try:
        eventually(lambda: server.ready() or process.poll() is not None, "it is ready", START)
        assert process.poll() is None, log.read_text()[-2000:]
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        give_back(port)
