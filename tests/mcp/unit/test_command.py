"""The command itself: what it says without the package, and with bad options."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from tests.support.command import assert_refused, run


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
