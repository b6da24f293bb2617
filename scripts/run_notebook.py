"""Runs the code cells of a notebook in their order with plain Python: no Jupyter is needed.

    python scripts/run_notebook.py examples/spark/segments.ipynb

Cells with magics (`%`, `!`) are an error, as they would not be Python. The exit code is 1 when a
cell fails; the notebook's folder is on the path, as it is in Jupyter.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path


def code_cells(path: Path) -> list[str]:
    """The sources of the code cells. SystemExit if this is no notebook of format 4."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        sys.exit(f"{path}: {e}")
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        sys.exit(f"{path} is no notebook of format 4")
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [
        source if isinstance(source, str) else "".join(source)
        for source in (cell["source"] for cell in cells)
    ]


def run(path: Path) -> int:
    sys.path.insert(0, str(path.resolve().parent))
    names: dict[str, object] = {"__name__": "__main__"}
    for number, source in enumerate(code_cells(path), 1):
        print(f"--- cell {number}", flush=True)
        if any(line.lstrip().startswith(("%", "!")) for line in source.splitlines()):
            print(f"{path}: cell {number} has a magic: use plain Python", file=sys.stderr)
            return 1
        try:
            exec(compile(source, f"{path.name}, cell {number}", "exec"), names)
        except Exception:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(run(Path(sys.argv[1])))
