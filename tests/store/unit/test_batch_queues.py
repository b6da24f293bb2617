"""Queues of topics with queue.type BatchCQ: 46 bytes an entry, found by message offset."""

from __future__ import annotations

import shutil
import struct
import time
from array import array
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from tests.store.tools import (
    FOUND,
    NO_MATCH,
    NO_MESSAGE,
    OVERFLOW_BADLY,
    OVERFLOW_ONE,
    TOO_SMALL,
    bodies,
    contents,
    data,
    image,
    opened,
    overwrite,
)
from tests.store.waiting import settle
from tests.support.records import decode_records, java_hash

UNIT = struct.Struct(">qiqqqhii")
"""Physical offset, size, tags code, store time, first offset, count, -1, 0. [BatchConsumeQueue]"""
PER_FILE = 6
FILE = UNIT.size * PER_FILE
COUNT = 40
OPTIONS: dict[str, Any] = {
    "batch_queue_file_size": FILE,
    "commit_log_file_size": 4096,
    "file_reserved_time": 0,
    "delete_file_batch_max": 1000,
    "delete_commit_log_files_interval": 0,
}
KNOWN: dict[str, Any] = {**OPTIONS, "batch_topics": ["B"]}
TAGS = ["", "red", "CANCELLED"]

Put = tuple[int, int, int, int]
"""Physical offset, size, tag hash, store time."""


def declare(store: Store, topic: str = "B") -> None:
    store.set_topic(topic, read_queues=2, write_queues=2, batch=True)


def fill(store: Store, count: int = COUNT, first: int = 0) -> list[Put]:
    done = []
    for n in range(first, first + count):
        tag = TAGS[n % 3]
        text = f"TAGS\x01{tag}\x02" if tag else ""
        at, size, offset, stored = store.put("B", 1, b"%05d" % n * 50, text)
        assert offset == n
        done.append((at, size, java_hash(tag) if tag else 0, stored))
    return done


def batch_files(root: Path) -> list[Path]:
    return sorted((root / "batchconsumequeue" / "B" / "1").iterdir())


def expected_bytes(done: list[Put]) -> bytes:
    rows = [UNIT.pack(at, size, tag, stored, n, 1, -1, 0)
            for n, (at, size, tag, stored) in enumerate(done)]  # fmt: skip
    files = -(-len(rows) // PER_FILE)
    return b"".join(rows).ljust(files * FILE, b"\0")


def check(store: Store, first: int = 0, count: int = COUNT) -> None:
    assert store.queue_range("B", 1) == (first, count)
    assert bodies(store, "B", 1) == [b"%05d" % n * 50 for n in range(first, count)]


def test_the_bytes_on_disk(tmp_path: Path):
    assert UNIT.size == 46
    with opened(tmp_path, **OPTIONS) as store:
        declare(store)
        done = fill(store)
        check(store)
    files = batch_files(tmp_path)
    assert [path.name for path in files] == [f"{n * FILE:020d}" for n in range(7)]
    assert b"".join(path.read_bytes() for path in files) == expected_bytes(done)
    assert not (tmp_path / "consumequeue" / "B").exists()


def test_reading_from_every_offset(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        declare(store)
        result = store.get("B", 1, 0)
        assert (result.status, result.next_offset) == (NO_MESSAGE, 0)
        fill(store)
        for offset in range(COUNT):
            result = store.get("B", 1, offset)
            end = min(COUNT, (offset // PER_FILE + 1) * PER_FILE)
            assert (result.status, result.next_offset) == (FOUND, end)
            assert [r.queue_offset for r in decode_records(data(result))] == list(
                range(offset, end)
            )
            one = store.get("B", 1, offset, 1)
            assert (one.count, one.next_offset) == (1, offset + 1)
        for offset, place in [
            (-1, (TOO_SMALL, 0)), (COUNT, (OVERFLOW_ONE, COUNT)),
            (COUNT + 1, (OVERFLOW_BADLY, COUNT)), (2**63 - 1, (OVERFLOW_BADLY, COUNT)),
        ]:  # fmt: skip
            result = store.get("B", 1, offset)
            assert (result.status, result.next_offset) == place


def test_tags(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        declare(store)
        fill(store)
        for number, tag in enumerate([*TAGS[1:], "none"], 1):
            found, offset = [], 0
            while offset < COUNT:
                result = store.get("B", 1, offset, tags=array("i", [java_hash(tag)]))
                assert result.status in (FOUND, NO_MATCH)
                found += [r.queue_offset for r in decode_records(data(result))]
                offset = result.next_offset
            assert found == ([] if tag == "none" else [n for n in range(COUNT) if n % 3 == number])


def test_times(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        declare(store)
        times = []
        for n in range(20):
            times.append(fill(store, 1, n)[0][3])
            time.sleep(0.002)
        assert store.earliest_time("B", 1) == times[0]
        for when in range(times[0] - 2, times[-1] + 3):
            lower = sum(t < when for t in times)
            upper = max(sum(t <= when for t in times) - 1, 0)
            assert store.offset_by_time("B", 1, when) == lower
            assert store.offset_by_time("B", 1, when, upper=True) == upper


@pytest.mark.parametrize("options", [OPTIONS, KNOWN])
@pytest.mark.parametrize("killed", [False, True])
def test_reopening(tmp_path: Path, options: dict[str, Any], killed: bool):
    """Its folder says what kind of queue it is, whether the topic was named or not."""
    root = tmp_path / "live"
    with opened(root, **OPTIONS) as store:
        declare(store)
        done = fill(store)
        copy = image(root, tmp_path / "killed")
    root = copy if killed else root
    before = contents(root / "batchconsumequeue")
    with opened(root, **options) as store:
        check(store)
    assert contents(root / "batchconsumequeue") == before or killed
    with opened(root, **options) as store:
        done += fill(store, 9, COUNT)
        check(store, 0, COUNT + 9)
    with opened(root, **options) as store:
        check(store, 0, COUNT + 9)
    assert b"".join(path.read_bytes() for path in batch_files(root)) == expected_bytes(done)
    assert not (root / "consumequeue" / "B").exists()


@pytest.mark.parametrize("killed", [False, True])
def test_a_lost_folder_is_made_again(tmp_path: Path, killed: bool):
    """With the topic named, as nothing else says what kind of queue it had."""
    root = tmp_path / "live"
    with opened(root, **OPTIONS) as store:
        declare(store)
        done = fill(store)
        copy = image(root, tmp_path / "killed")
    root = copy if killed else root
    shutil.rmtree(root / "batchconsumequeue")
    with opened(root, **KNOWN) as store:
        check(store)
    assert b"".join(path.read_bytes() for path in batch_files(root)) == expected_bytes(done)
    assert not (root / "consumequeue" / "B").exists()


@pytest.mark.parametrize(
    ("killed", "file"), [(False, -1), (False, -3), (True, -1), (True, -3), (True, 0)]
)
def test_damaged_entries_are_made_again(tmp_path: Path, file: int, killed: bool):
    """A start looks at the last three files, as RocketMQ's does; without a checkpoint at all."""
    root = tmp_path / "live"
    with opened(root, **OPTIONS) as store:
        declare(store)
        done = fill(store)
        copy = image(root, tmp_path / "killed")
    root = copy if killed else root
    overwrite(batch_files(root)[file], 2 * UNIT.size, bytes(FILE - 2 * UNIT.size))
    if killed:
        (root / "checkpoint").unlink(missing_ok=True)
    with opened(root, **KNOWN) as store:
        check(store)
    assert b"".join(path.read_bytes() for path in batch_files(root)) == expected_bytes(done)


def test_beside_simple_queues(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        declare(store)
        for n in range(COUNT):
            fill(store, 1, n)
            assert store.put("S", 0, b"s%d" % n)[2] == n
        store.set_topic("S", read_queues=1, write_queues=1, batch=True)
        store.put("S", 0, b"its kind stays")
    with opened(tmp_path, **OPTIONS) as store:
        check(store)
        assert len(bodies(store, "S")) == COUNT + 1
        assert [queue[:2] for queue in store.queues()] == [("B", 1), ("S", 0)]
    assert not (tmp_path / "batchconsumequeue" / "S").exists()


def test_retention(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        declare(store)
        fill(store, 100)
        settle(store)
        done = store.clean(10_000_000_000_000, manual=True)
        low, high = store.queue_range("B", 1)
        assert 80 < low < high == 100
        assert done["consumeQueue"] == low // PER_FILE
        assert int(batch_files(tmp_path)[0].name) // FILE == low // PER_FILE
        check(store, low, 100)
        for offset in (0, low - 1):
            result = store.get("B", 1, offset)
            assert (result.status, result.next_offset) == (TOO_SMALL, low)
    for _ in range(2):
        with opened(tmp_path, **OPTIONS) as store:
            check(store, low, 100)
    with opened(image(tmp_path, tmp_path.parent / "copy"), **OPTIONS) as store:
        fill(store, 20, 100)
        check(store, low, 120)


def test_numbers_go_on_when_all_messages_are_gone(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        declare(store)
        fill(store, 8)
        for _ in range(40):
            store.put("S", 0, bytes(300))
        settle(store)
        store.clean(10_000_000_000_000, manual=True)
        assert store.queue_range("B", 1) == (8, 8)
    killed = image(tmp_path, tmp_path.parent / "killed")
    (killed / "abort").write_text("1")
    for root in (tmp_path, killed):
        with opened(root, **OPTIONS) as store:
            assert store.queue_range("B", 1) == (8, 8)
            fill(store, 1, 8)
            check(store, 8, 9)
