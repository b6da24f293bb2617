"""Queues with a place whose record is damaged: it stays blank, and everything else is found.

The header of a record has no checksum: a queue id that was damaged leads a record elsewhere, and
leaves a blank (0, 0x7FFFFFFF, 0) where its entry was. A blank says nothing about what lies before
or behind it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from tests.store.tools import (
    FOUND,
    TOO_SMALL,
    data,
    image,
    log_file,
    opened,
    overwrite,
    queue_entries,
)
from tests.store.waiting import settle
from tests.support.records import decode_records

FILE = 4096
COUNT = 101
OPTIONS: dict[str, Any] = {
    "commit_log_file_size": FILE,
    "file_reserved_time": 0,
    "delete_commit_log_files_interval": 0,
    "delete_file_batch_max": 1,
}
BLANK = (0, 0x7FFFFFFF, 0)


def blanked(folder: Path, places: Collection[int]) -> tuple[Path, list[int]]:
    """A kill image in which these messages of T-0 have another queue id; all store times."""
    with opened(folder / "live", **OPTIONS) as store:
        done = [store.put("T", 0, b"%05d" % n * 40) for n in range(COUNT)]
        settle(store)
        root = image(folder / "live", folder / "killed")
    (root / "checkpoint").unlink(missing_ok=True)
    for n in places:
        at = done[n][0]
        overwrite(log_file(root, at // FILE * FILE), at % FILE + 12, struct.pack(">i", 9))
    return root, [stored for *_, stored in done]


def read(store: Store) -> list[int]:
    """Numbers of all messages of the queue that are found."""
    offset, end = store.queue_range("T", 0)
    found = []
    while offset < end:
        result = store.get("T", 0, offset)
        assert result.next_offset > offset
        found += [int(r.body[:5]) for r in decode_records(data(result))]
        offset = result.next_offset
    return found


CASES = [
    pytest.param([50], id="middle"),
    pytest.param([9], id="end of a file"),
    pytest.param([10, 11, 12], id="three"),
    pytest.param([*range(45, 56)], id="more than a file"),
    pytest.param([1, 25, 50, 51, 75, 99], id="many"),
]


@pytest.mark.parametrize("places", CASES)
def test_the_others_are_found(tmp_path: Path, places: list[int]):
    root, _ = blanked(tmp_path, places)
    expected = [n for n in range(COUNT) if n not in places]
    for _ in range(3):
        with opened(root, **OPTIONS) as store:
            assert store.queue_range("T", 0) == (0, COUNT)
            assert read(store) == expected
    entries = queue_entries(root)
    assert [n for n, entry in enumerate(entries) if entry == BLANK] == places


@pytest.mark.parametrize("places", CASES)
def test_by_time(tmp_path: Path, places: list[int]):
    root, times = blanked(tmp_path, places)
    with opened(root, **OPTIONS) as store:
        offset = store.offset_by_time("T", 0, times[0])
        assert offset == 0
        assert store.offset_by_time("T", 0, times[-1] + 1) == COUNT
        for when in (times[3], times[30], times[60], times[90]):
            first = min(n for n in range(COUNT) if n not in places and times[n] >= when)
            assert store.offset_by_time("T", 0, when) <= first, "nothing is skipped"


@pytest.mark.parametrize("places", CASES)
def test_retention(tmp_path: Path, places: list[int]):
    """File by file; only what the log has no more disappears."""
    root, _ = blanked(tmp_path, places)
    with opened(root, **OPTIONS) as store:
        while True:
            settle(store)
            low = store.stats()["minPhyOffset"]
            left = [n for n, (at, *_) in enumerate(queue_entries_of(store)) if at >= low]
            expected = [n for n in left if n not in places]
            assert read(store) == expected
            assert store.queue_range("T", 0)[0] <= expected[0]
            if expected[0] > 0:
                assert store.get("T", 0, 0).status in (TOO_SMALL, FOUND)
            if store.clean(10_000_000_000_000, manual=True)["commitLog"] == 0:
                break
    assert low > 0


def queue_entries_of(store: Store) -> list[tuple[int]]:
    """Physical offsets by message: all records of this test have one size."""
    per_file = FILE // SIZE if (FILE % SIZE) >= 8 else FILE // SIZE - 1
    return [(n // per_file * FILE + n % per_file * SIZE,) for n in range(COUNT)]


SIZE = 91 + 200 + 1
"""Bytes of a record with 200 bytes of body and a topic of one."""


@pytest.mark.parametrize("places", CASES)
def test_a_torn_log_behind_it(tmp_path: Path, places: list[int]):
    """Entries of records that are lost go, also those before a blank."""
    root, _ = blanked(tmp_path, places)
    with opened(root, **OPTIONS) as store:
        entries = [at for (at,) in queue_entries_of(store)]
    keep = 47
    at = entries[keep]
    overwrite(log_file(root, at // FILE * FILE), at % FILE, bytes(FILE - at % FILE))
    for path in (root / "commitlog").iterdir():
        if int(path.name) > at:  # as a machine leaves files of which no page was written
            path.write_bytes(b"")
            os.truncate(path, FILE)
    (root / "abort").write_text("1")
    with opened(root, **OPTIONS) as store:
        expected = [n for n in range(keep) if n not in places]
        assert read(store) == expected
        low, high = store.queue_range("T", 0)
        assert low == 0
        assert expected[-1] + 1 <= high <= keep
        assert store.put("T", 0, b"%05d" % high * 40)[2] == high
        assert read(store) == [*expected, high]
