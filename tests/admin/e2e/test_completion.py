"""Words that shells complete command lines with, as click's protocol asks for them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pyrmq.cli.mqadmin.table import COMMANDS


def _complete(*words: str) -> dict[str, str]:
    """What bash is told for a command line whose last word is to be completed: kinds by word."""
    env = {
        **os.environ,
        "_PYRMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("pyrmq", *words)),
        "COMP_CWORD": str(len(words)),
    }
    code = "from pyrmq.cli import main; main(prog_name='pyrmq')"
    done = subprocess.run([sys.executable, "-c", code], env=env, text=True, capture_output=True)
    assert done.stderr == ""
    said = [line.partition(",") for line in done.stdout.splitlines() if line]
    return {word: kind for kind, _, word in said}


def test_names_of_commands() -> None:
    assert set(_complete("mqadmin", "")) == {*COMMANDS, "help"}
    assert set(_complete("mqadmin", "topicl")) == {"topicList"}
    assert set(_complete("mqadmin", "help", "queryMsgByU")) == {"queryMsgByUniqueKey"}
    assert {"topic", "group", "broker"} <= set(_complete("admin", ""))
    assert "set-perm" in _complete("admin", "topic", "s")


def test_options_of_a_flat_command() -> None:
    found = _complete("mqadmin", "topicRoute", "--")
    assert set(found) == {"--topic", "--list", "--help", "--namesrvAddr"}
    assert {"-t", "--topic"} <= set(_complete("mqadmin", "topicRoute", "-"))
    assert set(_complete("mqadmin", "topicRoute", "-t", "T", "--l")) == {"--list"}
    assert "--topic" not in _complete("mqadmin", "topicRoute", "-t", "T", "--")
    assert _complete("mqadmin", "nonsense", "--") == {}


def test_values() -> None:
    words = ("mqadmin", "updateTopicList", "-f", "")
    assert list(_complete(*words).values()) == ["file"]
    assert list(_complete("mqadmin", "exportConfigs", "-f", "").values()) == ["dir"]
    assert set(_complete("mqadmin", "updateTopic", "-o", "")) == {"true", "false"}
    assert _complete("mqadmin", "topicRoute", "-t", "") == {}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str) -> None:
    code = f"from pyrmq.cli import main; main(['completion', '{shell}'], prog_name='pyrmq')"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert f"_PYRMQ_COMPLETE={shell}_complete" in done.stdout


def test_bash_takes_the_script() -> None:
    code = "from pyrmq.cli import main; main(['completion', 'bash'], prog_name='pyrmq')"
    script = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True).stdout
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "words", [["admin", "--help"], ["mqadmin"], ["admin", "topic", "--help"]], ids=" ".join
)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    heavy = {"trio", "numpy", "rich", "pyarrow", "pyrmq.engine", "pyrmq._native", "yaml"}
    code = f"""
import sys
from pyrmq.cli import main
try:
    main({words!r}, prog_name="pyrmq")
except SystemExit:
    pass
print("\\n" + ",".join(sorted({heavy!r} & set(sys.modules))))
"""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert done.stdout.splitlines()[-1] == "", done.stdout.splitlines()[-1]
