"""Tag scans over a queue's entries, beside numpy and beside a plain read of the same bytes."""

from __future__ import annotations

import time
from array import array

import numpy as np
import pytest

from benches.stores import FULL
from pyrmq.engine import ENTRY_DTYPE, java_hash, scan_tags

ENTRIES = 4_000_000 if FULL else 1_000_000
CASES = [(1, 1), (1, 12), (1, 50), (3, 12), (20, 1), (20, 12), (20, 50)]


def entries(wanted: np.ndarray, percent: int) -> np.ndarray:
    """A queue of ENTRIES messages of which `percent` have one of the wanted tags, at random."""
    rng = np.random.default_rng(7)
    out = np.zeros(ENTRIES, dtype=ENTRY_DTYPE)
    out["physicalOffset"] = np.arange(ENTRIES) * 1200
    out["size"] = 1200
    others = np.array([java_hash(f"Other{i}") for i in range(50)])
    hit = rng.random(ENTRIES) < percent / 100
    out["tagsCode"] = np.where(hit, rng.choice(wanted, ENTRIES), rng.choice(others, ENTRIES))
    return out


def plain_read(table: np.ndarray) -> np.uint64:
    return np.bitwise_xor.reduce(table.view(np.uint8).view(np.uint64))


def by_numpy(table: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The fastest of several ways that were tried: 32 bits of each entry, still big-endian, made
    contiguous; one comparison for each tag while they are few."""
    low = np.ascontiguousarray(table.view(np.uint8).reshape(-1, 20)[:, 16:]).view(np.int32)[:, 0]
    swapped = wanted.astype(np.int32).byteswap()
    if len(wanted) > 8:
        return np.flatnonzero(np.isin(low, swapped))
    hit = low == swapped[0]
    for code in swapped[1:]:
        hit |= low == code
    return np.flatnonzero(hit)


@pytest.mark.parametrize(("tags", "percent"), CASES, ids=[f"{t}-tags-{p}pct" for t, p in CASES])
@pytest.mark.benchmark(group=f"tag scan, {ENTRIES:,} entries")
def test_tag_scan(tags, percent, paired, report) -> None:
    wanted = np.array([java_hash(f"Tag{i}") for i in range(tags)], dtype=np.int64)
    table = entries(wanted, percent)
    codes = array("i", wanted.tolist())
    out = np.zeros(ENTRIES, dtype=np.uint32)
    raw = table.view(np.uint8)
    found = scan_tags(raw, codes, out)
    assert np.array_equal(out[:found], by_numpy(table, wanted))
    reads = []

    def before() -> None:
        began = time.perf_counter()
        plain_read(table)
        reads.append(time.perf_counter() - began)

    result = paired(
        lambda: scan_tags(raw, codes, out),
        lambda: by_numpy(table, wanted),
        rounds=25,
        before=before,
    )
    ours = np.median(result.work)
    report(f"{result.speed:.1f} times numpy", ">= 3")
    report(f"{ours / np.median(reads):.2f} times a plain read", "<= 2")
    report(f"{result.cpu_ns(ENTRIES):.2f} ns an entry, {ENTRIES * 20 / ours / 1e9:.1f} GB/s")
