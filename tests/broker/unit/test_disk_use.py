"""What topics use of the log, and which files retention deletes next and when."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.stats import disk_use
from pyrmq.broker.stats.disk_use import (
    ALL_SECONDS,
    EXACT_SECONDS,
    HOUR_MS,
    LAST,
    MAX_ENTRIES,
    SAMPLED,
    Disk,
    Disks,
    LogRow,
    measure,
    next_hour,
    plan,
)
from pyrmq.engine import Store
from tests.support.waiting import eventually

NOON = int(datetime(2026, 3, 10, 12, 0).timestamp() * 1000)
FOUR = int(datetime(2026, 3, 11, 4, 0).timestamp() * 1000)
FILE = 16_384


def disks(used: int, root: int = 10) -> Disks:
    return Disks([Disk("/log", 1000, 1000 - 10 * used, used)], Disk("/root", 1000, 900, root))


def rows(*ages: int | None) -> list[LogRow]:
    """Files that were changed so many hours before noon; the last one is the last."""
    found: list[LogRow] = []
    for at, age in enumerate(ages):
        changed = None if age is None else NOON - age * HOUR_MS
        kept = LAST if at == len(ages) - 1 else None
        found.append((Path(f"/log/{at}"), at * FILE, (at + 1) * FILE, changed, kept))
    return found


def planned(used: int, *ages: int | None, **keys: object) -> list[tuple[int | None, str]]:
    config = BrokerConfig(**keys)  # type: ignore[arg-type]
    return [(f.due, f.why) for f in plan(config, rows(*ages), disks(used), NOON)]


YOUNG, WAITS = "its time is not over", "not an hour of deleteWhen"


def test_expired_files_go_at_the_next_hour_of_delete_when() -> None:
    assert planned(50, 100, 80, 1) == [(FOUR, WAITS), (FOUR, WAITS), (None, LAST)]
    # 72 hours are over four hours after noon: the hour of the next morning.
    assert planned(50, 100, 68, 1) == [(FOUR, WAITS), (FOUR, YOUNG), (None, LAST)]
    assert planned(50, 100, 1, delete_when="12") == [(NOON, ""), (None, LAST)]
    assert planned(50, 100, 80, 0, delete_when="04;13")[0] == (NOON + HOUR_MS, WAITS)


def test_a_full_disk_deletes_at_any_hour_and_a_fuller_one_what_is_young() -> None:
    assert planned(75, 100, 1, 0)[0] == (FOUR, WAITS)
    assert planned(76, 100, 1, 0) == [(NOON, ""), (NOON + 71 * HOUR_MS, YOUNG), (None, LAST)]
    assert planned(86, 100, 1, 0) == [(NOON, ""), (NOON, ""), (None, LAST)]
    assert planned(86, 1, 1, clean_file_forcibly_enable=False)[0] == (NOON + 71 * HOUR_MS, YOUNG)
    # What retention does where the system says nothing: expired files go at any hour.
    assert planned(-1, 100, 1)[0] == (NOON, "")


def test_a_file_waits_for_those_before_it() -> None:
    found = plan(BrokerConfig(), rows(None, 100, 1), disks(50), NOON)
    assert [(f.due, f.why) for f in found] == [
        (None, "its age is unknown"),
        (None, "a file before it is kept"),
        (None, LAST),
    ]
    late = planned(76, 60, 100, 1)
    assert late[1] == (NOON + 12 * HOUR_MS, WAITS)
    path, begin, end, changed, _ = rows(100, 1)[0]
    kept: LogRow = (path, begin, end, changed, "it is not flushed")
    assert plan(BrokerConfig(), [kept], disks(76), NOON)[0].why == "it is not flushed"


def test_files_that_tables_have_go_as_expired_ones_do() -> None:
    def early(used: int, to: int) -> list[tuple[int | None, str, bool]]:
        found = plan(BrokerConfig(), rows(3, 2, 1, 0), disks(used), NOON, to)
        return [(f.due, f.why, f.in_tables) for f in found]

    after = NOON + 70 * HOUR_MS
    assert early(76, 2 * FILE - 1)[:2] == [(NOON, "", True), (after, YOUNG, False)]
    assert [due for due, *_ in early(76, 2 * FILE)[:2]] == [NOON, NOON]
    assert early(50, 2 * FILE)[1] == (FOUR, WAITS, True)
    assert early(76, 9 * FILE)[-1] == (None, LAST, True)
    assert early(76, 0)[0] == (NOON + 69 * HOUR_MS, YOUNG, False)


def test_as_retention_counts_the_log_has_the_folder_with_most_room() -> None:
    two = Disks([Disk("/a", 100, 5, 95), Disk("/b", 100, 80, 20)], Disk("/r", 100, 90, 10))
    assert (two.log_used, two.above(75)) == (20, False)
    unknown = Disks([Disk("/a", 0, 0, -1), Disk("/b", 100, 80, 20)], Disk("/r", 100, 90, 10))
    assert (unknown.log_used, unknown.are_known) == (20, True)
    assert not Disks([Disk("/a", 0, 0, -1)], Disk("/r", 100, 90, 10)).are_known
    assert Disk("/a", 1000, 500, 50).left_until(75) == 250
    assert Disk("/a", 1000, 100, 90).left_until(75) == 0


def test_no_hour_and_times_that_no_calendar_has() -> None:
    assert next_hour(NOON, []) is None
    assert next_hour(1 << 62, [4]) is None
    assert next_hour(NOON, range(24)) == NOON


class Sizes:
    """Sizes of topics, each of which takes some seconds."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.asked: list[tuple[str, int]] = []

    def __call__(
        self, topic: str, begin: int, end: int, most: int
    ) -> list[tuple[int, int, int, int, int, bool]]:
        self.now += self.seconds
        self.asked.append((topic, most))
        if topic == "broken":
            raise OSError(5, "no")
        if topic == "gone" and [t for t, _ in self.asked].count("gone") == 1:
            raise FileNotFoundError(2, "no")
        return [(0, 0, 5, 5, 0 if topic == "empty" else 500, most > SAMPLED)]


def test_the_time_is_bounded() -> None:
    sizes = Sizes(EXACT_SECONDS)
    names = [f"t{n}" for n in range(10)]
    found = measure(sizes, names, 0, 100, lambda: sizes.now)
    measured = int(ALL_SECONDS / EXACT_SECONDS) + 1
    assert [most for _, most in sizes.asked] == [MAX_ENTRIES] * 2 + [SAMPLED] * (measured - 2)
    assert found.unmeasured == 10 - measured
    assert (len(found.topics), found.nbytes, found.is_exact) == (measured, 500 * measured, False)


def test_what_cannot_be_read_and_what_was_deleted_meanwhile() -> None:
    sizes = Sizes(0.0)
    found = measure(sizes, ["a", "broken", "gone", "empty"], 0, 100, lambda: 0.0)
    assert list(found.topics) == ["a", "gone"]
    assert (found.unmeasured, found.is_exact) == (1, False)
    assert measure(Sizes(0.0), ["a"], 0, 100, lambda: 0.0).is_exact


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(store_path_root_dir=tmp_path / "store")


def test_a_store_and_its_files(tmp_path: Path, config: BrokerConfig) -> None:
    with_files = Store(
        config.store_path_root_dir, commit_log_file_size=FILE, file_reserved_time=72 * HOUR_MS
    )
    try:
        before = {"A": 0, "B": 0}
        places = []
        for n in range(30):
            topic = "A" if n % 3 else "B"
            with_files.put(topic, 0, b"x" * (1000 + n))
            bytes_now = {name: nbytes for name, _, nbytes in with_files.puts()}
            places.append((topic, bytes_now[topic] - before[topic]))
            before = {**before, **bytes_now}
        end = with_files.stats()["maxPhyOffset"]
        eventually(lambda: with_files.flushed() >= end, "all is flushed")
        eventually(lambda: with_files.stats()["indexedWhere"] >= end, "all is indexed")
        first = config.store_path_root_dir / "commitlog" / f"{0:020}"
        os.utime(first, (0, 0))
        now = NOON
        found = disk_use.report(config, with_files, now)
        assert {t: q[0].nbytes for t, q in found.whole.topics.items()} == before
        assert found.whole.is_exact
        assert found.files[0].due is not None
        assert (found.next_files, found.freed.begin, found.freed.end) == (1, 0, FILE)
        # The records that begin in the first file, in the order in which they were stored.
        freed, at = {"A": 0, "B": 0}, 0
        for topic, nbytes in places:
            if at + nbytes + 8 > FILE:
                break
            at += nbytes
            freed[topic] += nbytes
        assert {t: q[0].nbytes for t, q in found.freed.topics.items()} == freed
        more = disk_use.report(config, with_files, now, files=2)
        assert (more.next_files, more.freed.end) == (2, 2 * FILE)
        # Retention does what was said, when it was said.
        due = found.files[0].due
        assert due is not None
        assert with_files.clean(NOON)["commitLog"] == (due <= NOON)
        with_files.clean(due)
        assert with_files.stats()["minPhyOffset"] == FILE
        assert disk_use.report(config, with_files, due).files[0].begin == FILE
    finally:
        with_files.close()
