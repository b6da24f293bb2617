"""docs/mqadmin-table.md: what the comparison has found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .case import Case, Differs
from .compare import ABSENT, NOT_RUN, Row
from .run import CELLS

PATH = Path(__file__).resolve().parents[4] / "docs" / "mqadmin-table.md"
HEAD = """\
# mqadmin: the original and ours, on both servers

`python -m tests.system.interop.table` writes this page; do not edit it. Each command is run four
times, with the original mqadmin of Apache RocketMQ {version} and with `pyrmq mqadmin`, on Apache
RocketMQ's name server and broker of that version and on `pyrmq server`. Before the first command
all servers are in the same state.

Compared are how a command ends and all that it prints on stdout, in the order of the lines and in
columns. The original on Apache RocketMQ's servers is what the others are compared with: its
column says how the command ended (`error` and RocketMQ's code, `failed` without a code, `usage`).
The other cells say `same`, or the number of a difference below the table; `absent` is a command
that the tool does not have.

Left out everywhere: times, ids that are made at run time, addresses, what is said here about
lines without an order, and blanks at the end of lines. `pyrmq mqadmin` ends every line with a
line end, prints failures on stderr in one line and ends with 1, 2 or 3 where it fails; the
original prints a stack trace and ends with 0. Both are counted as the same end when the code is
the same.

What a number names is not compared further: with "figures of the moment", orders and ids made at
run time that is all of the output, and only that the command ran stays compared by the other cells.
Commands that need a controller, RocksDB or static topics are not in the table; `-h` of every
command is compared with the original's options by `tests/admin/e2e/test_all_commands.py`.

The places of a command line are in braces: `{{broker}}` is the broker's address.
"""
KINDS = {
    "topics": "Topics",
    "clusters": "Clusters and brokers",
    "messages": "Messages",
    "groups": "Groups, offsets and connections",
    "namesrv": "Name server",
    "access": "Users and access lists",
    "exports": "Exports",
}
TITLES = "| Command | Original on Apache's | Ours on Apache's | Original on ours | Ours on ours |"
ORDER = [CELLS[3], CELLS[1], CELLS[2], CELLS[0]]


def page(kinds: Mapping[str, Sequence[Row]], version: str) -> str:
    """The page of rows by kind."""
    parts = [HEAD.format(version=version)]
    every = [row.cells[cell] for rows in kinds.values() for row in rows for cell in ORDER]
    open_cells = sum(found in (NOT_RUN, ()) for found in every)
    same = sum(found == "same" for found in every)
    parts.append(
        f"{len(every) // len(ORDER)} command lines, {len(every)} cells: {same} are the same.\n"
    )
    if open_cells:
        parts.append(f"Of {len(every)} cells, {open_cells} are not run or not explained yet.\n")
    for kind, rows in kinds.items():
        parts.append(_section(KINDS[kind], list(rows)))
    return "\n".join(parts)


def _section(title: str, rows: list[Row]) -> str:
    numbers: dict[str, int] = {}
    lines = [f"## {title}", TITLES, "|---|---|---|---|---|"]
    for row in rows:
        cells = [_cell(row, place, numbers) for place in range(len(ORDER))]
        lines.append(f"| {shown(row.case)} | {' | '.join(cells)} |")
    if numbers:
        lines.append("")
        lines += [f"{number}. {because}" for because, number in numbers.items()]
    return "\n".join([*lines, ""])


def shown(case: Case) -> str:
    """A command line in a cell of a table."""
    line = re.sub(r"\s+", " ", case.line.strip()).replace("|", "\\|")
    return f"`{line}`"


def _cell(row: Row, place: int, numbers: dict[str, int]) -> str:
    found = row.cells[ORDER[place]]
    if place == 0 and found not in (ABSENT, NOT_RUN):
        return row.ended
    if isinstance(found, str):
        return found
    return _numbered(found, numbers) if found else "**not explained**"


def _numbered(differs: Iterable[Differs], numbers: dict[str, int]) -> str:
    given = [numbers.setdefault(one.because, len(numbers) + 1) for one in differs]
    return ", ".join(str(number) for number in sorted(given))
