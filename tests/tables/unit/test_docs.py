"""The program of docs/tables.md that opens the embedded catalog without pyrmq."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tables.making import Log, World, write

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"


def test_other_programs_open_the_embedded_catalog(world: World, log: Log) -> None:
    write(world, log)
    page = PAGE.read_text(encoding="utf-8")
    block = next(b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "/lake/" in b)
    text = block.replace("/lake/", f"{world.folder}/catalog/").replace("queueId = 3", "queueId = 1")
    assert text.rstrip().endswith(".to_arrow()")
    *first, last = text.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(first), names)
    assert eval(last, names).num_rows == 20
