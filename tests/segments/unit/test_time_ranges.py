"""Ranges of store times inside of segments, beside the rows that a full read would keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyrmq
from tests.segments.making import BROKER, Made, as_rows, fill, rows_of
from tests.store.tools import image, opened

START = 1_700_000_000_000
SECOND = 1000


def timed(made: Made, root: Path, time: Callable[[int], int]) -> tuple[Path, list[tuple[int, Any]]]:
    """A copy whose records have the store times `time(number)`, and its users' rows with them."""
    image(made.root, root)
    rows = []
    logs = {int(path.name): path for path in (root / "commitlog").iterdir()}
    raw = {base: bytearray(path.read_bytes()) for base, path in logs.items()}
    every = sorted(
        row["commitLogOffset"]
        for row in pyrmq.scan(made.root, include_system_topics=True, columns=["commitLogOffset"])
        .to_arrow()
        .to_pylist()
    )
    times = {phys: START + time(number) for number, phys in enumerate(every)}
    for phys, stamp in times.items():
        base = max(b for b in raw if b <= phys)
        raw[base][phys - base + 56 : phys - base + 64] = stamp.to_bytes(8, "big")
    for base, path in logs.items():
        path.write_bytes(raw[base])
    rows = [(times[row[3]], row) for row in made.of("A", "B", "C")]
    return root, rows


def check(root: Path, rows: list[tuple[int, Any]], low: int, high: int) -> int:
    """Compares one range; returns how many bytes of log it reads."""
    scan = pyrmq.scan(root, start_time=low, end_time=high, plan="scan")
    assert as_rows(scan.to_arrow()) == [row for time, row in rows if low <= time < high]
    return sum(split.end - split.start for split in scan.splits)


@pytest.mark.parametrize("step", [1900, 60 * SECOND, 900 * SECOND])
def test_a_clock_that_was_set_back(made: Made, tmp_path: Path, step: int) -> None:
    """In the middle of the log."""
    half = len(rows_of_all(made)) // 2
    root, rows = timed(made, tmp_path / BROKER, lambda n: n * SECOND - (step if n > half else 0))
    edge = START + half * SECOND
    check(root, rows, edge - step // 2, edge + step // 2)
    check(root, rows, edge - step, edge + 1)


def rows_of_all(made: Made) -> list[Any]:
    scan = pyrmq.scan(made.root, include_system_topics=True, columns=["queueId"])
    return list(scan.to_arrow().to_pylist())


def test_many_messages_of_one_time(made: Made, tmp_path: Path) -> None:
    root, rows = timed(made, tmp_path / BROKER, lambda n: n // 700 * 10 * SECOND)
    for low, high in ((0, 10), (10, 20), (9, 11), (20, 30), (5, 6), (100, 200)):
        check(root, rows, START + low * SECOND, START + high * SECOND)


@pytest.mark.parametrize("at", [900, 2010, 3000])
def test_a_clock_that_was_set_back_inside_of_a_segment(tmp_path: Path, at: int) -> None:
    """No sample of the log shows it: times at both sides of the step are in order."""
    root = tmp_path / BROKER
    with opened(root, commit_log_file_size=4 << 20, consume_queue_file_size=20_000) as store:
        fill(store, 1200)
        made = Made(root, rows_of(store))
    copy, rows = timed(made, tmp_path / "copy", lambda n: (n - 60 * (n >= at)) * SECOND)
    low = START + (at - 40) * SECOND
    check(copy, rows, low, low + 20 * SECOND)
