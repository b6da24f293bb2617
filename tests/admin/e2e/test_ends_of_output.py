"""Output that nobody reads, that does not fit, or that an encoding has no letters for; commands
that are interrupted; statuses that are watched. All as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.client import Client
from tests.support.command import PYRMQ, environment
from tests.support.server import ServerProcess

FORGED = "A\nFORGED broker-a 0 77"
MANY = 400
SECONDS = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("ends") / "store") as running:
        with Client(running.broker) as client:
            for number in range(MANY):
                properties = {"TAGS": FORGED if not number else "T"}
                body = "größer ".encode() * 20
                answer = client.send("Big", body, queue_id=0, properties=properties)
                assert answer.code == 0
        yield running


def _shell(server: ServerProcess, line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A line for bash in which `pyrmq` is ours; the exit code is that of its first command."""
    names = "{}:{}".format(*server.namesrv)
    return subprocess.run(
        ["bash", "-c", f'pyrmq() {{ {" ".join(PYRMQ)} "$@"; }}; {line}; exit ${{PIPESTATUS[0]}}'],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        env=environment(NAMESRV_ADDR=names, **env),
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    ["admin message print -t Big", "admin message print -t Big -o json",
     "admin message print -t Big -o yaml", "mqadmin printMsg -t Big", "admin topic list"],
)  # fmt: skip
def test_a_reader_that_has_enough(server: ServerProcess, command: str) -> None:
    ran = _shell(server, f"pyrmq {command} | head -1")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) == 1


def test_nobody_reads_errors(server: ServerProcess) -> None:
    ran = _shell(server, "pyrmq mqadmin updateTopic -t x -b 127.0.0.1:1 -c C 2>&1 | true")
    assert ran.returncode == 1


@pytest.mark.parametrize(
    "command",
    ["admin topic list", "admin topic list -o json", "mqadmin topicList", "mqadmin help",
     "admin message print -t Big"],
)  # fmt: skip
def test_a_full_disk(server: ServerProcess, command: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    ran = _shell(server, f"pyrmq {command} >/dev/full")
    assert ran.returncode == 2
    assert "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "command", ["admin topic list", "mqadmin topicList", "admin message print -t Big"]
)
def test_a_closed_output(server: ServerProcess, command: str) -> None:
    ran = _shell(server, f"pyrmq {command} >&-")
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 0


@pytest.mark.parametrize(
    "command",
    ["admin message print -t Big --limit 1", "admin message print -t Big --limit 1 -o json",
     "mqadmin consumeMessage -t Big -c 1"],
)  # fmt: skip
def test_letters_that_an_encoding_does_not_have(server: ServerProcess, command: str) -> None:
    ran = _shell(server, f"pyrmq {command}", PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "FORGED" in ran.stdout


def test_a_tag_begins_no_line(server: ServerProcess) -> None:
    ran = _shell(server, "pyrmq admin message print -t Big --limit 1")
    assert len(ran.stdout.splitlines()) == 1
    assert r"[A\nFORGED broker-a 0 77]" in ran.stdout


@contextmanager
def _started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command that is killed when it takes too long."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment(), **options
    ) as process:
        limit = threading.Timer(SECONDS, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()


def _read_until(stream: IO[str], what: str, times: int) -> None:
    """Until that many lines have it."""
    seen = 0
    while seen < times:
        line = stream.readline()
        assert line, f"it ended after {seen} of {times} times {what!r}"
        seen += what in line


def test_a_status_is_watched_through_failures(server: ServerProcess) -> None:
    """It ends with 130, and documents of YAML are told apart."""
    names = "127.0.0.1:1;{}:{}".format(*server.namesrv)
    command = [*PYRMQ, "admin", "topic", "status", "Nowhere", "--watch", "0.2", "-n", names]
    with _started(command, stderr=subprocess.PIPE) as watching:
        assert watching.stderr is not None
        _read_until(watching.stderr, "CODE 17", 2)
        watching.send_signal(signal.SIGINT)
        out, _ = watching.communicate(timeout=SECONDS)
    assert (watching.returncode, out) == (130, "")
    command = [*PYRMQ, "admin", "cluster", "list", "--watch", "0.2", "-o", "yaml", "-n", names]
    with _started(command) as watching:
        assert watching.stdout is not None
        _read_until(watching.stdout, "---\n", 2)
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=SECONDS)
    assert watching.returncode == 130


def test_interrupted_before_it_began() -> None:
    """Ctrl-C while modules are still imported."""
    code = (
        "import signal, os, pyrmq.cli as c\n"
        "class T(c.click.Command):\n"
        "    def invoke(self, ctx): os.kill(os.getpid(), signal.SIGINT)\n"
        "c.main.add_command(T('t'))\n"
        "c.main(['t'])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ},
    )  # fmt: skip
    assert ran.returncode == 130
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("option", ["--watch", "--timeout"])
def test_not_a_number_of_seconds(server: ServerProcess, option: str) -> None:
    ran = _shell(server, f"pyrmq admin cluster list {option} nan")
    assert ran.returncode == 1
    assert "'nan' is no number of seconds" in ran.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [("mqadmin HELP", 0), ("mqadmin Help topicList", 0), ("mqadmin -h topicList", 0),
     ("mqadmin topicList -n foo", 1), ("admin topic list -n foo", 1), ("admin --nonsense", 1)],
)  # fmt: skip
def test_exit_codes(server: ServerProcess, command: str, code: int) -> None:
    ran = _shell(server, f"pyrmq {command}")
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
