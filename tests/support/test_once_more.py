"""What failed is run once more, alone: what passes then refuses no change, all else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.once_more import MOST, VARIABLE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support import once_more

def pytest_configure(config):
    once_more.register(config)
"""
ONCE = """
from pathlib import Path

def first(name):
    there = Path(__file__).with_name(name)
    if there.exists():
        return False
    there.touch()
    return True
"""
GREEN = "def test_green(): pass\n"
FAILS_ONCE = f"{ONCE}\ndef test_chance():\n    assert not first('seen'), 'too slow'\n"
ALWAYS = "def test_fault():\n    assert 1 == 2, 'a fault'\n"
TEARDOWN = f"""{ONCE}
import pytest

@pytest.fixture
def place():
    yield
    assert not first('left'), 'still there'

def test_place(place): pass
"""
SKIPPED_THEN = f"""{ONCE}
import pytest

def test_skips():
    if first('skipped'):
        raise OSError
    pytest.skip('not here')
"""
CRASH_ONCE = (
    f"{ONCE}\nimport os\n\ndef test_crash():\n    if first('dead'): os.kill(os.getpid(), 9)\n"
)
NO_MODULE = "import no_such_module\n"
STOPS = "import pytest\n\ndef test_stops():\n    pytest.exit('stop', returncode=2)\n"
MANY = f"""{ONCE}
import pytest

@pytest.mark.parametrize('n', range({MOST + 1}))
def test_many(n):
    assert not first(f'many{{n}}')
"""


class Run:
    """One run of pytest over files with these texts."""

    def __init__(self, folder: Path, *texts: str, again: bool = True, workers: int = 0) -> None:
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")
        for number, text in enumerate(texts):
            (folder / f"test_{number}.py").write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: str(int(again))}
        for name in [n for n in environment if n.startswith("PYTEST_")]:
            del environment[name]
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # starts sooner
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"-n{workers}", "-p", "no:cacheprovider"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.code = ended.returncode
        self.text = ended.stdout
        self.closing = ended.stdout.rstrip().splitlines()[-1]
        self.again = "once more, alone" in ended.stdout


def test_all_green(tmp_path: Path) -> None:
    run = Run(tmp_path, GREEN)
    assert (run.code, run.again) == (0, False)
    assert "1 passed" in run.closing


@pytest.mark.parametrize("workers", [0, 2])
def test_what_fails_once_is_named_and_does_not_refuse(tmp_path: Path, workers: int) -> None:
    run = Run(tmp_path, GREEN, FAILS_ONCE, TEARDOWN, workers=workers)
    assert (run.code, run.again) == (0, True)
    assert "= FLAKY =" in run.text
    assert "FLAKY test_1.py::test_chance: passed alone" in run.text
    assert run.text.count("AssertionError: too slow") == 1, "why it failed first"
    assert "FLAKY test_2.py::test_place failed (teardown)" in run.text
    assert "2 passed" in run.closing, "one of them failed in its teardown"
    assert "2 flaky" in run.closing
    assert "failed" not in run.closing


def test_what_fails_twice_refuses(tmp_path: Path) -> None:
    """Whatever passes beside it; and what is skipped then has not passed."""
    run = Run(tmp_path, GREEN, FAILS_ONCE, ALWAYS, SKIPPED_THEN)
    assert (run.code, run.again) == (1, True)
    assert "FLAKY test_1.py::test_chance: passed alone" in run.text
    assert "FLAKY test_2.py" not in run.text
    assert "FLAKY test_3.py" not in run.text
    assert "2 failed, 1 passed" in run.closing
    assert "1 flaky" in run.closing


@pytest.mark.parametrize("text", [NO_MODULE, STOPS, CRASH_ONCE], ids=["collect", "stop", "crash"])
def test_what_is_more_than_a_failure_refuses_at_once(tmp_path: Path, text: str) -> None:
    run = Run(tmp_path, GREEN, text, workers=2)
    assert run.code != 0
    assert (run.again, "FLAKY" in run.text) == (False, False)


def test_too_many_are_not_chance(tmp_path: Path) -> None:
    run = Run(tmp_path, MANY)
    assert (run.code, run.again) == (1, False)
    assert f"{MOST + 1} failed" in run.closing


def test_only_where_it_is_asked_for(tmp_path: Path) -> None:
    run = Run(tmp_path, FAILS_ONCE, again=False)
    assert (run.code, run.again) == (1, False)
