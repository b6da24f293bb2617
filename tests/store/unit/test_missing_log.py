"""Parts of the commit log are not there at a start: the store does not open and changes nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pyrmq.engine import Store
from pyrmq.errors import StoreDamagedError
from tests.store.tools import bodies, contents, image, open_store, opened
from tests.store.waiting import settle
from tests.support.waiting import eventually

FILE = 4096
BODIES = [b"%05d" % n * 50 for n in range(60)]
"""Six log files of eleven or so records."""
ACCEPT = "accept-loss"
REFUSED = r"storePathCommitLog is missing.*accept-loss|does not exist: mount it"


def fill(store: Store) -> None:
    for body in BODIES:
        store.put("T", 0, body)


def checkpoint_time(root: Path) -> int:
    """physicMsgTimestamp, ms; 0 without a checkpoint."""
    path = root / "checkpoint"
    return int.from_bytes(path.read_bytes()[:8], "big") if path.exists() else 0


@pytest.fixture(params=["stopped", "killed"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store with six log files, stopped or as a kill leaves it."""
    live = tmp_path / "live"
    with opened(live, commit_log_file_size=FILE) as store:
        fill(store)
        settle(store)
        eventually(lambda: checkpoint_time(live), "the checkpoint tells of messages")
        if request.param == "killed":
            return image(live, tmp_path / "store")
    return live


def log_files(root: Path) -> list[Path]:
    """Those with something in them: a file may be there in advance."""
    return [path for path in sorted((root / "commitlog").iterdir()) if any(path.read_bytes())]


def unmount(root: Path, lost: str) -> None:
    """Moves the folder or its newest files away."""
    log, away = root / "commitlog", root.parent / "away"
    if lost in ("folder", "mount"):
        log.rename(away)
        if lost == "mount":
            log.mkdir()
        return
    away.mkdir()
    for path in [path for path in log.iterdir() if path >= log_files(root)[-2]]:
        path.rename(away / path.name)


def mount(root: Path) -> None:
    log = root / "commitlog"
    log.mkdir(exist_ok=True)
    for path in (root.parent / "away").iterdir():
        path.rename(log / path.name)


@pytest.mark.parametrize("lost", ["folder", "mount", "newest files"])
def test_nothing_is_erased(root: Path, lost: str) -> None:
    """A disk that is not mounted at the start of the machine, say."""
    unmount(root, lost)
    before = contents(root)
    for _ in range(2):
        with pytest.raises(StoreDamagedError, match=REFUSED):
            open_store(root, commit_log_file_size=FILE)
    assert contents(root) == before
    mount(root)
    with opened(root, commit_log_file_size=FILE) as store:
        assert bodies(store) == BODIES
        assert store.put("T", 0, b"next")[2] == len(BODIES)


@pytest.mark.parametrize("lost", ["mount", "newest files"])
def test_an_operator_accepts_the_loss(root: Path, lost: str) -> None:
    """By a word in the abort file, which counts once."""
    unmount(root, lost)
    (root / "abort").write_text(ACCEPT + "\n")
    with opened(root, commit_log_file_size=FILE) as store:
        left = bodies(store)
        assert left == BODIES[: len(left)]
        assert bool(left) is (lost == "newest files")
        store.put("T", 0, b"next")
        assert (root / "abort").read_text() == str(os.getpid())
    assert not (root / "abort").exists()
    with opened(root, commit_log_file_size=FILE) as store:
        assert bodies(store) == [*left, b"next"]


def test_the_checkpoint_alone_tells_of_a_log(root: Path) -> None:
    unmount(root, "mount")
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index", ignore_errors=True)
    with pytest.raises(StoreDamagedError, match=r"checkpoint.*storePathCommitLog is missing"):
        open_store(root, commit_log_file_size=FILE)


def test_an_empty_log_without_messages_is_no_loss(tmp_path: Path) -> None:
    with opened(tmp_path / "live", commit_log_file_size=FILE):
        killed = image(tmp_path / "live", tmp_path / "killed")
    with opened(killed, commit_log_file_size=FILE) as store:
        store.put("T", 0, b"first")
        assert bodies(store) == [b"first"]


def test_a_recovery_that_fails_half_way_is_begun_anew(tmp_path: Path) -> None:
    """After a clean stop too: the next start does not take for sound what has changed by then."""
    root = tmp_path / "store"
    with opened(root, commit_log_file_size=FILE) as store:
        fill(store)
    queue = sorted((root / "consumequeue" / "T" / "0").iterdir())[3]
    entry = bytearray(queue.read_bytes())
    entry[100:120] = bytes(20)
    queue.write_bytes(entry)
    damaged = log_files(root)[4]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: FILE // 2] + bytes(FILE // 2))
    with pytest.raises(StoreDamagedError, match="is damaged although this later file"):
        open_store(root, commit_log_file_size=FILE)
    assert (root / "abort").read_bytes() == b" flush failed"
    damaged.write_bytes(whole)
    with opened(root, commit_log_file_size=FILE) as store:
        assert bodies(store) == BODIES
