"""A forked process is what the same command started anew would be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.client import Client
from tests.support.forked import popen, run
from tests.support.server import ServerProcess

PYRMQ = [sys.executable, "-m", "pyrmq"]


@pytest.mark.parametrize(
    "words",
    [("--version",), ("server", "--nonsense"), ("config", "print"), ("admin", "topic"),
     ("admin", "topic", "list", "-n", "127.0.0.1:1")],
)  # fmt: skip
def test_it_does_the_same(words: tuple[str, ...]) -> None:
    mine = run([*PYRMQ, *words], capture_output=True, timeout=60)
    theirs = subprocess.run([*PYRMQ, *words], capture_output=True, timeout=60, check=False)
    assert (mine.returncode, mine.stdout, mine.stderr) == (
        theirs.returncode,
        theirs.stdout,
        theirs.stderr,
    )


def test_a_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store", own_group=True) as server:
        assert isinstance(server._process, forked._Forked)
        assert os.getpgid(server.pid) == server.pid != os.getpid()
        assert server._process.poll() is None
        with Client(server.broker) as client:
            assert client.send("T").code == 0
        names = {name for name in os.listdir(f"/proc/{server.pid}/fd") if int(name) < 3}
        assert names == {"0", "1", "2"}
        server.kill()
        assert not server.running
        server.start()
        with Client(server.broker) as client:
            assert client.max_offset("T", 0) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_how_it_ended(number: signal.Signals) -> None:
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    words = ["send", "-n", "127.0.0.1:1", "-t", "T"]
    mine, theirs = popen([*PYRMQ, *words], **options), subprocess.Popen([*PYRMQ, *words], **options)
    with mine, theirs:
        for process in (mine, theirs):
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5 if process is theirs else 0.01)
            process.send_signal(number)
        assert mine.wait(60) == theirs.wait(60)
        assert mine.poll() == mine.returncode


def test_its_surroundings(tmp_path: Path) -> None:
    """Folder, environment, standard input."""
    (tmp_path / "b.conf").write_text("brokerName=mine\n")
    words = ["broker", "-c", "b.conf", "-p"]
    env = {**os.environ, "NAMESRV_ADDR": "127.0.0.1:1234", "PYTHONUNBUFFERED": "1"}
    found = run([*PYRMQ, *words], capture_output=True, cwd=tmp_path, env=env, timeout=60, text=True)
    assert "brokerName=mine" in found.stdout
    assert "namesrvAddr=127.0.0.1:1234" in found.stdout
    sent = run([*PYRMQ, "send", "-n", "127.0.0.1:1", "-t", "T"], input=b"", timeout=60)
    assert sent.returncode == 0


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ([sys.executable, "-m", "platform"], {}),
        ([sys.executable, "-W", "error", "-m", "pyrmq"], {}),
        (PYRMQ, {"preexec_fn": os.getpid}),
        (PYRMQ, {"env": {**os.environ, "PYTHONHASHSEED": "1"}}),
        (PYRMQ, {"env": {**os.environ, "LD_PRELOAD": "x.so"}}),
    ],
    ids=["module", "option", "function", "python", "loader"],
)
def test_what_is_started_anew(command: list[str], options: dict[str, Any]) -> None:
    assert not forked._can_fork(command, options)
    assert forked._can_fork(PYRMQ, {"env": {**os.environ, "HOME": "/", "PYTHONUNBUFFERED": "1"}})
