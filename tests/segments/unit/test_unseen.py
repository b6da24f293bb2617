"""A log that a task cannot see is no log that was deleted."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrmq.errors import DataLossError, SegmentOptionError, SegmentPathError
from pyrmq.segments.selection import Selection
from pyrmq.segments.stream import StreamPlanner
from tests.segments.making import BROKER, Made, read
from tests.segments.planning import HOW, copied, planned
from tests.store.tools import LOG_FILE, log_file, queue_files

HOST = socket.gethostname()
Hide = Callable[[Path], str]
"""Makes a store as a host without it has it; returns what the error names."""


def unmounted(root: Path) -> str:
    shutil.rmtree(root)
    return f"there is no folder {root} "


def without_log(root: Path) -> str:
    shutil.rmtree(root / "commitlog")
    return f"there is no folder {root}/commitlog "


def mount_point(root: Path) -> str:
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()
    return f"{root}/commitlog has no segments "


def older_copy(root: Path) -> str:
    for path in sorted((root / "commitlog").iterdir())[1:]:
        path.unlink()
    return f"the newest segment of {root}/commitlog is {0:020d} "


HIDDEN = [unmounted, without_log, mount_point, older_copy]


def stream(root: Path, **options: Any) -> StreamPlanner:
    return StreamPlanner([str(root)], Selection(), HOW, fail_on_data_loss=False, **options)


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("hide", HIDDEN, ids=lambda hide: hide.__name__)
@pytest.mark.parametrize("mode", ["scan", "index"])
def test_a_log_that_is_not_seen_is_an_error(
    made: Made, tmp_path: Path, mode: str, hide: Hide, fail: bool
) -> None:
    root = copied(made, tmp_path)
    splits = planned(root, topics=("C",), mode=mode, fail_on_data_loss=fail)
    assert splits[0].by_entries == (mode == "index")
    why = hide(root)
    with pytest.raises(SegmentPathError) as caught:
        read(splits)
    told = str(caught.value)
    assert f"is not there on host {HOST}: {why}" in told
    assert f"{root}/" in told
    assert "mount the store" in told
    assert "fail_on_data_loss" not in told


@pytest.mark.parametrize("hide", HIDDEN, ids=lambda hide: hide.__name__)
def test_a_stream_does_not_pass_what_is_not_seen(made: Made, tmp_path: Path, hide: Hide) -> None:
    root = copied(made, tmp_path)
    on = stream(root)
    start = on.initial()
    splits = on.splits(start, on.latest(start, max_bytes=3 * LOG_FILE))
    hide(root)
    with pytest.raises(SegmentPathError, match=HOST):
        read(splits)


def test_the_task_may_be_of_another_range_than_the_segments_there(
    made: Made, tmp_path: Path
) -> None:
    """Later segments show that the log is seen, but all of the batch is not there."""
    root = copied(made, tmp_path)
    on = stream(root)
    start = on.initial()
    splits = on.splits(start, on.latest(start, max_bytes=LOG_FILE))
    assert splits[-1].end <= 2 * LOG_FILE
    for base in (0, LOG_FILE):
        log_file(root, base).unlink()
    with pytest.raises(SegmentPathError, match="has nothing of bytes 0 to"):
        read(splits)


def test_a_checkpoint_does_not_pass_a_range_that_is_missing(made: Made, tmp_path: Path) -> None:
    """As at a restart, with a batch that was planned before."""
    root = copied(made, tmp_path)
    on = stream(root)
    start = on.initial()
    end = on.latest(start, max_bytes=LOG_FILE)
    last = end["log"][BROKER]
    for base in (0, LOG_FILE):
        log_file(root, base).unlink()
    with pytest.raises(DataLossError, match=f"all that is to be read, 0 to {last}") as caught:
        stream(root).splits(start, end)
    assert "fail_on_data_loss" not in str(caught.value), "it is set"
    behind = stream(root).latest(start)
    left = [row for row in made.of("A", "B", "C") if row[3] >= 2 * LOG_FILE]
    assert read(stream(root).splits(start, behind)) == left


@pytest.mark.parametrize("mode", ["scan", "index", "file"])
def test_what_is_deleted_is_left_out_if_that_may_be(
    made: Made, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = copied(made, tmp_path)
    splits = planned(root, topics=("C",), mode=mode, fail_on_data_loss=False)
    strict = planned(root, topics=("C",), mode=mode)
    for base in (0, LOG_FILE):
        log_file(root, base).unlink()
    assert read(splits) == [row for row in made.of("C") if row[3] >= 2 * LOG_FILE]
    assert "was deleted before it was read" in caplog.text
    with pytest.raises(DataLossError, match="fail_on_data_loss=False continues"):
        read(strict)


@pytest.mark.parametrize("fail", [True, False])
def test_queue_entries_are_not_taken_for_the_log(made: Made, tmp_path: Path, fail: bool) -> None:
    """The messages are there: they are not left out as deleted."""
    root = copied(made, tmp_path)
    splits = planned(root, topics=("C",), mode="index", fail_on_data_loss=fail)
    queue_files(root, "C", 0)[1].unlink()
    with pytest.raises(DataLossError, match="plan='scan' reads the log itself"):
        read(splits)


def test_a_queue_that_is_assigned_and_not_there(made: Made, tmp_path: Path) -> None:
    root = copied(made, tmp_path)
    assert planned(root, assign={"A": {BROKER: (0, 1)}})
    text = rf"assign: there is no queue 9 of topic A on broker {BROKER} \(it has 0, 1"
    wrong = {"A": {BROKER: (0, 9)}}
    with pytest.raises(SegmentOptionError, match=text):
        planned(root, assign=wrong)
    new = StreamPlanner([str(root)], Selection(assign=wrong), HOW)
    with pytest.raises(SegmentOptionError, match=text):
        new.initial()
    (root / "config").mkdir(exist_ok=True)
    rows = {"A": {"readQueueNums": 4, "writeQueueNums": 10}, "Empty": {"readQueueNums": 2}}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": rows}))
    assert planned(root, assign=wrong), "a queue may be empty"
    with pytest.raises(SegmentOptionError, match="no queue 16 of topic Empty"):
        planned(root, assign={"Empty": {BROKER: (1, 16)}})
    assert planned(root / "commitlog", assign=wrong), "nobody knows"
