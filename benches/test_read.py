"""Tag scans beside numpy on the same entries; pulls beside memcpy of the same bytes."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pytest

from pyrmq.engine import Store, java_hash, scan_tags

ENTRIES = 300_000
ENTRY = np.dtype([("phys", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])


def entries(tags: int) -> np.ndarray:
    """One queue file's worth of entries with `tags` different tags in turn."""
    out = np.zeros(ENTRIES, dtype=ENTRY)
    out["phys"] = np.arange(ENTRIES) * 1200
    out["size"] = 1200
    hashes = np.array([java_hash(f"Tag{i}") for i in range(tags)], dtype=np.int64)
    out["tags_code"] = hashes[np.arange(ENTRIES) % tags]
    return out


@pytest.mark.parametrize("wanted", [1, 4])
@pytest.mark.benchmark(group="tag scan, 300,000 entries")
def test_tag_scan(wanted, paired, report) -> None:
    table = entries(10)
    raw = table.tobytes()
    codes = array("i", [java_hash(f"Tag{i}") for i in range(wanted)])
    as_numpy = np.array(codes, dtype=np.int64)
    out = np.zeros(ENTRIES, dtype=np.uint32)

    def yardstick() -> np.ndarray:
        if wanted == 1:
            return np.flatnonzero(table["tags_code"] == as_numpy[0])
        return np.flatnonzero(np.isin(table["tags_code"], as_numpy))

    assert scan_tags(raw, codes, out) == len(yardstick())
    result = paired(lambda: scan_tags(raw, codes, out), yardstick, rounds=60)
    report(f"{result.speed:.1f} times numpy's speed")
    report(f"{result.cpu_ns(ENTRIES):.2f} ns an entry")


@pytest.mark.parametrize("body", [1024, 100])
@pytest.mark.benchmark(group="pull of 32 messages")
def test_pull(body, folder: Path, paired, report) -> None:
    store = Store(folder / "store", commit_log_file_size=64 << 20)
    for _ in range(20_000):
        store.put("T", 0, b"x" * body, "TAGS\x01TagA\x02")
    target = bytearray(256 * 1024)
    offset = 0

    def pull() -> None:
        nonlocal offset
        got = store.get("T", 0, offset, 32)
        offset = got.next_offset if got.next_offset < 19_000 else 0

    def yardstick() -> None:
        for piece in store.get("T", 0, offset, 32).slices:
            view = memoryview(piece)
            target[: len(view)] = view

    result = paired(pull, yardstick, rounds=500)
    report(f"{result.speed:.2f} times the speed of reading and copying the bodies")
    report(f"{result.cpu_ns(1):.0f} ns a pull of 32")
    store.close()
