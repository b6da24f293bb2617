"""The floor of `pyrmq bench peers`, as a process, under the loads that it is measured with."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyrmq.bench.floor import command
from pyrmq.bench.options import Options
from pyrmq.bench.run import run


@contextmanager
def served(directory: Path, *, sync: bool = False) -> Iterator[str]:
    """Its address. It leaves nothing behind."""
    words = command(directory, sync=sync)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            name, _, port = process.stdout.readline().strip().partition(" ")
            assert name == "port"
            yield f"127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("sync", [False, True])
def test_every_load_is_answered(tmp_path: Path, sync: bool) -> None:
    loads: list[tuple[str, dict[str, Any]]] = [
        ("send", {"count": 2000, "connections": 1, "in_flight": 1}),
        ("send", {"count": 5000, "connections": 8, "in_flight": 128, "size": "3000"}),
        ("send", {"count": 3000, "connections": 300, "in_flight": 1}),
        ("send", {"count": 20, "connections": 1, "in_flight": 3, "size": "1000000"}),
        ("send", {"count": 100, "serialize": "rocketmq"}),
        ("batch", {"count": 3200, "batch": 32}),
    ]
    with served(tmp_path, sync=sync) as address:
        for load, options in loads:
            found = run(Options(load, address=address, **options))
            assert (found.messages, found.errors) == (options["count"], [])


def test_pulls_get_messages_without_an_end(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        found = run(Options("pull", address=address, count=32_000, in_flight=1))
    assert found.messages >= 32_000
    assert found.bytes == found.messages * 1024
    assert found.errors == []


def test_what_it_cannot_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = subprocess.run(command(file, sync=False), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"the floor: {file}: ")
    words = [sys.executable, "-m", "pyrmq.bench.floor", "--dir", str(tmp_path), "--port", "65536"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--port must be 0 to 65535" in done.stderr
