"""docs/mqadmin-table.md: the original mqadmin and ours, on both servers; see `table/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .store import peer
from .table.cases import EVERY, KINDS
from .table.compare import compare
from .table.page import PATH, shown
from .table.run import run


def test_the_page_has_every_case() -> None:
    lines = PATH.read_text().splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| `")]
    assert rows == [shown(case) for case in EVERY]


def test_the_page_explains_every_difference() -> None:
    assert "not explained" not in PATH.read_text()
    assert "not run" not in PATH.read_text()


def test_no_two_cases_have_one_line() -> None:
    assert len({case.line for case in EVERY}) == len(EVERY)


@pytest.mark.slow
@pytest.mark.thorough("240 commands, four times")
@pytest.mark.skipif(not peer.VERSION.startswith("5.3"), reason="the table is of 5.3")
def test_every_difference_is_explained(home: Path) -> None:
    said = run(EVERY, home / "table")
    rows = [row for cases in KINDS.values() for row in compare(cases, said)]
    problems = ["\n".join([row.case.line, *row.problems]) for row in rows if row.problems]
    assert not problems, "\n\n".join(problems)
