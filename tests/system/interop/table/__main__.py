"""Runs the comparison and writes the page; ends with 1 if a difference has no explanation."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from ..store import peer
from ..toolchain import BUILD
from .cases import EVERY, KINDS
from .compare import compare
from .page import PATH, page
from .run import CELLS, keep, kept, run

KEPT = BUILD / "mqadmin-table.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.system.interop.table")
    parser.add_argument("--again", action="store_true", help="compare what the last run has kept")
    parser.add_argument("--cell", action="append", type=int, help="run this cell alone, 0 to 3")
    parser.add_argument("--folder", type=Path, help="where servers and tools leave their files")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the most for a cell")
    given = parser.parse_args()
    said = kept(KEPT) if given.again or given.cell else {}
    if not given.again:
        folder = given.folder or Path(tempfile.mkdtemp(prefix="mqadmin-table-"))
        print(f"files are in {folder}", file=sys.stderr)
        cells = [CELLS[n] for n in given.cell or range(len(CELLS))]
        said |= run(EVERY, folder, cells, given.seconds)
        keep(said, KEPT)
    rows = {kind: compare(cases, said) for kind, cases in KINDS.items()}
    PATH.write_text(page(rows, peer.VERSION))
    failed = [row for some in rows.values() for row in some if row.problems]
    for row in failed:
        print(f"\n=== {row.case.line}", *row.problems, sep="\n")
    print(f"{len(EVERY)} commands, {len(failed)} with problems; written: {PATH}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
