"""Zero-copy pieces of the log outlive the store, its folder, and each other."""

from __future__ import annotations

import ctypes
import gc
import shutil
from pathlib import Path

import numpy as np
import pytest

from pyrmq.engine import Slice
from tests.store.tools import data, image, open_store, opened
from tests.support.records import decode_records


def test_slices_stay_valid_after_close_and_removal(tmp_path: Path):
    store = open_store(tmp_path / "store", commit_log_file_size=4096)
    expected = [bytes([n]) * 300 for n in range(40)]
    for body in expected:
        store.put("T", 0, body)
    results, offset = [], 0
    while offset < 40:
        results.append(store.get("T", 0, offset))
        offset = results[-1].next_offset
    views = [memoryview(piece) for result in results for piece in result.slices]
    before = b"".join(data(result) for result in results)
    store.close()
    shutil.rmtree(tmp_path / "store")
    del store
    gc.collect()
    assert b"".join(bytes(p) for result in results for p in result.slices) == before
    del results
    gc.collect()
    assert b"".join(views) == before
    assert [record.body for record in decode_records(b"".join(views))] == expected


def test_a_view_of_a_part_keeps_the_rest_alive(tmp_path: Path):
    with opened(tmp_path) as store:
        for n in range(10):
            store.put("T", 0, bytes([n]) * 100)
        view = memoryview(store.get("T", 0, 0).slices[0])[88:188]
    gc.collect()
    shutil.rmtree(tmp_path / "commitlog")
    assert bytes(view) == bytes(100)


def test_slices_are_read_only_buffers(tmp_path: Path):
    with opened(tmp_path) as store:
        store.put("T", 0, b"body")
        piece = store.get("T", 0, 0).slices[0]
        assert isinstance(piece, Slice)
        assert len(piece) == piece.nbytes == len(bytes(piece))
        view = memoryview(piece)
        assert (view.readonly, view.format, view.ndim) == (True, "B", 1)
        with pytest.raises(TypeError):
            view[0] = 1
        with pytest.raises(TypeError, match="not writable"):
            (ctypes.c_char * len(piece)).from_buffer(piece)
        array = np.frombuffer(piece, np.uint8)
        assert not array.flags.writeable
        assert array.tobytes() == bytes(piece)


def test_later_appends_do_not_change_what_was_read(tmp_path: Path):
    with opened(tmp_path, commit_log_file_size=4096) as store:
        store.put("T", 0, b"first")
        piece = store.get("T", 0, 0).slices[0]
        before = bytes(piece)
        for n in range(100):
            store.put("T", 0, bytes([n]) * 200)
        assert bytes(piece) == before


def test_thousands_of_slices_are_given_back(tmp_path: Path):
    """Each holds a reference on its file's mapping; after the last one the mapping goes."""
    root = tmp_path / "store"
    store = open_store(root, commit_log_file_size=4096)
    store.put("T", 0, b"b")
    held = [store.get("T", 0, 0).slices[0] for _ in range(5000)]
    store.close()
    del store
    gc.collect()
    assert mappings(root) == 1
    held.clear()
    gc.collect()
    assert mappings(root) == 0


def mappings(root: Path) -> int:
    return sum(str(root / "commitlog") in line for line in open_maps())


def open_maps() -> list[str]:
    return Path("/proc/self/maps").read_text().splitlines()


def test_a_copy_reopened_does_not_disturb_slices_of_the_first(tmp_path: Path):
    with opened(tmp_path / "live") as store:
        store.put("T", 0, b"body")
        piece = store.get("T", 0, 0).slices[0]
        with opened(image(tmp_path / "live", tmp_path / "copy")) as other:
            other.put("T", 0, b"other")
            assert bytes(other.get("T", 0, 0, 1).slices[0]) == bytes(piece)
