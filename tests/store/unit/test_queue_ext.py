"""The extension files of queues: units on disk, tags found through them, recovery."""

from __future__ import annotations

import shutil
import struct
from array import array
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from tests.store.tools import (
    FOUND,
    NO_MATCH,
    bodies,
    contents,
    data,
    image,
    opened,
    overwrite,
    queue_entries,
)
from tests.store.waiting import settle
from tests.support.records import decode_records, java_hash

EXT_FILE = 170
"""Eight units of 20 bytes, then the four bytes that stay free, and six that nothing fits in."""
PER_FILE = 8
OPTIONS: dict[str, Any] = {
    "queue_ext": True,
    "queue_ext_file_size": EXT_FILE,
    "commit_log_file_size": 4096,
    "file_reserved_time": 0,
    "delete_file_batch_max": 1000,
    "delete_commit_log_files_interval": 0,
}
TAGS = ["", "red", "CANCELLED", "grün"]
COUNT = 45
LOWEST = -(1 << 63)

Put = tuple[int, int, int, int]
"""Physical offset, size, tag hash, store time."""


def fill(store: Store, count: int = COUNT, first: int = 0) -> list[Put]:
    done = []
    for n in range(first, first + count):
        tag = TAGS[n % 4]
        at, size, offset, stored = store.put(
            "T", 0, b"%05d" % n * 50, f"TAGS\x01{tag}\x02" if tag else ""
        )
        assert offset == n
        done.append((at, size, java_hash(tag) if tag else 0, stored))
    return done


def ext_files(root: Path) -> list[Path]:
    return sorted((root / "consumequeue_ext" / "T" / "0").iterdir())


def address(n: int) -> int:
    """Of the unit of message n, in a queue that had them from its start. [ConsumeQueueExt]"""
    return LOWEST + n // PER_FILE * EXT_FILE + n % PER_FILE * 20


def units(done: list[Put]) -> bytes:
    """The bytes of all files: i16 size, i64 tag code, i64 store time, i16 bitmap length."""
    raw = [struct.pack(">hqqh", 20, tag, stored, 0) for _, _, tag, stored in done]
    pages = [b"".join(raw[n : n + PER_FILE]) for n in range(0, len(raw), PER_FILE)]
    full = [page + b"\xff\xff" for page in pages[:-1]] + pages[-1:]
    return b"".join(page.ljust(EXT_FILE, b"\0") for page in full)


def by_tag(store: Store, tag: str, end: int = COUNT) -> list[int]:
    """Numbers of the messages with this tag, read with a filter."""
    found, offset = [], store.queue_range("T", 0)[0]
    while offset < end:
        result = store.get("T", 0, offset, tags=array("i", [java_hash(tag)]))
        assert result.status in (FOUND, NO_MATCH)
        found += [int(record.body[:5]) for record in decode_records(data(result))]
        offset = result.next_offset
    return found


def check(store: Store, first: int = 0, count: int = COUNT) -> None:
    assert store.queue_range("T", 0) == (first, count)
    assert bodies(store) == [b"%05d" % n * 50 for n in range(first, count)]
    for number, tag in enumerate(TAGS[1:], 1):
        expected = [n for n in range(first, count) if n % 4 == number]
        assert by_tag(store, tag, count) == expected, tag
    assert by_tag(store, "none", count) == []


def test_the_bytes_on_disk(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        done = fill(store)
        check(store)
    entries = queue_entries(tmp_path)
    assert entries == [(at, size, address(n)) for n, (at, size, *_) in enumerate(done)]
    assert all(code < -(1 << 31) for *_, code in entries)
    files = ext_files(tmp_path)
    assert [int(path.name) for path in files] == [n * EXT_FILE for n in range(6)]
    assert [len(path.name) for path in files] == [20] * 6
    assert b"".join(path.read_bytes() for path in files) == units(done)


@pytest.mark.parametrize("size", [4096, 164, 165, 183, 44])
def test_sizes_of_files(tmp_path: Path, size: int):
    options = {**OPTIONS, "queue_ext_file_size": size}
    for _ in range(2):
        with opened(tmp_path, **options) as store:
            if store.queue_range("T", 0)[1] == 0:
                fill(store)
            check(store)
    assert {path.stat().st_size for path in ext_files(tmp_path)} == {size}
    per_file = (size - 4) // 20
    assert len(ext_files(tmp_path)) == -(-COUNT // per_file)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("then", [True, False])
def test_reopening(tmp_path: Path, killed: bool, then: bool):
    """Also without the option: old entries are read through their units, new ones hold hashes."""
    root = tmp_path / "live"
    with opened(root, **OPTIONS) as store:
        done = fill(store)
        copy = image(root, tmp_path / "killed")
    root = copy if killed else root
    with opened(root, **{**OPTIONS, "queue_ext": then}) as store:
        check(store)
        done += fill(store, 10, COUNT)
        check(store, 0, COUNT + 10)
    codes = [code for *_, code in queue_entries(root)]
    assert codes[:COUNT] == [address(n) for n in range(COUNT)] or killed
    if then:
        assert len(set(codes)) == COUNT + 10
        assert all(code < -(1 << 31) for code in codes)
    elif not killed:
        assert codes[COUNT:] == [tag for *_, tag, _ in done[COUNT:]]
    for again in (then, not then):
        with opened(root, **{**OPTIONS, "queue_ext": again}) as store:
            check(store, 0, COUNT + 10)


def test_switched_on_later(tmp_path: Path):
    with opened(tmp_path, **{**OPTIONS, "queue_ext": False}) as store:
        done = fill(store, 20)
    assert not (tmp_path / "consumequeue_ext").exists()
    with opened(tmp_path, **OPTIONS) as store:
        done += fill(store, 25, 20)
        check(store)
    codes = [code for *_, code in queue_entries(tmp_path)]
    assert codes == [tag for *_, tag, _ in done[:20]] + [address(n) for n in range(25)]
    with opened(tmp_path, **OPTIONS) as store:
        check(store)


@pytest.mark.parametrize("damage", ["no folder", "one file", "zeros", "noise"])
@pytest.mark.parametrize("killed", [False, True])
def test_lost_units_are_made_again(tmp_path: Path, damage: str, killed: bool):
    """What is no file of units any more is rebuilt from the log with the queue."""
    with opened(tmp_path / "live", **OPTIONS) as store:
        fill(store)
        copy = image(tmp_path / "live", tmp_path / "killed")
    root = copy if killed else tmp_path / "live"
    if damage == "no folder":
        shutil.rmtree(root / "consumequeue_ext")
    elif damage == "one file":
        ext_files(root)[-1].unlink()
    else:
        content = {"zeros": bytes(EXT_FILE), "noise": b"\x7e" * 100}[damage]
        overwrite(ext_files(root)[-1], 0, content)
    for _ in range(2):
        with opened(root, **OPTIONS) as store:
            check(store)
    with opened(root, **OPTIONS) as store:
        fill(store, 5, COUNT)
        check(store, 0, COUNT + 5)


def test_retention_takes_units_along(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        fill(store, 100)
        settle(store)
        before = len(ext_files(tmp_path))
        done = store.clean(10_000_000_000_000, manual=True)
        low, high = store.queue_range("T", 0)
        assert 85 < low < high == 100
        left = [int(path.name) // EXT_FILE for path in ext_files(tmp_path)]
        # The first queue file that is left begins with message 80 or 90.
        assert left == list(range(low // 10 * 10 // PER_FILE, before))
        assert done["consumeQueue"] == low // 10 + before - len(left)
        check(store, low, 100)
    for _ in range(2):
        with opened(tmp_path, **OPTIONS) as store:
            check(store, low, 100)
    with opened(image(tmp_path, tmp_path.parent / "copy"), **OPTIONS) as store:
        fill(store, 30, 100)
        check(store, low, 130)


def test_a_torn_log_cuts_units(tmp_path: Path):
    """Units of entries that are dropped give their places to the next ones."""
    with opened(tmp_path / "live", **OPTIONS) as store:
        done = fill(store)
        killed = image(tmp_path / "live", tmp_path / "killed")
    at = done[-3][0]
    path = killed / "commitlog" / f"{at // 4096 * 4096:020d}"
    overwrite(path, at % 4096, bytes(4096 - at % 4096))
    for later in (killed / "commitlog").iterdir():
        if int(later.name) > at:
            later.unlink()
    with opened(killed, **OPTIONS) as store:
        check(store, 0, COUNT - 3)
        fill(store, 3, COUNT - 3)
        check(store)
    codes = [code for *_, code in queue_entries(killed)]
    assert len(codes) == COUNT
    assert codes == sorted(set(codes))
    assert codes[-1] == address(COUNT - 1)


def test_untouched_by_a_clean_reopening(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        fill(store)
    before = {name: contents(tmp_path / name) for name in ("consumequeue", "consumequeue_ext")}
    for ext in (True, False, True):
        with opened(tmp_path, **{**OPTIONS, "queue_ext": ext}) as store:
            check(store)
        assert {name: contents(tmp_path / name) for name in before} == before
