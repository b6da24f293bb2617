"""Reopening what a kill, a careless hand or a disk left: queues and log agree again."""

from __future__ import annotations

import os
import random
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrmq.errors import StoreDamagedError
from tests.store.tools import (
    FOUND,
    TOO_SMALL,
    bodies,
    contents,
    data,
    image,
    log_file,
    opened,
    overwrite,
    queue_entries,
    queue_files,
    read_all,
)
from tests.support.records import encode_properties

FILE = 4096
COUNT = 30


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """An image of a store with 30 records of 304 bytes in two queues, three log files."""
    with opened(tmp_path / "live", commit_log_file_size=FILE) as store:
        for n in range(COUNT):
            properties = encode_properties({"TAGS": f"tag{n % 3}", "KEYS": f"key{n}"})
            store.put("T", n % 2, bytes([65 + n]) * 190, properties)
        killed = image(tmp_path / "live", tmp_path / "killed")
    newest = max((killed / "commitlog").iterdir())
    if newest.stat().st_size == 0:  # copied while the preparing thread made it: opening deletes it
        newest.unlink()
    return killed


def check(root: Path) -> None:
    """Everything is there, in the queues too, and the store goes on at the right places."""
    with opened(root, commit_log_file_size=FILE) as store:
        for queue_id in (0, 1):
            expected = [bytes([65 + n]) * 190 for n in range(queue_id, COUNT, 2)]
            assert bodies(store, "T", queue_id) == expected
        assert store.put("T", 0, b"next")[2] == COUNT // 2
    with opened(root, commit_log_file_size=FILE) as store:
        assert bodies(store)[-1] == b"next"


def test_a_kill_image_holds_everything(killed: Path):
    assert (killed / "abort").exists()
    assert len(list((killed / "commitlog").iterdir())) >= 3
    check(killed)
    assert not (killed / "abort").exists()


def remove_queues(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")


def remove_one_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "T" / "1")


def cut_queue(root: Path) -> None:
    overwrite(queue_files(root)[1], 3 * 20, bytes(7 * 20))


def tear_entry(root: Path) -> None:
    overwrite(queue_files(root)[1], 3 * 20 + 6, bytes(200 - 3 * 20 - 6))


def zero_first_file(root: Path) -> None:
    overwrite(queue_files(root)[0], 0, bytes(200))


def last_queue_file_empty(root: Path) -> None:
    queue_files(root)[-1].write_bytes(b"")


def random_tail(root: Path) -> None:
    """The last entry and what follows are noise, as after a power cut."""
    noise = random.Random(5).randbytes(200 - 4 * 20)
    overwrite(queue_files(root)[-1], 4 * 20, noise)


def plausible_tail(root: Path) -> None:
    """An entry that looks good and points to an early record."""
    overwrite(queue_files(root)[-1], 5 * 20, struct.pack(">qiq", 0, 304, 0))


def tail_beyond_the_log(root: Path) -> None:
    overwrite(queue_files(root)[-1], 5 * 20, struct.pack(">qiq", 2**40, 304, 0))


def tail_with_huge_numbers(root: Path) -> None:
    overwrite(queue_files(root)[-1], 5 * 20, struct.pack(">qiq", 2**63 - 1, 2**31 - 1, -1))


def no_checkpoint(root: Path) -> None:
    (root / "checkpoint").unlink(missing_ok=True)


def short_checkpoint(root: Path) -> None:
    (root / "checkpoint").write_bytes(b"\x01" * 39)


def zero_checkpoint(root: Path) -> None:
    (root / "checkpoint").write_bytes(bytes(4096))


def negative_checkpoint(root: Path) -> None:
    (root / "checkpoint").write_bytes(b"\xff" * 4096)


def extreme_checkpoint(root: Path) -> None:
    (root / "checkpoint").write_bytes((b"\x80" + bytes(7)) * 512)


def foreign_files(root: Path) -> None:
    (root / "commitlog" / "lost+found").mkdir()
    (root / "commitlog" / "notes.txt").write_text("hello")
    (root / "consumequeue" / "not a topic").mkdir()
    (root / "consumequeue" / "T" / "7x").mkdir()
    (root / "consumequeue" / "T" / "stray").write_text("hello")
    (root / "timerlog").mkdir()


@pytest.mark.parametrize(
    "harm",
    [
        remove_queues, remove_one_queue, cut_queue, tear_entry, zero_first_file,
        last_queue_file_empty, random_tail, plausible_tail, tail_beyond_the_log,
        tail_with_huge_numbers, no_checkpoint, short_checkpoint, zero_checkpoint,
        negative_checkpoint, extreme_checkpoint, foreign_files,
    ],
)  # fmt: skip
def test_harm_to_queues_or_checkpoint_of_a_killed_store(killed: Path, harm: Callable[[Path], None]):
    before = queue_entries(killed), queue_entries(killed, "T", 1)
    harm(killed)
    with opened(killed, commit_log_file_size=FILE):
        pass
    assert (queue_entries(killed), queue_entries(killed, "T", 1)) == before
    check(killed)


@pytest.mark.parametrize("harm", [remove_queues, cut_queue, last_queue_file_empty, no_checkpoint])
def test_harm_after_a_clean_stop(killed: Path, harm: Callable[[Path], None]):
    with opened(killed, commit_log_file_size=FILE):
        pass
    harm(killed)
    check(killed)


def test_an_old_checkpoint_saves_the_scan_of_old_files(tmp_path: Path):
    """What the checkpoint covers is not read again: a flipped body there stays unseen."""
    with opened(tmp_path / "live", commit_log_file_size=FILE) as store:
        for _ in range(30):
            store.put("T", 0, b"x" * 300)
        live = image(tmp_path / "live", tmp_path / "killed")
    late = int(time.time() * 1000) + 60_000
    (live / "checkpoint").write_bytes(struct.pack(">5q", late, late, 0, 0, 0).ljust(4096, b"\0"))
    overwrite(log_file(live), 100, b"y")
    with opened(live, commit_log_file_size=FILE) as store:
        assert store.queue_range("T", 0) == (0, 30)


def test_reopening_twice_changes_nothing(killed: Path):
    with opened(killed, commit_log_file_size=FILE):
        pass
    log, queues = contents(killed / "commitlog"), contents(killed / "consumequeue")
    for unclean in (False, True, False):
        if unclean:
            (killed / "abort").write_text("1")
        with opened(killed, commit_log_file_size=FILE):
            pass
        assert contents(killed / "commitlog") == log
        assert contents(killed / "consumequeue") == queues


@pytest.mark.parametrize("queues_too", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_older_files_were_removed(tmp_path: Path, queues_too: bool, clean: bool):
    root = tmp_path / "live"
    with opened(root, commit_log_file_size=FILE) as store:
        for n in range(40):
            store.put("T", 0, bytes([n]) * 300)
        store.put("Old", 0, b"o")
        copy = root if clean else image(root, tmp_path / "killed")
        if clean:
            store.close()
    gone = sum(1 for phys, *_ in queue_entries(copy) if phys < FILE)
    log_file(copy).unlink()
    if queues_too:
        shutil.rmtree(copy / "consumequeue")
    with opened(copy, commit_log_file_size=FILE) as store:
        assert store.stats()["minPhyOffset"] == FILE
        assert store.queue_range("T", 0) == (gone, 40)
        assert bodies(store) == [bytes([n]) * 300 for n in range(gone, 40)]
        assert store.get("T", 0, gone - 1).status == TOO_SMALL
        assert store.record_at(0) is None
        assert store.put("T", 0, b"next")[2] == 40
    if queues_too:
        first = queue_files(copy)[0]
        assert first.name == f"{gone // 10 * 10 * 20:020d}"
        blanks = gone % 10
        assert first.read_bytes()[: blanks * 20] == struct.pack(">qiq", 0, 2**31 - 1, 0) * blanks
    for _ in range(2):
        with opened(copy, commit_log_file_size=FILE) as store:
            assert store.queue_range("T", 0) == (gone, 41)
        (copy / "abort").write_text("1")


def test_all_records_of_a_queue_are_gone_but_its_numbers_go_on(tmp_path: Path):
    with opened(tmp_path, commit_log_file_size=FILE) as store:
        store.put("Old", 0, b"1")
        store.put("Old", 0, b"2")
        for _ in range(20):
            store.put("T", 0, b"x" * 600)
    log_file(tmp_path).unlink()
    with opened(tmp_path, commit_log_file_size=FILE) as store:
        assert store.queue_range("Old", 0) == (2, 2)
        assert store.get("Old", 0, 0).status == TOO_SMALL
        assert store.put("Old", 0, b"3")[2] == 2
        result = store.get("Old", 0, 2)
        assert (result.status, len(data(result))) == (FOUND, result.nbytes)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", ["a page in the middle", "the tail page", "all but one page"])
def test_pages_of_a_queue_that_never_reached_the_disk(tmp_path: Path, lost: str, clean: bool):
    """Queue files of three pages; holes read as zeros, before and behind good entries."""
    options = {"consume_queue_file_size": 12_000, "transfer_memory": (1 << 20, 256)}
    with opened(tmp_path / "live", commit_log_file_size=16 * FILE, **options) as store:
        for n in range(1500):
            store.put("T", 0, b"%06d" % n)
        copy = image(tmp_path / "live", tmp_path / "killed")
    if clean:
        (copy / "abort").unlink()
    first = queue_files(copy)[0]
    pages = {"a page in the middle": [1], "the tail page": [2], "all but one page": [0, 2]}[lost]
    raw = first.read_bytes()
    with first.open("r+b") as file:
        file.truncate(0)
        file.truncate(len(raw))
        for page in {0, 1, 2} - set(pages):
            file.seek(page * 4096)
            file.write(raw[page * 4096 : (page + 1) * 4096])
    for _ in range(2):
        with opened(copy, commit_log_file_size=16 * FILE, **options) as store:
            assert store.queue_range("T", 0) == (0, 1500)
            assert bodies(store) == [b"%06d" % n for n in range(1500)]
    assert first.read_bytes() == raw


def empty_in_the_middle(root: Path) -> str:
    log_file(root, FILE).write_bytes(b"")
    return "has 0 bytes"


def longer_file(root: Path) -> str:
    os.truncate(log_file(root), FILE + 1)
    return "has 4097 bytes, the configured size is 4096"


def shorter_last_file(root: Path) -> str:
    os.truncate(max((root / "commitlog").iterdir()), 100)
    return "has 100 bytes"


def missing_file(root: Path) -> str:
    log_file(root, FILE).unlink()
    return f"file before this one is missing: restore .*{FILE}"


def odd_name(root: Path) -> str:
    for path in sorted((root / "commitlog").iterdir())[1:]:
        path.unlink()
    log_file(root).rename(log_file(root, 17))
    return "no multiple of the configured file size"


def short_queue_file(root: Path) -> str:
    os.truncate(queue_files(root)[0], 190)
    return "has 190 bytes, the configured size is 200"


def missing_queue_file(root: Path) -> str:
    with opened(root, commit_log_file_size=FILE) as store:
        for _ in range(20):
            store.put("T", 0, b"b")
    queue_files(root)[1].unlink()
    return "file before this one is missing: restore .*200"


@pytest.mark.parametrize(
    "harm",
    [
        empty_in_the_middle, longer_file, shorter_last_file, missing_file, odd_name,
        short_queue_file, missing_queue_file,
    ],
)  # fmt: skip
def test_files_that_cannot_be_ours_are_left_alone(killed: Path, harm: Callable[[Path], str]):
    message = harm(killed)
    before = contents(killed)
    with pytest.raises(StoreDamagedError, match=message):
        opened(killed, commit_log_file_size=FILE).__enter__()
    before["lock"] = b"lock"
    assert contents(killed) == before


@pytest.mark.parametrize(
    ("harm", "folder", "size"),
    [
        (longer_file, "commitlog", FILE),
        (shorter_last_file, "commitlog", FILE),
        (odd_name, "commitlog", FILE),
        (short_queue_file, "consumequeue", 200),
        (missing_file, "commitlog", None),
    ],
)
def test_the_error_says_in_fields_which_file_does_not_fit(
    killed: Path, harm: Callable[[Path], str], folder: str, size: int | None
):
    harm(killed)
    with pytest.raises(StoreDamagedError) as raised:
        opened(killed, commit_log_file_size=FILE).__enter__()
    path = Path(str(raised.value.path))
    assert path.is_file()
    assert path.is_relative_to(killed / folder)
    assert str(raised.value).startswith(f"{path}: ")
    assert raised.value.configured_size == size


def test_another_configured_size(killed: Path):
    with pytest.raises(StoreDamagedError, match="configured"):
        opened(killed, commit_log_file_size=2 * FILE).__enter__()
    check(killed)


def test_an_empty_last_file_is_dropped(killed: Path):
    with opened(killed, commit_log_file_size=FILE) as store:
        end = store.stats()["maxPhyOffset"]
    log_file(killed, (end // FILE + 1) * FILE).write_bytes(b"")
    check(killed)


def test_kill_images_of_reopened_stores(tmp_path: Path):
    """Kill, reopen, write, kill, … : nothing is lost or doubled on the way."""
    root, expected = tmp_path / "0", []
    for round_ in range(8):
        with opened(root, commit_log_file_size=FILE) as store:
            assert bodies(store) == expected
            for n in range(7):
                expected.append(b"%d-%d" % (round_, n) * 30)
                store.put("T", 0, expected[-1])
            copy = image(root, tmp_path / f"{round_ + 1}")
        root = copy
    with opened(root, commit_log_file_size=FILE) as store:
        assert [r.body for r in read_all(store)["T", 0]] == expected
