"""Reads that are planned: splits of one or several stores, read one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyrmq.segments.plan import Split, plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import open_stores

from .rows import ALL, Row, from_arrow, in_order

MODES = ("scan", "file", "index", "auto")


def splits(
    paths: Sequence[Path | str],
    *,
    names: Sequence[str] = (),
    how: dict[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
    split_bytes: int = 256 << 20,
    mode: str = "auto",
    fail_on_data_loss: bool = True,
    **selection: Any,
) -> list[Split]:
    return plan(
        open_stores([str(path) for path in paths], names, storage_options),
        Selection(**{"include_system_topics": True, **selection}),
        ReadOptions(**{"columns": ALL, **(how or {})}),
        split_bytes=split_bytes,
        mode=mode,
        fail_on_data_loss=fail_on_data_loss,
    )


def read(paths: Sequence[Path | str], **options: Any) -> list[Row]:
    """All rows, in log order; each split is sent and read as Spark would."""
    import pickle

    rows = []
    for split in splits(paths, **options):
        sent = pickle.loads(pickle.dumps(split))
        rows += [row for batch in sent.read() for row in from_arrow(batch)]
    return in_order(rows) if rows and "commitLogOffset" in rows[0] else rows
