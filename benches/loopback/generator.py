"""One run of a load of `pyrmq bench`, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyrmq.bench.result import Result, read_result

from .harness import Broker, HarnessError

TIMEOUT = 15
"""Seconds until a request is given up."""
_NAMES = {"seconds": "duration", "body": "size"}
"""Options that `pyrmq bench` calls otherwise."""


def words(load: str, broker: Broker, options: Mapping[str, object], file: Path) -> list[str]:
    """The command. An option that is True is a switch."""
    made = [sys.executable, "-m", "pyrmq", "bench", load, "--address", broker.addr]
    made += ["--json", str(file), "--no-progress", "--on-error", "end", "--timeout", str(TIMEOUT)]
    if broker.pid is not None:
        made += ["--pid", str(broker.pid)]
    for name, value in options.items():
        made.append("--" + _NAMES.get(name, name).replace("_", "-"))
        if value is not True:
            made.append(f"{value:.9g}" if isinstance(value, float) else str(value))
    return made


def figures(found: Result) -> dict[str, Any]:
    """What a scenario and its JSON file need of a result."""
    latency, end = found.latency.get("request"), found.latency.get("commit")
    made: dict[str, Any] = {
        "load": found.load,
        "connections": found.settings["connections"],
        "in_flight": found.settings["in_flight"],
        "messages": found.messages,
        "requests": found.requests,
        "bytes": found.bytes,
        "refused": sum(error.count for error in found.errors),
        "first_refusal": f"{found.errors[0].name}: {found.errors[0].first}"
        if found.errors
        else None,
        "seconds": found.seconds,
        "rate": found.rate,
        "request_rate": found.request_rate,
        "p50_us": latency.p50 if latency else 0.0,
        "p99_us": latency.p99 if latency else 0.0,
        "p999_us": latency.p999 if latency else 0.0,
        "max_us": latency.max if latency else 0.0,
        "own_cpu_seconds": found.generator.cpu_seconds,
        "own_limit": found.generator.limit,
        "watched_cpu_seconds": found.servers[0].cpu_seconds if found.servers else None,
    }
    if end is not None:
        made |= {"end_p50_us": end.p50, "end_p99_us": end.p99}
    if found.verify is not None:
        made |= {"missing": found.verify.lost, "repeated": found.verify.twice}
    return made


def generate(
    load: str, broker: Broker, options: Mapping[str, object], limit: float = 120.0
) -> dict[str, Any]:
    """One run with `options` of `pyrmq bench` ("in_flight" is --in-flight).

    The broker's CPU time (`watched_cpu_seconds`) is that of the measured window. A run in which
    requests failed is returned with `refused` above 0; one that broke raises HarnessError.
    """
    with tempfile.TemporaryDirectory(prefix="pyrmq-bench-") as home:
        file = Path(home) / "result.json"
        command = words(load, broker, options, file)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            raise HarnessError(f"no result within {limit:g} s: {' '.join(command)}") from None
        if not file.is_file():
            raise HarnessError(f"{' '.join(command)}\n{done.stderr.strip()}")
        found = read_result(file)
    if found.ended == "error":
        raise HarnessError(f"{' '.join(command)}\n{found.why}")
    return figures(found)
