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
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.slow

PYRMQ = [sys.executable, "-m", "pyrmq"]
UNBUFFERED = {**os.environ, "PYTHONUNBUFFERED": "1"}


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


@pytest.mark.parametrize("anew", [False, True])
def test_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: bool) -> None:
    if anew:
        monkeypatch.setenv("PYRMQ_FORKED", "0")
    with ServerProcess(tmp_path / "store", own_group=True) as server:
        assert isinstance(server._process, forked._Forked) is not (anew or THOROUGH)
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
def test_how_it_ended(number: signal.Signals, tmp_path: Path) -> None:
    codes = []
    for start in (popen, subprocess.Popen):
        words = ["server", "--store", str(tmp_path / start.__name__), "--namesrv-port", "0"]
        words += ["--broker-port", "0"]
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with start([*PYRMQ, *words], env=UNBUFFERED, **options) as process:
            assert process.poll() is None
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready ")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
            process.send_signal(number)
            codes.append(process.wait(60))
            assert process.poll() == process.returncode == codes[-1]
    assert codes[0] == codes[1] == (-9 if number is signal.SIGKILL else 0)


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
    other = {**os.environ, "HOME": "/", "PYTHONUNBUFFERED": "1"}
    assert forked._can_fork(PYRMQ, {"env": other}) is not THOROUGH
