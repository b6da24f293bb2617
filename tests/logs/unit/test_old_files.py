"""Old files of the log: their numbers, and their compression by a thread."""

from __future__ import annotations

import gzip
import logging
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.logs import old_files
from pyrmq.logs.old_files import OldFiles
from pyrmq.logs.setup import LogSettings, outlets_of

LONG = 30.0


class Log:
    """A log file that is rotated by hand."""

    def __init__(self, folder: Path, kept: int = 3, *, compresses: bool = True) -> None:
        self.path = folder / "b.log"
        self.folder = folder
        self.old = OldFiles(
            kept, lambda n: folder / "otherdays" / f"b.{n}.log", compresses=compresses
        )

    def rotate(self, text: str) -> None:
        self.path.write_text(text)
        self.old.take(self.path)

    def found(self) -> dict[str, str]:
        """By name what stands in the old files, once nothing is compressed any more."""
        self.old.wait(LONG)
        rows = {}
        for path in (self.folder / "otherdays").iterdir():
            packed = path.suffix == ".gz"
            rows[path.name] = (
                gzip.decompress(path.read_bytes()).decode() if packed else path.read_text()
            )
        return rows


class Gate:
    """Holds the thread at its first step of each file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.waiting = threading.Semaphore(0)
        write = gzip.GzipFile.write

        def slow(file: gzip.GzipFile, data: Any) -> int:
            self.waiting.release()
            assert self.open.wait(LONG)
            return write(file, data)

        monkeypatch.setattr(gzip.GzipFile, "write", slow)

    def reached(self) -> None:
        assert self.waiting.acquire(timeout=LONG)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.open.set()


def test_each_becomes_a_gz_and_the_oldest_goes(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for n in range(5):
        log.rotate(f"file {n}")
    assert log.found() == {"b.1.log.gz": "file 4", "b.2.log.gz": "file 3", "b.3.log.gz": "file 2"}


def test_one_file_is_kept_in_one_form(tmp_path: Path) -> None:
    log = Log(tmp_path, 1)
    log.rotate("a")
    log.found()
    log.rotate("b")
    assert log.found() == {"b.1.log.gz": "b"}
    plain = Log(tmp_path, 1, compresses=False)
    plain.rotate("c")
    assert plain.found() == {"b.1.log": "c"}


def test_a_file_that_is_renamed_while_it_is_compressed(tmp_path: Path, gate: Gate) -> None:
    log = Log(tmp_path)
    log.rotate("a")
    gate.reached()
    log.rotate("b")  # does not wait
    assert {p.name for p in (tmp_path / "otherdays").iterdir()} == {
        "b.1.log",
        "b.2.log",
        "b.1.log.gz.part",
    }
    gate.open.set()
    assert log.found() == {"b.1.log.gz": "b", "b.2.log.gz": "a"}


def test_a_file_that_goes_while_it_is_compressed(tmp_path: Path, gate: Gate) -> None:
    log = Log(tmp_path, 1)
    log.rotate("a")
    gate.reached()
    log.rotate("b")
    gate.open.set()
    assert log.found() == {"b.1.log.gz": "b"}


def test_the_end_of_the_process_leaves_the_file(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_files, "STEP", 1)
    log = Log(tmp_path)
    log.rotate("ab")
    gate.reached()
    log.old.close()
    gate.open.set()
    assert log.found() == {"b.1.log": "ab"}
    log.old.compress()
    assert log.found() == {"b.1.log": "ab"}
    again = Log(tmp_path)
    again.old.compress()  # as a start does
    assert again.found() == {"b.1.log.gz": "ab"}


def test_what_a_kill_left_is_put_right(tmp_path: Path) -> None:
    folder = tmp_path / "otherdays"
    folder.mkdir()
    (folder / "b.1.log").write_text("new")
    (folder / "b.1.log.gz.part").write_text("half of a file")
    (folder / "b.2.log").write_text("old")
    (folder / "b.2.log.gz").write_bytes(gzip.compress(b"old"))
    log = Log(tmp_path)
    log.old.compress()
    assert log.found() == {"b.1.log.gz": "new", "b.2.log.gz": "old"}


def test_both_forms_after_a_change_of_the_configuration(tmp_path: Path) -> None:
    Log(tmp_path, compresses=False).rotate("a")
    log = Log(tmp_path)
    log.rotate("b")
    assert log.found() == {"b.1.log.gz": "b", "b.2.log.gz": "a"}
    plain = Log(tmp_path, compresses=False)
    plain.rotate("c")
    assert plain.found() == {"b.1.log": "c", "b.2.log.gz": "b", "b.3.log.gz": "a"}
    plain.rotate("d")
    assert plain.found() == {"b.1.log": "d", "b.2.log": "c", "b.3.log.gz": "b"}


def test_it_keeps_mode_and_time(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_text("a")
    log.path.chmod(0o600)
    os.utime(log.path, (1_000_000, 2_000_000))
    log.old.take(log.path)
    log.found()
    found = (tmp_path / "otherdays" / "b.1.log.gz").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o600, 2_000_000)


def test_a_full_disk_keeps_the_file_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(tmp_path)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "pyrmq.logs"):

        def full(fd: int) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(old_files.os, "fsync", full)
        log.rotate("a")
        assert log.found() == {"b.1.log": "a"}
    assert caplog.messages == [
        f"the old log file {tmp_path}/otherdays/b.1.log is not compressed, it is tried again at "
        "the next rotation: No space left on device"
    ]
    log.rotate("b")
    assert log.found() == {"b.1.log.gz": "b", "b.2.log.gz": "a"}


def test_the_files_of_logback(tmp_path: Path) -> None:
    """RocketMQ's pattern is otherdays/broker.%i.log.gz. [rmq.broker.logback.xml]"""
    settings = LogSettings(folder=str(tmp_path), max_file_size=10, max_files=2, compress=True)
    file = outlets_of(settings, "")[""]
    file.open("logFolder")
    for n in range(4):
        assert file.write(f"line {n} of many\n".encode(), 1)
    file.old.wait(LONG)
    rows = {p.name: gzip.decompress(p.read_bytes()) for p in (tmp_path / "otherdays").iterdir()}
    assert rows == {"broker.1.log.gz": b"line 2 of many\n", "broker.2.log.gz": b"line 1 of many\n"}
    assert (tmp_path / "broker.log").read_bytes() == b"line 3 of many\n"
    beside = LogSettings(file=str(tmp_path / "x.log"), max_file_size=10, compress=True)
    file = outlets_of(beside, "")[""]
    file.open("logFile")
    file.write(b"a line of some bytes\n", 1)
    file.write(b"b\n", 1)
    file.old.wait(LONG)
    assert gzip.decompress((tmp_path / "x.log.1.gz").read_bytes()) == b"a line of some bytes\n"
