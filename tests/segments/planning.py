"""Plans of batch reads, for the tests of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.split import Split
from pyrmq.segments.store import open_stores
from tests.segments.making import BROKER, ROW, Made
from tests.store.tools import image

HOW = ReadOptions(columns=tuple(ROW))


def planned(made: Made | Path, how: ReadOptions = HOW, **options: Any) -> list[Split]:
    root = made if isinstance(made, Path) else made.root
    names = {"split_bytes", "min_partitions", "mode", "fail_on_data_loss"}
    of_plan = {name: options.pop(name) for name in names & options.keys()}
    return plan(open_stores([str(root)]), Selection(**options), how, **of_plan)


def copied(made: Made, tmp_path: Path) -> Path:
    return image(made.root, tmp_path / BROKER)
