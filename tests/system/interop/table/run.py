"""The four runs, each on servers of its own in the same state."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from . import ran
from .case import Case, Who
from .state import prepared, servers
from .tools import Original, Ours, Runs, words_of

Cell = tuple[Who, Who]
"""Whose tool, on whose servers."""
CELLS: tuple[Cell, ...] = (
    (Who.OURS, Who.OURS),
    (Who.OURS, Who.THEIRS),
    (Who.THEIRS, Who.OURS),
    (Who.THEIRS, Who.THEIRS),
)
Said = dict[Cell, dict[str, str | None]]
"""What each line has said in each cell; None where the tool does not have the command."""


def run(
    cases: Sequence[Case],
    folder: Path,
    cells: Sequence[Cell] = CELLS,
    seconds: float = float("inf"),
) -> Said:
    """All cases in each of the cells; those that `seconds` for a cell do not reach are not run."""
    return {cell: _run(cases, cell, folder / "-on-".join(cell), seconds) for cell in cells}


def _run(cases: Sequence[Case], cell: Cell, folder: Path, seconds: float) -> dict[str, str | None]:
    tool, whose = cell
    said: dict[str, str | None] = {}
    files = folder / "files"
    files.mkdir(parents=True)
    with servers(whose, folder) as (namesrv, broker), prepared(namesrv, broker, files) as places:
        if tool is Who.OURS:
            _all(cases, Ours(folder / "tool"), places, said, seconds)
        else:
            with Original(folder / "tool") as original:
                _all(cases, original, places, said, seconds)
    return said


def _all(
    cases: Sequence[Case],
    tool: Runs,
    places: dict[str, str],
    said: dict[str, str | None],
    seconds: float,
) -> None:
    folder = Path(places["dir"])
    end = time.monotonic() + seconds
    for case in cases:
        if time.monotonic() > end:
            return
        for name, content in case.files.items():
            (folder / name).write_text(content)
        done = tool(case, words_of(case, places), places["namesrv"])
        if done is None:
            said[case.line] = None
            continue
        for name in case.shows:
            path = folder / name
            content = path.read_text() if path.exists() else "(not written)"
            done = ran.Ran(done.code, f"{done.out.rstrip()}\n{name}:\n{content}", done.err)
        said[case.line] = ran.text(case, done, places)
        with (folder.parent / "raw.txt").open("a") as raw:
            raw.write(f"=== {case.line} [{done.code}]\n{done.out}--- stderr\n{done.err[-1500:]}\n")


def keep(said: Said, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"-on-".join(cell): rows for cell, rows in said.items()}, indent=1))


def kept(path: Path) -> Said:
    """What the last run has kept; empty for cells that were never run."""
    rows = json.loads(path.read_text()) if path.exists() else {}
    return {cell: rows.get("-on-".join(cell), {}) for cell in CELLS}
