"""A broker enters messages into its queues while a read is planned: nothing falls in between."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrmq.segments import bounds, queues, stream_start
from pyrmq.segments.plan import plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import open_stores
from pyrmq.segments.stream import StreamPlanner
from tests.segments.making import BROKER, ROW, Made, read
from tests.store.tools import image

HOW = ReadOptions(columns=tuple(ROW))


def without_entries(root: Path, cut: int) -> None:
    """As before the messages from `cut` on were dispatched."""
    for path in (root / "consumequeue").rglob("0000*"):
        raw = bytearray(path.read_bytes())
        for at in range(0, len(raw), 20):
            if int.from_bytes(raw[at : at + 8], "big") >= cut:
                raw[at : at + 20] = bytes(20)
        path.write_bytes(raw)


def enter(made: Made, root: Path) -> None:
    """What the broker then does."""
    shutil.copytree(made.root / "consumequeue", root / "consumequeue", dirs_exist_ok=True)


def test_a_queue_that_comes_while_the_ends_of_others_are_read(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = image(made.root, tmp_path / BROKER)
    shutil.rmtree(root / "consumequeue" / "C")
    real = queues.end_place

    def entering(*args: Any) -> int:
        enter(made, root)
        return real(*args)

    monkeypatch.setattr(queues, "end_place", entering)
    splits = plan(open_stores([str(root)]), Selection(pattern="C"), HOW, mode="index")
    assert read(splits) == made.of("C")


@pytest.fixture
def behind(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[int, int], list[Any]]:
    """A store that enters all after its queues were looked at, how far they reached then, and
    what stands behind that."""
    root = image(made.root, tmp_path / BROKER)
    cut = made.rows[-200][3]
    without_entries(root, cut)

    def slow(real: Callable[..., Any]) -> Callable[..., Any]:
        def held(*args: Any) -> Any:
            found = real(*args)
            enter(made, root)
            return found

        return held

    monkeypatch.setattr(bounds, "queue_extents", slow(bounds.queue_extents))
    monkeypatch.setattr(stream_start, "queue_extents", slow(stream_start.queue_extents))
    expected = [row for row in made.of("A") if row[3] >= cut]
    reached = {q: min(row[2] for row in expected if row[1] == q) for q in range(4)}
    return root, reached, expected


def test_offsets_of_a_batch(behind: tuple[Path, dict[int, int], list[Any]]) -> None:
    root, reached, expected = behind
    chosen = Selection(topics=("A",), starting_offsets={"A": {BROKER: reached}})
    assert read(plan(open_stores([str(root)]), chosen, HOW, mode="scan")) == expected


def test_offsets_of_a_stream(behind: tuple[Path, dict[int, int], list[Any]]) -> None:
    root, reached, expected = behind
    chosen = Selection(topics=("A",), starting_offsets={"A": {BROKER: reached}})
    stream = StreamPlanner([str(root)], chosen, HOW)
    start = stream.initial()
    assert read(stream.splits(start, stream.latest(start))) == expected
