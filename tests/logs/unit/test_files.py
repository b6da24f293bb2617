"""Files of the log: rotation, files that others move, disks that take nothing."""

from __future__ import annotations

import errno
import os
import select
import stat
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pyrmq.errors import ConfigError
from pyrmq.logs import files
from pyrmq.logs.files import RotatedFile, Stream


def opened(path: Path, size: int = 100, kept: int = 3, **more: Any) -> RotatedFile:
    made = RotatedFile(path, size, kept, **{"daily": False, **more})
    made.open("logFile")
    return made


def test_it_is_rotated_by_size_and_old_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "b.log"
    file = opened(path)
    for n in range(10):
        assert file.write(f"{n}\n".encode() * 30, 30)  # 60 bytes: one in a file
    assert path.read_bytes() == b"9\n" * 30
    old = {p.name: p.read_bytes()[:1] for p in path.parent.iterdir() if p != path}
    assert old == {"b.log.1": b"8", "b.log.2": b"7", "b.log.3": b"6"}
    assert stat.S_IMODE(path.stat().st_mode) & 0o007 == 0


def test_a_restart_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "b.log"
    opened(path).write(b"a\n", 1)
    opened(path).write(b"b\n", 1)
    assert path.read_bytes() == b"a\nb\n"


def test_it_is_rotated_when_a_day_begins(tmp_path: Path) -> None:
    days = [date(2026, 1, 1)]
    path = tmp_path / "b.log"
    file = opened(path, 10_000, daily=True, today=lambda: days[-1])
    file.write(b"a\n", 1)
    days.append(date(2026, 1, 2))
    file.write(b"b\n", 1)
    file.write(b"c\n", 1)
    assert path.read_bytes() == b"b\nc\n"
    assert (tmp_path / "b.log.1").read_bytes() == b"a\n"


def test_a_file_of_yesterday_is_rotated_by_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "b.log"
    path.write_bytes(b"old\n")
    os.utime(path, (0, 0))
    opened(path, 10_000, daily=True).write(b"new\n", 1)
    assert path.read_bytes() == b"new\n"
    assert (tmp_path / "b.log.1").read_bytes() == b"old\n"


@pytest.mark.parametrize("how", ["moved", "moved and made", "deleted"])
def test_a_file_that_logrotate_moved_is_opened_again(tmp_path: Path, how: str) -> None:
    path = tmp_path / "b.log"
    file = opened(path)
    file.write(b"a\n", 1)
    if how == "deleted":
        path.unlink()
    else:
        path.rename(tmp_path / "moved")
    if how == "moved and made":
        path.touch()
    file.look()
    file.write(b"b\n", 1)
    assert path.read_bytes() == b"b\n"
    file.look()
    file.write(b"c\n", 1)
    assert path.read_bytes() == b"b\nc\n"


def test_a_folder_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "b.log"
    file = opened(path)
    path.parent.rename(tmp_path / "away")
    file.look()
    assert file.write(b"b\n", 1)
    assert path.read_bytes() == b"b\n"


def test_copytruncate_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "b.log"
    file = opened(path)
    file.write(b"a" * 90, 1)
    os.truncate(path, 0)
    file.write(b"b" * 90, 1)
    assert path.read_bytes() == b"b" * 90
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^logFile: .*/file/b\.log cannot be written: Not a dir"):
        opened(tmp_path / "file" / "b.log")
    with pytest.raises(ConfigError, match="Is a directory: give the user of this process"):
        opened(tmp_path)


def test_a_pipe_without_a_reader_does_not_hang_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConfigError, match="cannot be written"):
        opened(tmp_path / "fifo")


def test_a_full_disk_loses_whole_lines_and_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.log"
    file = opened(path)
    file.write(b"a\n", 1)
    write = os.write

    def full(fd: int, data: Any) -> int:
        if len(data) < 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:3])

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "write", full)
        assert not file.write(b"bcdefg\n", 5)
    assert path.read_bytes() == b"a\n"
    assert (file.lost, file.all_lost, file.why) == (5, 5, "No space left on device")
    assert file.write(b"c\n", 1)
    assert path.read_bytes() == b"a\nc\n"


def test_a_real_full_disk() -> None:
    file = opened(Path("/dev/full"))
    assert not file.write(b"a\n", 1)
    assert file.why == "No space left on device"


def test_old_files_that_cannot_be_renamed_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.log"
    (tmp_path / "b.log.1").mkdir()
    (tmp_path / "b.log.1" / "x").touch()
    (tmp_path / "b.log.2").mkdir()
    (tmp_path / "b.log.2" / "x").touch()
    file = opened(path, kept=2)
    assert file.write(b"a" * 90, 1)
    assert file.write(b"b" * 90, 1)
    assert path.read_bytes() == b"a" * 90 + b"b" * 90


def test_a_pipe_whose_reader_is_gone_loses_lines() -> None:
    reader, writer = os.pipe()
    stream = Stream(writer)
    assert stream.write(b"a\n", 1)
    os.close(reader)
    assert not stream.write(b"b\n", 2)
    assert (stream.lost, stream.why) == (2, "Broken pipe")
    os.close(writer)


def test_a_full_pipe_that_does_not_block_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    stream = Stream(writer)
    data = b"x" * 300_000 + b"\n"
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(stream.write(data, 1)))
    thread.start()
    found = b""
    while len(found) < len(data):
        select.select([reader], [], [])
        found += os.read(reader, 1 << 20)
    thread.join()
    assert (found, done) == (data, [True])
    os.close(reader)
    os.close(writer)
