"""docs/limits.md has every bound there is, and every bound has a test that exists."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.unit.test_docs_tables import script as script

ROOT = Path(__file__).resolve().parents[3]
BOUND = re.compile(r"^(MAX_\w+|WAITING|\w+_WAITING)\b", re.MULTILINE)
SEVERAL = re.compile(r"^\w+, (\w+_WAITING) = ", re.MULTILINE)
SERVERS = ("net", "http", "metrics", "broker", "namesrv")


@pytest.fixture
def limits(script: ModuleType) -> ModuleType:
    found: ModuleType = script.limits
    return found


def test_every_bound_is_in_the_table(limits: ModuleType) -> None:
    """A constant of a server that sounds like a bound is one, or it is said why not."""
    known = {limit.place.partition("[")[0] for rows in limits.limits().values() for limit in rows}
    known |= limits.NO_LIMITS.keys()
    missing = []
    for folder in SERVERS:
        for path in sorted((ROOT / "pyrmq" / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for name in {*BOUND.findall(text), *SEVERAL.findall(text)}:
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                place = f"{module}:{name}"
                if place not in known:
                    missing.append(place)
    assert not missing, "a row of scripts/limits.txt, with a test, for each"


def test_every_bound_has_a_value_and_a_test(limits: ModuleType) -> None:
    for rows in limits.limits().values():
        for limit in rows:
            assert limit.value() > 0, limit.place
            file, _, name = limit.test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^\s*(async )?(def|fn) {name}\(", text, re.MULTILINE), limit.test


def test_no_bound_is_there_twice(limits: ModuleType) -> None:
    places = [limit.place for rows in limits.limits().values() for limit in rows]
    assert len(places) == len(set(places))


def test_a_line_that_is_no_row(limits: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "limits.txt").write_text("[both]\nabout | place\n")
    limits.__file__ = str(tmp_path / "limits.py")
    with pytest.raises(ValueError, match="about"):
        limits.limits()
