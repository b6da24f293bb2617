"""Compares what the cells have said with the original on Apache RocketMQ's servers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .case import Case, Differs, Who
from .run import CELLS, Cell, Said

REFERENCE: Cell = (Who.THEIRS, Who.THEIRS)
SAME, ABSENT, NOT_RUN = "same", "absent", "not run"


@dataclass(slots=True)
class Row:
    """A case and, for each cell, `same`, `absent` or the differences."""

    case: Case
    ended: str = ""
    cells: dict[Cell, str | tuple[Differs, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def compare(cases: Sequence[Case], said: Said) -> list[Row]:
    """A row for each case; `problems` of a row fail the test."""
    return [_row(case, said) for case in cases]


def _row(case: Case, said: Said) -> Row:
    row = Row(case)
    texts = {cell: said[cell].get(case.line) for cell in CELLS}
    # Where the original does not offer a command, ours on Apache's servers is what ours is held to.
    base: Cell = (Who.OURS, Who.THEIRS) if texts[REFERENCE] is None else REFERENCE
    reference = texts[base]
    if reference is None:
        row.cells = dict.fromkeys(CELLS, ABSENT)
        return row
    row.ended = reference.splitlines()[0].removeprefix("ended: ")
    for cell, found in texts.items():
        if found is None:
            row.cells[cell] = _nothing(case, said, cell)
            continue
        meant = [n for n, one in enumerate(case.differs) if _applies(one, cell)]
        if found == reference:
            row.cells[cell] = SAME
            continue
        if not _equal(found, reference, (case.differs[n] for n in meant)):
            shown = [_after(text, (case.differs[n] for n in meant)) for text in (reference, found)]
            row.problems.append(f"{' on '.join(cell)} differs:\n{_diff(*shown)}")
        counted = [
            n
            for n in meant
            if not _equal(found, reference, (case.differs[m] for m in meant if m != n))
        ]
        # Where each would do alone, the first is the reason.
        row.cells[cell] = tuple(case.differs[n] for n in counted or meant[:1])
    return row


def _nothing(case: Case, said: Said, cell: Cell) -> str:
    return ABSENT if case.line in said[cell] else NOT_RUN


def _applies(one: Differs, cell: Cell) -> bool:
    tool, servers = cell
    return (tool if one.who == "tool" else servers) is Who.OURS


def _after(text: str, differs: Iterable[Differs]) -> str:
    for one in differs:
        text = re.sub(one.pattern, one.text, text, flags=re.MULTILINE)
    return text


def _equal(one: str, other: str, differs: Iterable[Differs]) -> bool:
    every = list(differs)
    return _after(one, every).split("\n") == _after(other, every).split("\n")


def _diff(reference: str, found: str) -> str:
    both = difflib.unified_diff(
        reference.splitlines(), found.splitlines(), "theirs on theirs", "this", lineterm="", n=0
    )
    return "\n".join(list(both)[:60])
