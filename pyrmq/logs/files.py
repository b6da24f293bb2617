"""A file of the log: appended to, rotated by size or by day, opened again where somebody moved it.

Nothing here raises while a server runs. What cannot be written is counted, and the next line that
can be is preceded by one that says so.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.logs.old_files import OldFiles

MODE = 0o640
"""Who may read a log: names of topics and addresses are in it."""
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
"""Not blocking: to open a named pipe that nobody reads would wait for ever."""
PATIENCE = 1.0
"""Seconds between two looks at whether a pipe takes something."""
PAUSE = 60.0
"""Seconds until the next try, where old files cannot be renamed."""


class Outlet:
    """Where lines go."""

    lost = 0
    """Lines that could not be written, and that no line has told of yet."""
    all_lost = 0
    """Those and the ones before."""
    why = ""
    """Why the last ones could not be written."""
    encoding = "utf-8"
    name = "stderr"

    def write(self, data: bytes, lines: int) -> bool:
        """Whether all of it is written."""
        raise NotImplementedError

    def look(self) -> None:
        """About once a second: whether the place is still the one that is meant."""

    def close(self) -> None:
        """Nothing is written any more."""

    def _lose(self, lines: int, error: OSError) -> bool:
        self.lost += lines
        self.all_lost += lines
        self.why = error.strerror or str(error)
        return False


def write_all(fd: int, data: bytes, goes_on: Callable[[], bool]) -> None:
    """Waits where a pipe is full, while `goes_on`. OSError."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            if not goes_on():
                raise
            select.select([], [fd], [], PATIENCE)


class Stream(Outlet):
    """A descriptor that others own: stderr."""

    def __init__(self, fd: int, encoding: str = "utf-8") -> None:
        self._fd = fd
        self._ends = False
        self.encoding = encoding

    def write(self, data: bytes, lines: int) -> bool:
        try:
            write_all(self._fd, data, lambda: not self._ends)
        except OSError as e:
            return self._lose(lines, e)
        return True

    def close(self) -> None:
        self._ends = True


class RotatedFile(Outlet):
    """`max_size`: bytes of the file, then it is rotated; `daily`: also when a day begins (local
    time). `kept`: how many old ones stay; `old(n)` is the name of the n-th, 1 is the newest;
    `compress`: each of them becomes a .gz."""

    def __init__(
        self,
        path: Path,
        max_size: int,
        kept: int,
        daily: bool,
        old: Callable[[int], Path] | None = None,
        today: Callable[[], date] = date.today,
        *,
        compress: bool = False,
    ) -> None:
        self.path = path
        self.name = str(path)
        self._max_size = max_size
        self._daily = daily
        name = old or (lambda n: path.with_name(f"{path.name}.{n}"))
        self.old = OldFiles(kept, name, compresses=compress)
        self._today = today
        self._fd = -1
        self._day = today()
        self._is_regular = True
        self._place = (0, 0)
        self._half_line = False
        self._not_before = 0.0
        self._ends = False

    def open(self, key: str) -> None:
        """For the start. ConfigError names the key that says where the file is."""
        try:
            self._open()
        except OSError as e:
            raise ConfigError(
                f"{key}: {escape(self.path)} cannot be written: {e.strerror}: give the user of "
                "this process the right to write there, or name another place"
            ) from None
        self.old.compress()  # what a process before has left

    def _open(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        fd = os.open(self.path, FLAGS, MODE)
        found = os.fstat(fd)
        self._fd, self._place = fd, (found.st_dev, found.st_ino)
        self._is_regular = stat.S_ISREG(found.st_mode)
        self._day = date.fromtimestamp(found.st_mtime) if found.st_size else self._today()

    def write(self, data: bytes, lines: int) -> bool:
        try:
            if self._fd < 0:
                self._open()
            size = self._rotated(len(data))
        except OSError as e:
            return self._lose(lines, e)
        try:
            write_all(self._fd, b"\n" + data if self._half_line else data, lambda: not self._ends)
        except OSError as e:
            self._cut(size)
            return self._lose(lines, e)
        self._half_line = False
        return True

    def _cut(self, size: int) -> None:
        """Takes back what a full disk took of some lines."""
        if self._is_regular:
            try:
                os.ftruncate(self._fd, size)
            except OSError:
                self._half_line = True

    def _rotated(self, more: int) -> int:
        """Rotates where it is time; the size of the file then. OSError if the file is gone."""
        size = os.fstat(self._fd).st_size if self._is_regular else 0
        is_old = self._daily and self._day != self._today()
        if not size or not (is_old or size + more > self._max_size):
            if is_old:
                self._day = self._today()
            return size
        if time.monotonic() < self._not_before:
            return size
        try:
            self.old.take(self.path)
        except OSError:
            # Nothing is lost: the file grows, and what is full then says so.
            self._not_before = time.monotonic() + PAUSE
            return size
        self._leave()
        self._open()
        return 0

    def look(self) -> None:
        if self._fd < 0:
            return
        try:
            found = self.path.stat()
            place = found.st_dev, found.st_ino
        except OSError:
            place = (0, 0)
        if place != self._place:
            self._leave()
            with suppress(OSError):  # the next line tries again, and says why not
                self._open()

    def _leave(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def close(self) -> None:
        """The descriptor stays open: a thread may hang in a write to it."""
        self._ends = True
        self.old.close()
