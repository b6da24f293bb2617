"""More queues than mappings: files are mapped when they are touched, and stay holes."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from tests.store.tools import FOUND, QUEUE_FILE, bodies, data, image, opened, queue_files
from tests.support.records import decode_records

TOPICS, QUEUES = 4, 50
Key = tuple[str, int]
ALL: list[Key] = [(f"T{topic}", queue_id) for topic in range(TOPICS) for queue_id in range(QUEUES)]


def body(key: Key, n: int) -> bytes:
    return f"{key[0]}-{key[1]}-{n}".encode()


def fill(store: Store, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        for key in ALL:
            assert store.put(*key, body(key, n))[2] == n


def check(store: Store, count: int) -> None:
    for key in ALL:
        assert store.queue_range(*key) == (0, count)
        assert bodies(store, *key) == [body(key, n) for n in range(count)]


def mapped_queue_files(root: Path) -> int:
    """What the kernel says."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(str(root / "consumequeue") in line for line in lines)


@pytest.mark.parametrize("limit", [1, 2, 17, 100, 1000])
def test_all_are_read_and_few_are_mapped(tmp_path: Path, limit: int):
    options: dict[str, Any] = {"max_mapped_queue_files": limit, "commit_log_file_size": 1 << 20}
    with opened(tmp_path, **options) as store:
        for first in range(0, 25, 5):
            fill(store, 5, first)
            assert store.stats()["mappedQueueFiles"] <= limit
            assert mapped_queue_files(tmp_path) <= limit
        check(store, 25)
        assert store.stats()["queues"] == len(ALL)
        assert store.stats()["queueFiles"] == 3 * len(ALL)
        assert store.stats()["mappedQueueFiles"] == min(limit, 3 * len(ALL))
        killed = image(tmp_path, tmp_path.parent / f"killed-{limit}")
    for root in (tmp_path, killed):
        for _ in range(2):
            with opened(root, **options) as store:
                assert mapped_queue_files(root) <= limit
                check(store, 25)
                assert mapped_queue_files(root) <= limit


def test_opening_maps_no_queue(tmp_path: Path):
    with opened(tmp_path) as store:
        fill(store, 12)
    with opened(tmp_path) as store:
        assert mapped_queue_files(tmp_path) == store.stats()["mappedQueueFiles"] == 0
        assert store.get("T1", 7, 11).status == FOUND
        assert mapped_queue_files(tmp_path) == store.stats()["mappedQueueFiles"] == 1
        assert store.queue_range("T3", 49) == (0, 12)
        assert store.stats()["mappedQueueFiles"] == 1


def test_views_hold_more_files_than_are_mapped(tmp_path: Path):
    with opened(tmp_path, max_mapped_queue_files=3) as store:
        fill(store, 15)
        views = [(key, store.entries(*key, offset)[1]) for key in ALL for offset in (0, 10)]
        copies = [view.tolist() for _, view in views]
        fill(store, 15, 15)
        check(store, 30)
        assert [view.tolist() for _, view in views] == copies
        for (key, view), copy in zip(views[1::2], copies[1::2], strict=True):
            assert len(view) == len(copy) == 5
            assert store.entries(*key, 10)[1].tolist()[:5] == copy
        del views, view


def test_readers_and_writers(tmp_path: Path):
    """Each writer has its queues, readers look anywhere; mappings come and go all the time."""
    done: list[bool] = []
    faults: list[BaseException] = []
    rounds = 40

    def guarded(work: Any, *args: Any) -> threading.Thread:
        def run() -> None:
            try:
                work(*args)
            except BaseException as error:
                faults.append(error)
            finally:
                done.append(True)

        return threading.Thread(target=run)

    def write(mine: list[Key]) -> None:
        for n in range(rounds):
            for key in mine:
                assert store.put(*key, body(key, n))[2] == n

    def read(seed: int) -> None:
        rng = random.Random(seed)
        while len(done) < 2 and not faults:
            key = rng.choice(ALL)
            low, high = store.queue_range(*key)
            if high == 0:
                continue
            at = rng.randrange(high)
            result = store.get(*key, at)
            assert (low, result.status) == (0, FOUND)
            for n, record in enumerate(decode_records(data(result)), at):
                assert (record.queue_offset, record.body) == (n, body(key, n))
            first, view = store.entries(*key, at)
            assert first == at
            for phys, size, _ in view.tolist():
                raw = store.record_at(phys)
                assert raw is not None
                assert len(raw) == size

    with opened(tmp_path, max_mapped_queue_files=5, commit_log_file_size=1 << 20) as store:
        threads = [guarded(write, ALL[0::2]), guarded(write, ALL[1::2])]
        threads += [guarded(read, seed) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        assert store.stats()["mappedQueueFiles"] <= 5
        assert store.stats()["damagedEntries"] == 0
        check(store, rounds)
    with opened(tmp_path, max_mapped_queue_files=5, commit_log_file_size=1 << 20) as store:
        check(store, rounds)


@pytest.fixture(scope="module")
def large_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Store]]:
    """200 queues with files of RocketMQ's size and one message each."""
    root = tmp_path_factory.mktemp("large")
    with opened(root, consume_queue_file_size=6_000_000) as store:
        fill(store, 1)
        yield root, store


def stored(path: Path) -> int:
    """Bytes that a file really has on disk."""
    return path.stat().st_blocks * 512


def holes_are_kept(folder: Path) -> bool:
    probe = folder / "probe"
    with probe.open("wb") as file:
        file.truncate(1 << 20)
    size = stored(probe)
    os.remove(probe)
    return size < 1 << 20


def test_files_are_holes(large_files: tuple[Path, Store]):
    root, store = large_files
    if not holes_are_kept(root):
        pytest.skip("the file system keeps no holes")
    for topic, queue_id in ALL:
        (path,) = queue_files(root, topic, queue_id)
        assert path.stat().st_size == 6_000_000
        assert 0 < stored(path) <= 64 << 10
    for topic, queue_id in ALL[:20]:
        store.entries(topic, queue_id)
        store.get(topic, queue_id, 0)
    assert all(stored(queue_files(root, *key)[0]) <= 64 << 10 for key in ALL[:20])


def test_memory(large_files: tuple[Path, Store]):
    """Of a queue with one message one page is in memory, not its 6 MB."""
    root, _ = large_files
    resident, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            inside = str(root / "consumequeue") in line
        elif inside and line.startswith("Rss:"):
            resident += int(line.split()[1])
    assert 0 < resident <= len(ALL) * 64, "kB"


def test_reopening_leaves_holes(tmp_path: Path):
    if not holes_are_kept(tmp_path):
        pytest.skip("the file system keeps no holes")
    options = {"consume_queue_file_size": 6_000_000}
    with opened(tmp_path / "live", **options) as store:
        fill(store, 1)
        killed = image(tmp_path / "live", tmp_path / "killed")
    for root in (tmp_path / "live", killed):
        for _ in range(2):
            with opened(root, **options) as store:
                check(store, 1)
            assert all(stored(queue_files(root, *key)[0]) <= 64 << 10 for key in ALL)


def test_writing_on_after_the_mapping_was_given_up(tmp_path: Path):
    """The next entry goes behind the last one, in the same file."""
    with opened(tmp_path, max_mapped_queue_files=1) as store:
        for n in range(35):
            for key in ALL[:3]:
                assert store.put(*key, body(key, n))[2] == n
                assert store.get(*key, n).status == FOUND
        for key in ALL[:3]:
            assert bodies(store, *key) == [body(key, n) for n in range(35)]
    for key in ALL[:3]:
        files = queue_files(tmp_path, *key)
        assert [int(path.name) for path in files] == [n * QUEUE_FILE for n in range(4)]
