"""Where a stream starts when queues and log do not reach as far, or begin late."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.stream import StreamPlanner
from tests.segments.making import BROKER, ROW, Made, put, read, small
from tests.store.tools import LOG_FILE, image, log_file

HOW = ReadOptions(columns=tuple(ROW))


def planner(root: Path, *, fail_on_data_loss: bool = True, **options: Any) -> StreamPlanner:
    return StreamPlanner(
        [str(root)], Selection(**options), HOW, fail_on_data_loss=fail_on_data_loss
    )


def all_from(stream: StreamPlanner, start: dict[str, Any]) -> list[tuple[Any, ...]]:
    return read(stream.splits(start, stream.latest(start)))


@pytest.mark.parametrize("others", [390, 400])
def test_an_offset_that_is_gone_starts_at_the_earliest(
    made: Made, tmp_path: Path, others: int
) -> None:
    root = image(made.root, tmp_path / BROKER)
    log_file(root, 0).unlink()
    first = {0: 3, 1: others, 2: others, 3: others}
    stream = planner(
        root,
        topics=("A",),
        starting_offsets={"A": {BROKER: first}},
        fail_on_data_loss=False,
    )
    left = [row for row in made.of("A") if row[3] >= LOG_FILE and row[2] >= first[row[1]]]
    assert left[0][1] == 0
    assert all_from(stream, stream.initial()) == left


def test_a_starting_time_is_a_position_and_no_filter(tmp_path: Path) -> None:
    """What comes later is read, whatever the clock of its broker says."""
    root = tmp_path / BROKER
    with small(root) as store:
        put(store, "A", 0, b"before")
        stream = planner(root, start_time=2**50, timestamp_strategy="latest")
        start = stream.initial()
        put(store, "A", 0, b"behind")
        assert [row[6] for row in all_from(stream, start)] == [b"behind"]
        assert stream.latest(start, max_offsets=1) == stream.latest(start)


@pytest.mark.parametrize("offset", [0, -2])
@pytest.mark.parametrize("others", [True, False])
def test_a_topic_whose_first_message_has_no_entry_yet(
    tmp_path: Path, offset: int, others: bool
) -> None:
    root = tmp_path / BROKER
    with small(root) as store:
        put(store, "A", 0, b"one")
        put(store, "New", 0, b"two")
    shutil.rmtree(root / "consumequeue" / "New")
    if not others:
        shutil.rmtree(root / "consumequeue" / "A")
    stream = planner(root, topics=("New",), starting_offsets={"New": {BROKER: {0: offset}}})
    assert [row[6] for row in all_from(stream, stream.initial())] == [b"two"]
