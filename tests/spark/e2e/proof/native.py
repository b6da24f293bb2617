"""The native reader as these tests call it: files of a folder in, rows out."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyrmq import engine
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Wanted

from .rows import Row, from_arrow

File = tuple[int, int, str]


def files_of(folder: Path) -> list[File]:
    """What the reader wants to know of a commit-log folder, in which files come and go."""
    found = []
    for path in sorted(folder.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            if size := path.stat().st_size:
                found.append((int(path.name), size, str(path)))
    return found


def end_of(files: Sequence[File], **options: Any) -> int:
    return engine.segment_end(files, **options)[0]


def batches(reader: engine.SegmentReader) -> list[pa.RecordBatch]:
    found = []
    while (batch := reader.next_batch()) is not None:
        made = pa.record_batch(batch)
        assert made.num_rows == batch.num_rows > 0
        made.validate(full=True)
        found.append(made)
    return found


def reader_of(
    files: Sequence[File], start: int, end: int, *, broker_name: str = "", **options: Any
) -> engine.SegmentReader:
    """A reader of [start, end); options are those of `LogRange`, `Wanted` and `ReadOptions`, or
    `positions` of records in that range."""
    where, wanted = (
        {name: options.pop(name) for name in names if name in options}
        for names in (("opener", "exact", "log_end", "positions"), [f.name for f in fields(Wanted)])
    )
    source: engine.LogRange | engine.LogPlaces
    if "positions" in where:
        source = engine.LogPlaces(files, **where)
    else:
        source = engine.LogRange(files, start, end, **where)
    options["columns"] = tuple(options.get("columns", ()))
    form = ReadOptions(**options)
    return engine.SegmentReader(source, Wanted(**wanted), form, broker_name=broker_name)


def read(files: Sequence[File], start: int, end: int, **options: Any) -> list[Row]:
    """The rows of [start, end), in the order in which they came."""
    reader = reader_of(files, start, end, **options)
    return [row for batch in batches(reader) for row in from_arrow(batch)]


def cuts(start: int, end: int, step: int) -> list[tuple[int, int]]:
    """Ranges of `step` bytes that cover [start, end)."""
    marks = [*range(start, end, step), end]
    return list(itertools.pairwise(marks))
