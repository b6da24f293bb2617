"""The view of a queue's entries: fields, bounds, no copy, and selecting tags on it."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pytest

from pyrmq.engine import ENTRY_DTYPE, Slice, Store, scan_tags
from tests.store.tools import opened, queue_entries
from tests.support.records import java_hash

TAGS = ["", "red", "CANCELLED", "grün"]


def fill(store: Store, count: int) -> list[tuple[int, int, int]]:
    """Messages with four kinds of tags; what their entries must be."""
    expected = []
    for n in range(count):
        tag = TAGS[n % 4]
        at, size, *_ = store.put("T", 0, bytes(n), f"TAGS\x01{tag}\x02" if tag else "")
        expected.append((at, size, java_hash(tag) if tag else 0))
    return expected


def test_fields(tmp_path: Path):
    with opened(tmp_path) as store:
        expected = fill(store, 10)
        first, view = store.entries("T", 0)
        assert (first, view.tolist()) == (0, expected)
        assert view.dtype == np.dtype(ENTRY_DTYPE)
        assert view.dtype.itemsize == 20
        assert [view.dtype[n].str for n in range(3)] == [">i8", ">i4", ">i8"]
        assert view.dtype.names == ("physicalOffset", "size", "tagsCode")
        assert int(view["size"].sum()) == store.stats()["maxPhyOffset"]
    assert view.tobytes() == (tmp_path / "consumequeue/T/0" / f"{0:020d}").read_bytes()


def test_from_every_offset(tmp_path: Path):
    """To the end of the offset's file; files have ten entries."""
    with opened(tmp_path) as store:
        expected = fill(store, 34)
        for offset in range(34):
            first, view = store.entries("T", 0, offset)
            end = min(34, (offset // 10 + 1) * 10)
            assert (first, view.tolist()) == (offset, expected[offset:end])
        for offset in (-1, -(2**63), 34, 35, 2**62, 2**63 - 1):
            first, view = store.entries("T", 0, offset)
            assert (first, view.size, view.dtype.itemsize) == (offset, 0, 20)
        for topic, queue_id in (("T", 1), ("U", 0), ("T", 2**32 - 1)):
            assert store.entries(topic, queue_id)[1].size == 0
        gone_on, offset = [], 0
        while (view := store.entries("T", 0, offset)[1]).size:
            gone_on += view.tolist()
            offset += len(view)
        assert gone_on == expected == queue_entries(tmp_path)


def test_no_copy(tmp_path: Path):
    with opened(tmp_path) as store:
        fill(store, 5)
        _, view = store.entries("T", 0)
        _, again = store.entries("T", 0)
        assert view.__array_interface__["data"] == again.__array_interface__["data"]
        owner = view.base
        while not isinstance(owner, Slice):
            assert owner is not None, "the array owns its memory: it was copied"
            owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
        assert len(owner) == 5 * 20
        assert not view.flags.owndata


def test_read_only(tmp_path: Path):
    with opened(tmp_path) as store:
        fill(store, 5)
        _, view = store.entries("T", 0)
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view["size"][0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True


def test_later_entries_are_not_seen(tmp_path: Path):
    with opened(tmp_path) as store:
        expected = fill(store, 4)
        _, view = store.entries("T", 0)
        fill(store, 30)
        assert view.tolist() == expected
    assert view.tolist() == expected


def test_only_what_consumers_may_see(tmp_path: Path):
    """With SYNC_FLUSH an entry is shown once its record is on disk."""
    with opened(tmp_path, sync_flush=True) as store:
        for n in range(300):
            store.put("T", 0, bytes(100))
            _, end = store.queue_range("T", 0)
            first, view = store.entries("T", 0, n // 10 * 10)
            flushed = store.flushed()
            assert all(at + size <= flushed for at, size, _ in view.tolist())
            assert first + len(view) >= min(end, n // 10 * 10)


def test_tags_are_found_on_it(tmp_path: Path):
    with opened(tmp_path, consume_queue_file_size=20 * 1000) as store:
        fill(store, 1000)
        _, view = store.entries("T", 0)
        for wanted in (["red"], ["CANCELLED", "grün"], TAGS[1:], ["none"], []):
            hashes = array("i", map(java_hash, wanted))
            out = np.zeros(1000, np.uint32)
            count = scan_tags(view, hashes, out)
            expected = np.flatnonzero(np.isin(view["tagsCode"].astype(np.int32), hashes))
            assert out[:count].tolist() == expected.tolist()
            assert count == 250 * len([tag for tag in wanted if tag in TAGS])
        few = np.zeros(7, np.uint32)
        assert scan_tags(view[3:], array("i", [java_hash("red")]), few) == 7
        assert few.tolist() == [4 * n + 2 for n in range(7)]


def test_of_a_batch_queue_there_is_none(tmp_path: Path):
    """Its entries have another layout."""
    with opened(tmp_path) as store:
        store.set_topic("B", read_queues=1, write_queues=1, batch=True)
        store.put("B", 0, b"b")
        assert store.entries("B", 0)[1].size == 0
        assert store.queue_range("B", 0) == (0, 1)
