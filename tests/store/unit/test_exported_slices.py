"""Pieces of the log and of queues stay valid and equal whatever happens to their files."""

from __future__ import annotations

import gc
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrmq.engine import Slice, Store
from tests.store.tools import FOUND, bodies, data, opened
from tests.store.waiting import settle
from tests.support.records import decode_records

FILE = 4096
OPTIONS: dict[str, Any] = {
    "commit_log_file_size": FILE,
    "file_reserved_time": 0,
    "delete_file_batch_max": 1000,
    "delete_commit_log_files_interval": 0,
}
LATER = 10_000_000_000_000
"""A time at which every file is old, ms."""


def fill(store: Store, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        store.put("T", 0, b"%05d" % n * 50, f"KEYS\x01k{n}\x02TAGS\x01tag{n % 3}\x02")


def get_all(store: Store, start: int, end: int) -> list[Slice]:
    slices: list[Slice] = []
    while start < end:
        result = store.get("T", 0, start)
        assert result.status == FOUND
        slices += result.slices
        start = result.next_offset
    return slices


def numbers(slices: list[Slice]) -> list[int]:
    return [int(r.body[:5]) for r in decode_records(b"".join(bytes(piece) for piece in slices))]


def delete_old(store: Store) -> None:
    settle(store)
    assert store.clean(LATER, manual=True)["commitLog"] > 0


def mapped_log_files(root: Path) -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(str(root / "commitlog") in line for line in lines)


def test_deleted_files(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        fill(store, 60)
        slices = get_all(store, 0, 60)
        views = [memoryview(piece)[4:] for piece in slices[::2]]
        before = [bytes(piece) for piece in slices], [bytes(view) for view in views]
        delete_old(store)
        low, _ = store.queue_range("T", 0)
        assert low > 40
        fill(store, 300, 60)
        delete_old(store)
        assert ([bytes(piece) for piece in slices], [bytes(view) for view in views]) == before
        assert numbers(slices) == list(range(60))
        assert (store.get("T", 0, 5).status, store.record_at(0)) == (6, None)
    assert numbers(slices) == list(range(60))
    del store, slices
    gc.collect()
    assert [bytes(view) for view in views] == before[1]


def test_figures(tmp_path: Path):
    """exportedSlices and exportedDeletedFiles rise and fall; the last buffer frees its mapping."""

    def figures() -> tuple[int, int]:
        gc.collect()
        stats = store.stats()
        return stats["exportedSlices"], stats["exportedDeletedFiles"]

    with opened(tmp_path, **OPTIONS) as store:
        fill(store, 60)
        assert figures() == (0, 0)
        slices = [store.get("T", 0, n, 1).slices[0] for n in range(60)]
        assert figures() == (60, 0)
        twice = [memoryview(slices[0]), memoryview(slices[0])]
        assert figures() == (60, 0), "views of a slice are not counted"
        settle(store)
        found, *_ = store.query_message("T", "k1")
        assert figures() == (61, 0)
        deleted = store.clean(LATER, manual=True)["commitLog"]
        assert deleted == 5
        assert figures() == (61, 5)
        mapped = mapped_log_files(tmp_path)
        del slices[12:24]
        low = figures()
        assert low[0] == 49
        assert low[1] <= 5
        slices.clear()
        assert figures() == (2, 1), "a view keeps its slice, and the look-up's is there"
        assert mapped_log_files(tmp_path) == mapped - 4
        del twice
        assert figures() == (1, 1)
        found.clear()
        assert figures() == (0, 0)
        assert mapped_log_files(tmp_path) == mapped - 5


def test_slices_of_the_active_file(tmp_path: Path):
    """Exported while the writer goes on behind it, rolls over, and the file is deleted."""
    with opened(tmp_path, **OPTIONS) as store:
        kept: list[tuple[Slice, bytes]] = []
        for n in range(200):
            fill(store, 1, n)
            (piece,) = store.get("T", 0, n, 1).slices
            kept.append((piece, bytes(piece)))
            if n % 50 == 49:
                delete_old(store)
        assert all(bytes(piece) == copy for piece, copy in kept)
    assert all(bytes(piece) == copy for piece, copy in kept)


def test_entries_of_deleted_queue_files(tmp_path: Path):
    with opened(tmp_path, **OPTIONS) as store:
        fill(store, 65)
        slices, offset = [], 0
        while offset < 65:
            first, view = store.entries("T", 0, offset)
            assert first == offset
            slices.append((view, view.tolist()))
            offset += len(view)
        assert [len(view) for view, _ in slices] == [10] * 6 + [5]
        settle(store)
        assert store.clean(LATER, manual=True)["consumeQueue"] >= 5
        fill(store, 100, 65)
        delete_old(store)
        assert all(view.tolist() == copy for view, copy in slices)
    del store
    gc.collect()
    assert all(view.tolist() == copy for view, copy in slices)


@pytest.mark.parametrize("sync_flush", [False, True])
def test_threads_read_while_files_go(tmp_path: Path, sync_flush: bool):
    """Readers hold what they read while a writer and retention work; then all is looked at."""
    stop, faults = threading.Event(), []
    slices: list[tuple[Slice, bytes]] = []

    def read(seed: int) -> None:
        rng = random.Random(seed)
        mine = []
        try:
            while not stop.is_set():
                low, high = store.queue_range("T", 0)
                result = store.get("T", 0, rng.randint(low, high))
                for record in decode_records(data(result)):
                    assert record.body == b"%05d" % record.queue_offset * 50
                mine += [(piece, bytes(piece)) for piece in result.slices]
                _, view = store.entries("T", 0)
                assert np.all(np.diff(view["physicalOffset"].astype(np.int64)) > 0)
                n = rng.randrange(max(high, 1))
                for piece in store.query_message("T", f"k{n}")[0]:
                    assert decode_records(bytes(piece))[0].body == b"%05d" % n * 50
                if len(mine) > 200:
                    del mine[: len(mine) // 2]
        except BaseException as error:
            faults.append(error)
        slices.extend(mine)

    with opened(tmp_path, sync_flush=sync_flush, **OPTIONS) as store:
        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for n in range(0, 1500, 50):
            fill(store, 50, n)
            store.clean(LATER, manual=True)
            time.sleep(0.001)
        stop.set()
        for thread in threads:
            thread.join()
        assert faults == []
        assert store.stats()["damagedEntries"] == 0
        fill(store, 50, 1500)
        delete_old(store)
        assert bodies(store)[-1] == b"%05d" % 1549 * 50
    assert len(slices) > 20
    assert all(bytes(piece) == copy for piece, copy in slices)
