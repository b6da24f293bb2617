"""A commit log in several folders: files take turns, and nothing is lost without a word."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from pyrmq.errors import MessageIllegalError, StoreDamagedError
from tests.store.tools import bodies, image, open_store, opened
from tests.store.waiting import settle

FILE = 4096
BODIES = [b"%05d" % n * 50 for n in range(60)]
"""Six log files of eleven or so records."""


def options(root: Path, *names: str, read_only: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "commit_log_file_size": FILE,
        "commit_log_dirs": [root / name for name in names],
        "read_only_commit_log_dirs": [root / name for name in read_only],
        "disk_space_clean_forcibly_ratio": 100,
        "file_reserved_time": 0,
        "delete_commit_log_files_interval": 0,
    }


def fill(store: Store) -> None:
    for body in BODIES:
        store.put("T", 0, body)


def where(root: Path, *names: str) -> dict[str, list[int]]:
    """The files of each folder, by number."""
    return {
        name: sorted(int(path.name) // FILE for path in (root / name).iterdir()) for name in names
    }


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A stopped store with its log in the folders a, b and c."""
    with opened(tmp_path, **options(tmp_path, "a", "b", "c")) as store:
        fill(store)
    return tmp_path


def test_files_take_turns(three: Path):
    assert where(three, "a", "b", "c") == {"a": [0, 3], "b": [1, 4], "c": [2, 5]}
    assert not (three / "commitlog").exists()
    assert {path.stat().st_size for path in three.glob("[abc]/*")} == {FILE}


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_any_order_opens_it(three: Path, order: tuple[str, ...]):
    with opened(three, **options(three, *order)) as store:
        assert bodies(store) == BODIES
        fill(store)
        assert bodies(store) == BODIES * 2
    names = where(three, "a", "b", "c")
    assert [names[name] for name in "abc"] == [list(range(first, 11, 3)) for first in range(3)], (
        "turns go by the sorted names, whatever the order they were given in"
    )


def test_a_kill_image(three: Path):
    with opened(three, **options(three, "a", "b", "c")) as store:
        fill(store)
        killed = image(three, three.parent / "killed")
    with opened(killed, **options(killed, "c", "a", "b")) as store:
        assert bodies(store) == BODIES * 2


def test_files_that_were_moved(three: Path):
    """It does not matter which folder holds a file."""
    for path in [*(three / "b").iterdir(), *(three / "c").iterdir()]:
        path.rename(three / "a" / path.name)
    with opened(three, **options(three, "a", "b", "c")) as store:
        assert bodies(store) == BODIES


def test_read_only_folders_get_no_files(three: Path):
    before = {path: path.read_bytes() for path in three.glob("[bc]/*")}
    for read_only in (("b", "c"), ("c", "b")):
        given = options(three, "a", "b", read_only=read_only)
        with opened(three, **given) as store:
            assert bodies(store)[: len(BODIES)] == BODIES
            if read_only == ("b", "c"):
                fill(store)
                settle(store)
    assert where(three, "b", "c") == {"b": [1, 4], "c": [2, 5]}
    last = max(before)
    assert {p: p.read_bytes() for p in before if p != last} == {
        p: content for p, content in before.items() if p != last
    }, "only the last file, which was not full, goes on"
    assert where(three, "a")["a"] == [0, 3, *range(6, 11)]


def test_only_read_only_folders(tmp_path: Path):
    with pytest.raises(MessageIllegalError, match="readOnlyCommitLogStorePaths"):
        open_store(tmp_path, **options(tmp_path, "a", read_only=("a",)))
    with pytest.raises(MessageIllegalError, match="storePathCommitLog"):
        open_store(tmp_path, **options(tmp_path))


def test_a_folder_more(three: Path):
    (three / "d").mkdir()
    with opened(three, **options(three, "a", "b", "c", "d")) as store:
        assert bodies(store) == BODIES
        fill(store)
        assert bodies(store) == BODIES * 2
    assert where(three, "d")["d"] == [7]


def test_retention(three: Path):
    with opened(three, **options(three, "a", "b", "c")) as store:
        fill(store)
        settle(store)
        for count in range(4):
            base = store.stats()["minPhyOffset"]
            assert base == 10 * FILE * bool(count)
            deleted = store.clean(10_000_000_000_000, manual=True)["commitLog"]
            assert deleted == (0 if count else 10)
        left = [n for numbers in where(three, "a", "b", "c").values() for n in numbers]
        assert min(left) == 10
    with opened(three, **options(three, "a", "b", "c")) as store:
        low, high = store.queue_range("T", 0)
        assert bodies(store) == (BODIES * 2)[low:high]
        assert 0 < low < high == 120


def test_a_missing_file_is_named(three: Path):
    path = three / "b" / f"{4 * FILE:020d}"
    os.remove(path)
    with pytest.raises(StoreDamagedError, match=rf"missing.*{4 * FILE}"):
        open_store(three, **options(three, "a", "b", "c"))


def test_a_file_in_two_folders_is_named(three: Path):
    shutil.copy(three / "b" / f"{FILE:020d}", three / "a")
    with pytest.raises(StoreDamagedError, match=f"{FILE:020d}"):
        open_store(three, **options(three, "a", "b", "c"))


@pytest.mark.parametrize("lost", ["a", "b", "c"])
@pytest.mark.parametrize("how", ["gone", "empty", "not given"])
def test_a_missing_folder_is_an_error(three: Path, lost: str, how: str):
    """A disk that is not mounted, say. Nothing of the rest may be changed."""
    (three / lost).rename(three / "elsewhere")
    if how == "empty":
        (three / lost).mkdir()
    names = [name for name in "abc" if not (how == "not given" and name == lost)]
    with pytest.raises((StoreDamagedError, OSError)) as caught:
        open_store(three, **options(three, *names)).close()
    assert str(three) in str(caught.value)
    shutil.rmtree(three / lost, ignore_errors=True)
    (three / "elsewhere").rename(three / lost)
    with opened(three, **options(three, "a", "b", "c")) as store:
        assert bodies(store) == BODIES


@pytest.mark.parametrize(
    ("lost", "how"), [("a", "gone"), ("b", "gone"), ("c", "gone"), ("b", "empty"), ("c", "empty")]
)
def test_a_missing_folder_with_one_file(tmp_path: Path, lost: str, how: str):
    """Without a gap in the row: the first file or the last one is gone with its folder."""
    with opened(tmp_path, **options(tmp_path, "a", "b", "c")) as store:
        for body in BODIES[:26]:
            store.put("T", 0, body)
    assert where(tmp_path, "a", "b", "c") == {"a": [0], "b": [1], "c": [2]}
    (tmp_path / lost).rename(tmp_path / "elsewhere")
    if how == "empty":
        (tmp_path / lost).mkdir()
    try:
        with pytest.raises((StoreDamagedError, OSError)) as caught:
            open_store(tmp_path, **options(tmp_path, "a", "b", "c")).close()
        assert str(tmp_path) in str(caught.value)
    finally:
        shutil.rmtree(tmp_path / lost, ignore_errors=True)
        (tmp_path / "elsewhere").rename(tmp_path / lost)
    with opened(tmp_path, **options(tmp_path, "a", "b", "c")) as store:
        assert bodies(store) == BODIES[:26]


@pytest.mark.parametrize("lost", ["a", "b", "c"])
def test_a_missing_read_only_folder_is_an_error(three: Path, lost: str):
    (three / lost).rename(three / "elsewhere")
    names = [name for name in "abc" if name != lost]
    with pytest.raises((StoreDamagedError, OSError)) as caught:
        open_store(three, **options(three, *names, read_only=(lost,))).close()
    assert str(three) in str(caught.value)
    (three / "elsewhere").rename(three / lost)
    with opened(three, **options(three, *names, read_only=(lost,))) as store:
        assert bodies(store) == BODIES
