"""Deleting old files: which go, in what order, and that nothing else is lost with them."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from pyrmq.errors import MessageIllegalError, ServiceNotAvailableError
from tests.store.index_files import log_records
from tests.store.tools import FOUND, TOO_SMALL, bodies, data, image, log_file, opened, queue_files
from tests.store.waiting import indexed, settle
from tests.support.disk_room import needs_room
from tests.support.records import decode_records
from tests.support.waiting import eventually

FILE = 4096
HOUR = 3_600_000
DAY = 24 * HOUR
RESERVED = 10 * HOUR
RULES: dict[str, Any] = {
    "commit_log_file_size": FILE,
    "file_reserved_time": RESERVED,
    "delete_when": [4],
    "delete_commit_log_files_interval": 0,
    "disk_max_used_space_ratio": 95,
    "clean_file_forcibly": False,
    "index_slots": 7,
    "index_entries": 9,
}
PER_FILE = 12
"""Records of 300 bytes and a little in a log file."""

pytestmark = needs_room


def fill(store: Store, count: int, first: int = 0) -> None:
    """Messages n in queue n % 2 with the key k{n}, twelve to a log file."""
    for n in range(first, first + count):
        store.put("T", n % 2, b"%05d" % n * 44, f"KEYS\x01k{n} all\x02")


def files(root: Path) -> list[int]:
    """Starts of the log files; the next one may have been made already."""
    return sorted(int(path.name) for path in (root / "commitlog").iterdir())


def age(root: Path, *bases: int, by: int = 2 * RESERVED) -> None:
    """Makes log files look as if they were written `by` ms ago."""
    for base in bases:
        then = time.time() - by / 1000
        os.utime(log_file(root, base), (then, then))


def none() -> dict[str, int]:
    return {"commitLog": 0, "consumeQueue": 0, "index": 0}


def check(store: Store, root: Path, total: int) -> int:
    """Everything that the log still has is in its queue and index; returns the first number."""
    records = list(log_records(root, FILE))
    assert records
    first = records[0].physical_offset
    assert store.stats()["minPhyOffset"] == first == files(root)[0]
    for queue_id in (0, 1):
        mine = [r for r in records if r.queue_id == queue_id]
        low, high = store.queue_range("T", queue_id)
        assert high == total // 2
        assert low == (mine[0].queue_offset if mine else high)
        assert bodies(store, "T", queue_id) == [r.body for r in mine]
        for offset in range(low):
            result = store.get("T", queue_id, offset)
            assert (result.status, result.next_offset) == (TOO_SMALL, low)
            assert result.slices == []
    lowest = int(records[0].body[:5])
    indexed(store)
    for n in range(total):
        hits = [bytes(piece) for piece in store.query_message("T", f"k{n}")[0]]
        assert [r.body[:5] for r in decode_records(b"".join(hits))] == (
            [b"%05d" % n] if n >= lowest else []
        )
    return lowest


def test_how_long_files_are_kept_changes(tmp_path: Path) -> None:
    with opened(tmp_path, **RULES) as store:
        fill(store, 50)
        settle(store)
        age(tmp_path, 0, by=2 * HOUR)
        assert store.clean(manual=True) == none()
        store.set_file_reserved_time(HOUR)
        assert store.clean(manual=True)["commitLog"] == 1
        age(tmp_path, FILE, by=20 * HOUR)
        store.set_file_reserved_time(DAY)
        assert store.clean(manual=True) == none()


def test_expired_files_go_with_all_that_leads_to_them(tmp_path: Path):
    with opened(tmp_path, **RULES) as store:
        fill(store, 100)
        settle(store)
        assert len(files(tmp_path)) >= 9
        index_files = store.stats()["indexFiles"]
        queue_rows = [len(queue_files(tmp_path, "T", q)) for q in (0, 1)]
        assert store.clean(manual=True) == none()
        age(tmp_path, 0, FILE, 2 * FILE, 3 * FILE)
        done = store.clean(manual=True)
        assert done["commitLog"] == 4
        assert files(tmp_path)[0] == 4 * FILE
        lowest = check(store, tmp_path, 100)
        assert lowest == 4 * PER_FILE
        left = [len(queue_files(tmp_path, "T", q)) for q in (0, 1)]
        assert done["consumeQueue"] == sum(queue_rows) - sum(left) == 4
        assert done["index"] == index_files - store.stats()["indexFiles"] > 3
        assert store.stats()["indexFiles"] == len(list((tmp_path / "index").iterdir()))
        assert store.clean(manual=True) == none()
        fill(store, 20, 100)
        check(store, tmp_path, 120)
    with opened(tmp_path, **RULES) as store:
        check(store, tmp_path, 120)


def test_only_what_is_strictly_over_its_time_in_order(tmp_path: Path):
    with opened(tmp_path, **RULES) as store:
        fill(store, 100)
        settle(store)
        written = 1_800_000_000_000
        for base in files(tmp_path):
            os.utime(log_file(tmp_path, base), (written // 1000, written // 1000))
        os.utime(log_file(tmp_path, 2 * FILE), (written // 1000 + 1, written // 1000 + 1))
        assert store.clean(written + RESERVED, manual=True) == none()
        assert store.clean(written + RESERVED + 1, manual=True)["commitLog"] == 2
        assert files(tmp_path)[0] == 2 * FILE, "later ones wait for the younger one before them"


def test_the_last_file_stays(tmp_path: Path):
    with opened(tmp_path, delete_file_batch_max=100, **RULES) as store:
        fill(store, 100)
        settle(store)
        last = store.stats()["maxPhyOffset"] // FILE * FILE
        done = store.clean(int(time.time() * 1000) + DAY, manual=True)
        assert done["commitLog"] == last // FILE
        assert check(store, tmp_path, 100) == 96
        assert [len(queue_files(tmp_path, "T", q)) for q in (0, 1)] == [1, 1]
        assert store.stats()["indexFiles"] >= 1
        fill(store, 50, 100)
        check(store, tmp_path, 150)


@pytest.mark.parametrize("most", [1, 3])
def test_so_many_in_a_round(tmp_path: Path, most: int):
    with opened(tmp_path, delete_file_batch_max=most, **RULES) as store:
        fill(store, 100)
        settle(store)
        end = int(time.time() * 1000) + DAY
        for round_ in range(1, 3):
            assert store.clean(end, manual=True)["commitLog"] == most
            assert files(tmp_path)[0] == round_ * most * FILE
        check(store, tmp_path, 100)


def test_what_is_not_on_disk_yet_stays(tmp_path: Path):
    with opened(tmp_path, flush_interval_commit_log=3_600_000, **RULES) as store:
        fill(store, 100)
        indexed(store)
        assert store.flushed() == 0
        assert store.clean(int(time.time() * 1000) + DAY, manual=True) == none()
        assert files(tmp_path)[0] == 0


def test_what_is_not_indexed_yet_stays(tmp_path: Path):
    with opened(tmp_path, **RULES) as store:
        (tmp_path / "index").write_text("no folder can be made here")
        fill(store, 100)
        eventually(lambda: store.flushed() == store.stats()["maxPhyOffset"], "flushed")
        assert store.stats()["indexedWhere"] == 0
        end = int(time.time() * 1000) + DAY
        assert store.clean(end, manual=True) == none()
        (tmp_path / "index").unlink()
        indexed(store)
        assert store.clean(end, manual=True)["commitLog"] == 8
        check(store, tmp_path, 100)


def test_the_hour(tmp_path: Path):
    """`now` decides, in local time; without the hour, expired files wait."""
    with opened(tmp_path, **{**RULES, "delete_when": [4, 16]}) as store:
        fill(store, 30)
        settle(store)
        tomorrow = datetime.now().replace(minute=30, second=0, microsecond=0).timestamp() + 86400
        hour = datetime.fromtimestamp(tomorrow).hour
        other, four, sixteen = (
            int(datetime.fromtimestamp(tomorrow).replace(hour=h).timestamp() * 1000) + DAY
            for h in ((hour if hour not in (4, 16) else hour + 1), 4, 16)
        )
        assert store.clean(other) == none()
        assert files(tmp_path)[0] == 0
        assert store.clean(four)["commitLog"] == 2
        fill(store, 30, 30)
        settle(store)
        assert store.clean(other) == none()
        assert store.clean(sixteen)["commitLog"] >= 2


def test_hours_are_checked(tmp_path: Path):
    with pytest.raises(MessageIllegalError, match="deleteWhen"):
        Store(tmp_path, delete_when=[24])


def test_a_thread_does_it(tmp_path: Path):
    options = {**RULES, "delete_when": list(range(24)), "clean_resource_interval": 20}
    with opened(tmp_path, **options) as store:
        fill(store, 100)
        settle(store)
        age(tmp_path, 0, FILE, 2 * FILE)
        eventually(lambda: store.stats()["minPhyOffset"] == 3 * FILE, "files are gone")
        eventually(lambda: trimmed_to(store) == 3 * PER_FILE // 2, "entries are gone")
        check(store, tmp_path, 100)
        age(tmp_path, *files(tmp_path))
        eventually(lambda: store.stats()["minPhyOffset"] == 8 * FILE, "files are gone")
        eventually(lambda: trimmed_to(store) == 48, "entries are gone")
        check(store, tmp_path, 100)


def trimmed_to(store: Store) -> int:
    return min(store.queue_range("T", queue_id)[0] for queue_id in (0, 1))


def test_no_thread_unless_asked(tmp_path: Path):
    with opened(tmp_path, **{**RULES, "delete_when": list(range(24))}) as store:
        fill(store, 30)
        settle(store)
        age(tmp_path, *files(tmp_path))
        threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        assert "pyrmq-flush" in threads
        assert "pyrmq-clean" not in threads
        assert files(tmp_path)[0] == 0


@pytest.mark.parametrize("killed", [False, True])
def test_a_start_afterwards(tmp_path: Path, killed: bool):
    root = tmp_path / "live"
    with opened(root, **RULES) as store:
        fill(store, 100)
        settle(store)
        age(root, 0, FILE, 2 * FILE)
        assert store.clean(manual=True)["commitLog"] == 3
        copy = image(root, tmp_path / "killed")
    if killed:
        root = copy
    for _ in range(2):
        with opened(root, **RULES) as store:
            assert check(store, root, 100) == 36


@pytest.mark.parametrize("lost", [1, 4, 8])
@pytest.mark.parametrize("killed", [False, True])
def test_log_files_gone_but_queues_and_index_not_yet(tmp_path: Path, lost: int, killed: bool):
    """A crash behind the deletion of log files: the next rounds finish what was begun."""
    with opened(tmp_path / "live", **RULES) as store:
        fill(store, 100)
        settle(store)
        copy = image(tmp_path / "live", tmp_path / "killed")
    root = copy if killed else tmp_path / "live"
    for n in range(lost):
        log_file(root, n * FILE).unlink()
    before = sum(len(queue_files(root, "T", q)) for q in (0, 1))
    with opened(root, **RULES) as store:
        assert check(store, root, 100) == lost * PER_FILE
        done = store.clean(manual=True)
        assert done["commitLog"] == 0
        assert done["consumeQueue"] == 2 * (lost * PER_FILE // 2 // 10)
        assert before - done["consumeQueue"] == sum(len(queue_files(root, "T", q)) for q in (0, 1))
        check(store, root, 100)


def test_queues_without_messages_keep_their_numbers(tmp_path: Path):
    with opened(tmp_path, delete_file_batch_max=100, **RULES) as store:
        for n in range(15):
            store.put("Old", 0, b"old %d" % n)
        fill(store, 100)
        settle(store)
        store.clean(int(time.time() * 1000) + DAY, manual=True)
        assert store.queue_range("Old", 0) == (15, 15)
        assert store.get("Old", 0, 3).status == TOO_SMALL
        assert store.get("Old", 0, 3).next_offset == 15
    for _ in range(2):
        with opened(tmp_path, **RULES) as store:
            assert store.queue_range("Old", 0) == (15, 15)
            assert store.entries("Old", 0)[1].size == 0
    with opened(image(tmp_path, tmp_path.parent / "copy"), **RULES) as store:
        assert store.put("Old", 0, b"new")[2] == 15
        assert bodies(store, "Old") == [b"new"]
        result = store.get("Old", 0, 15)
        assert (result.status, data(result)[88:91]) == (FOUND, b"new")


def test_times_without_the_oldest(tmp_path: Path):
    with opened(tmp_path, **RULES) as store:
        fill(store, 100)
        settle(store)
        times = [r.store_timestamp for r in log_records(tmp_path, FILE) if r.queue_id == 0]
        age(tmp_path, 0, FILE)
        store.clean(manual=True)
        low = PER_FILE
        assert store.earliest_time("T", 0) == times[low]
        assert store.offset_by_time("T", 0, 0) == low
        assert store.offset_by_time("T", 0, 0, upper=True) == low
        assert store.offset_by_time("T", 0, 2**62) == 50
    with pytest.raises(ServiceNotAvailableError):
        store.clean()


def test_figures_after_deletion(tmp_path: Path):
    with opened(tmp_path, **RULES) as store:
        fill(store, 100)
        settle(store)
        store.clean(int(time.time() * 1000) + DAY, manual=True)
        stats = store.stats()
        assert stats["queueFiles"] == sum(len(queue_files(tmp_path, "T", q)) for q in (0, 1))
        assert stats["mappedQueueFiles"] <= stats["queueFiles"]
        assert stats["indexFiles"] == len(list((tmp_path / "index").iterdir()))
        assert stats["diskFull"] is False
