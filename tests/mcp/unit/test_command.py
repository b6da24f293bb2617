"""The command itself: what it says without the package, and with bad options."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from tests.support.command import PYRMQ, assert_refused, environment, run


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith("pyrmq.mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    result = CliRunner().invoke(main, ["mcp"])
    assert result.exit_code == 1
    assert "pip install 'pyrmq-broker[mcp]'" in result.output
    assert "mcp_types" in result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--call-timeout", "nan"], "no number of seconds"),
        (["-n", "nowhere:port:"], "nowhere"),
        (["--secret-key", "x"], "seen by all users"),
        (["--log-file", "/dev/null/x.log"], "/dev/null"),
    ],
)
def test_invalid_options(options: list[str], said: str) -> None:
    assert_refused(run("mcp", *options), said)


def test_without_stdin_or_stderr() -> None:
    closed = subprocess.run(
        [*PYRMQ, "mcp", "-n", "127.0.0.1:1"], preexec_fn=lambda: os.close(0),
        capture_output=True, env=environment(), check=False,
    )  # fmt: skip
    assert (closed.returncode, closed.stdout) == (1, b"")
    assert b"stdin is closed" in closed.stderr
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    silent = subprocess.run(
        [*PYRMQ, "mcp", "-n", "127.0.0.1:1"], preexec_fn=lambda: os.close(2), input=ping,
        stdout=subprocess.PIPE, env=environment(), check=False,
    )  # fmt: skip
    assert silent.returncode == 0
    assert json.loads(silent.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
