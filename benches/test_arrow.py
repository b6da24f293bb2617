"""Segments decoded to Arrow batches, beside memcpy of the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benches.spark.logs import write_log
from benches.stores import FULL
from pyrmq.engine import LogRange, SegmentReader, segment_end
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Wanted

SIZE = 1 << (30 if FULL else 28)
FORMS = {
    "default columns": {},
    "without properties": {"form": ReadOptions(properties="none")},
    "one column": {"form": ReadOptions(columns=("queueId",))},
    "one tag of eight": {"wanted": Wanted(tags=("tag-1",))},
    "bodies as views": {"form": ReadOptions(views=True)},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["1K", "100B"])
@pytest.mark.benchmark(group=f"decode to Arrow, one thread, {SIZE >> 20} MiB of log")
def test_decode(kind, form, paired, report, folder: Path) -> None:
    root = write_log(folder, kind, SIZE)
    log = next((root / "commitlog").iterdir())
    files = [(0, log.stat().st_size, str(log))]
    end, _ = segment_end(files)
    source = np.fromfile(log, dtype=np.uint8, count=end)
    target = source.copy()

    def decode() -> tuple[int, int]:
        reader = SegmentReader(LogRange(files, 0, end, exact=True), **FORMS[form])
        rows = 0
        while (batch := reader.next_batch()) is not None:
            rows += batch.num_rows
        return rows, reader.stats()["records"]

    def copy() -> None:
        target[:] = source

    rows, records = decode()
    result = paired(decode, copy, rounds=7)
    seconds = float(np.median(result.work))
    met = ">= 2" if kind == "1K" and form == "default columns" else ""
    report(f"{end / seconds / 1e9:.2f} GB/s of log", met)
    report(f"{result.speed:.2f} of memcpy, {result.cpu_ns(records):.0f} ns of CPU a record")
    report(f"{rows / seconds / 1e6:.2f} million rows/s")
