"""Names, sizes and small files of the folder; the blank record at a file's end."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from pathlib import Path

import pytest

from pyrmq.engine import Store
from pyrmq.errors import MessageIllegalError, ServiceNotAvailableError, StoreLockedError
from tests.store.tools import bodies, image, log_file, opened, overwrite, queue_files

FILE = 4096
MAGIC_BLANK = 0xCBD43194
HEAD = 92
"""Bytes of a record of topic `T` without body and properties."""


def put_of(store: Store, size: int, fill: bytes = b"x") -> int:
    """Appends a record of `size` bytes; returns its physical offset."""
    phys, made, *_ = store.put("T", 0, fill * (size - HEAD))
    assert made == size
    return int(phys)


@pytest.mark.parametrize("left", [8, 9, 20, 500, 507])
def test_blank_record_at_the_end_of_a_file(tmp_path: Path, left: int):
    """`left`: bytes that stay free; the next record, of 500, does not fit with 8 behind it."""
    with opened(tmp_path, commit_log_file_size=FILE) as store:
        put_of(store, FILE - left)
        assert put_of(store, 500, b"y") == FILE
        file = log_file(tmp_path).read_bytes()
        assert struct.unpack_from(">iI", file, FILE - left) == (left, MAGIC_BLANK)
        assert not any(file[FILE - left + 8 :])
        assert store.stats()["maxPhyOffset"] == FILE + 500
    names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    assert names == [f"{0:020d}", f"{FILE:020d}"]
    with opened(tmp_path, commit_log_file_size=FILE) as store:
        assert bodies(store) == [b"x" * (FILE - left - HEAD), b"y" * (500 - HEAD)]
        assert put_of(store, 100) == FILE + 500


def test_a_record_that_leaves_exactly_eight_bytes_fits(tmp_path: Path):
    with opened(tmp_path, commit_log_file_size=FILE) as store:
        put_of(store, 1000)
        assert put_of(store, FILE - 1000 - 8) == 1000
        assert log_file(tmp_path).read_bytes()[-8:] == bytes(8)
        assert put_of(store, 100) == FILE
        assert log_file(tmp_path).read_bytes()[-8:] == struct.pack(">iI", 8, MAGIC_BLANK)


def test_the_largest_record_of_a_file(tmp_path: Path):
    with opened(tmp_path, commit_log_file_size=FILE) as store:
        assert put_of(store, FILE - 8) == 0
        with pytest.raises(MessageIllegalError, match="mappedFileSizeCommitLog=4096"):
            put_of(store, FILE - 7)
        assert put_of(store, FILE - 8) == FILE
        assert store.queue_range("T", 0) == (0, 2)
    with opened(tmp_path, commit_log_file_size=FILE) as store:
        assert len(bodies(store)) == 2


@pytest.mark.parametrize("keep_next", [True, False])
@pytest.mark.parametrize("size", [FILE, 16 * FILE])
def test_kill_after_a_roll_with_nothing_behind_it(tmp_path: Path, size: int, keep_next: bool):
    """A blank whose following file is gone or still empty: the log goes on there."""
    first, second = 700, size - 500
    with opened(tmp_path / "live", commit_log_file_size=size) as store:
        put_of(store, first)
        put_of(store, second)
        copy = image(tmp_path / "live", tmp_path / "copy")
    for later in sorted((copy / "commitlog").iterdir())[1:]:
        later.unlink()
    file = log_file(copy, size)
    if keep_next:
        file.touch()
        os.truncate(file, size)
    for round_ in range(3):
        with opened(copy, commit_log_file_size=size) as store:
            assert store.stats()["maxPhyOffset"] == size + 300 * round_
            assert put_of(store, 300, b"z") == size + 300 * round_
            assert bodies(store) == [b"x" * (first - HEAD)] + [b"z" * (300 - HEAD)] * (round_ + 1)
        (copy / "abort").write_text("1")


def test_file_names_and_sizes(tmp_path: Path):
    with opened(tmp_path, commit_log_file_size=FILE, consume_queue_file_size=100) as store:
        for _ in range(12):
            put_of(store, 1000)
        assert [path.name for path in queue_files(tmp_path)] == [
            f"{base:020d}" for base in (0, 100, 200)
        ]
        assert {path.stat().st_size for path in queue_files(tmp_path)} == {100}
    log = sorted((tmp_path / "commitlog").iterdir())
    assert [path.name for path in log] == [f"{n * FILE:020d}" for n in range(3)]
    assert {path.stat().st_size for path in log} == {FILE}
    assert {path.name for path in tmp_path.iterdir()} == {
        "commitlog", "consumequeue", "checkpoint", "lock",
    }  # fmt: skip


def test_a_log_folder_of_its_own(tmp_path: Path):
    with opened(tmp_path / "store", commit_log_dirs=[tmp_path / "log"]) as store:
        store.put("T", 0, b"b")
    assert (tmp_path / "log" / f"{0:020d}").exists()
    assert not (tmp_path / "store" / "commitlog").exists()
    with opened(tmp_path / "store", commit_log_dirs=[tmp_path / "log"]) as store:
        assert bodies(store) == [b"b"]


def test_abort_and_lock_file(tmp_path: Path):
    with opened(tmp_path) as store:
        assert (tmp_path / "abort").read_text() == str(os.getpid())
        assert (tmp_path / "lock").read_bytes() == b"lock"
        with pytest.raises(StoreLockedError, match="in use"):
            Store(tmp_path)
        with (tmp_path / "lock").open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)  # as Java's FileLock does
        store.put("T", 0, b"still open")
        assert (tmp_path / "abort").exists()
    assert not (tmp_path / "abort").exists()
    with opened(tmp_path) as store:
        assert bodies(store) == [b"still open"]


def test_a_lock_of_java_keeps_us_out(tmp_path: Path):
    with opened(tmp_path):
        pass
    with (tmp_path / "lock").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        with pytest.raises(StoreLockedError):
            Store(tmp_path)
    with opened(tmp_path):
        pass


def test_of_many_who_open_at_once_one_gets_the_store(tmp_path: Path):
    found: list[object] = []

    def try_open() -> None:
        try:
            found.append(Store(tmp_path, commit_log_file_size=FILE))
        except StoreLockedError as error:
            found.append(error)

    threads = [threading.Thread(target=try_open) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stores = [one for one in found if isinstance(one, Store)]
    assert (len(found), len(stores)) == (8, 1)
    stores[0].close()


def test_a_closed_store_refuses_and_closes_again(tmp_path: Path):
    with opened(tmp_path) as store:
        store.put("T", 0, b"b")
        store.close()
        store.close()
        with pytest.raises(ServiceNotAvailableError, match="closed"):
            store.put("T", 0, b"b")
        with pytest.raises(ServiceNotAvailableError, match="closed"):
            store.get("T", 0, 0)
        with pytest.raises(ServiceNotAvailableError, match="closed"):
            store.record_at(0)


def test_checkpoint_fields(tmp_path: Path):
    """Five int64: physic, logics, index timestamps (ms), two offsets; the rest is zero."""
    with opened(tmp_path) as store:
        _, size, _, stored = store.put("T", 0, b"b")
    raw = (tmp_path / "checkpoint").read_bytes()
    assert len(raw) == 4096
    assert struct.unpack_from(">5q", raw) == (stored, stored, 0, 0, size)
    assert not any(raw[40:])
    overwrite(tmp_path / "checkpoint", 16, struct.pack(">3q", 7, 8, 9))
    with opened(tmp_path) as store:
        *_, later = store.put("T", 0, b"b")
    raw = (tmp_path / "checkpoint").read_bytes()
    # No index file is full, whatever stood there; masterFlushedOffset is not ours to move.
    assert struct.unpack_from(">5q", raw) == (later, later, 0, 8, 2 * size)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("commit_log_file_size", 4095),
        ("commit_log_file_size", 2**31),
        ("consume_queue_file_size", 0),
        ("consume_queue_file_size", 30),
        ("consume_queue_file_size", 2**31),
    ],
)
def test_sizes_out_of_range(tmp_path: Path, option: str, value: int):
    with pytest.raises(Exception, match=f"mappedFileSize.*={value}"):
        Store(tmp_path, **{option: value})
    assert not list(tmp_path.iterdir())
