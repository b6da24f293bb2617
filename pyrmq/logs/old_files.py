"""The old files of a log: numbered, 1 is the newest; compressed by a thread, if that is wanted.

Each number has one file, `broker.1.log` or `broker.1.log.gz`: both forms may stand beside each
other after a change of the configuration.
"""

from __future__ import annotations

import gzip
import logging
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyrmq.escape import escape

log = logging.getLogger("pyrmq.logs")

SUFFIX = ".gz"
PART = ".part"
"""Behind the name of a file that is being compressed."""
LEVEL = 6
STEP = 1 << 20
"""Bytes that are compressed between two looks at the end of the process."""
NICE = 10
"""How much the thread gives way to the broker."""


class OldFiles:
    """`kept`: how many there may be; `name(n)` is the n-th without compression. `compresses`: a
    thread makes a .gz of each."""

    def __init__(self, kept: int, name: Callable[[int], Path], *, compresses: bool = False) -> None:
        self._kept = kept
        self.name = name
        self._compresses = compresses
        self._lock = threading.Lock()
        """Held while names change."""
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()

    def take(self, path: Path) -> None:
        """Makes a file the newest of the old ones. OSError where that cannot be: all of them are
        there still."""
        with self._lock:
            for n in range(self._kept - 1, 0, -1):
                self._move(n, n + 1)
            newest = self.name(1)
            newest.parent.mkdir(parents=True, exist_ok=True)
            path.replace(newest)
            if self._kept == 1:
                _packed(newest).unlink(missing_ok=True)
        self.compress()

    def _move(self, old: int, new: int) -> None:
        """Renames one file, and forgets the one that had the new number in the other form."""
        forms = [self.name(old), _packed(self.name(old))]
        to = [self.name(new), _packed(self.name(new))]
        if not any(form.exists() for form in forms):
            return
        for form, place in zip(forms, to, strict=True):
            if form.exists():
                form.replace(place)
            else:
                place.unlink(missing_ok=True)

    def compress(self) -> None:
        """Has the thread look for files that are to be compressed. Does not wait."""
        if not self._compresses or self._ends.is_set():
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pyrmq-log-gz", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Nothing is compressed any more. A file that is not finished stays as it was."""
        self._ends.set()

    def wait(self, seconds: float) -> None:
        """Until nothing is left to compress."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        while True:
            path = None
            try:
                with self._lock:
                    path = None if self._ends.is_set() else self._next()
                    if path is None:
                        self._thread = None
                        return
                self._compress(path)
            except OSError as e:
                with self._lock:
                    self._thread = None  # the next rotation tries again
                log.warning(
                    "the old log file %s is not compressed, it is tried again at the next "
                    "rotation: %s",
                    escape(path or self.name(1)),
                    escape(e.strerror or e),
                )
                return

    def _next(self) -> Path | None:
        """The oldest file that is not compressed. The caller has the lock."""
        for n in range(self._kept, 0, -1):
            path = self.name(n)
            if not path.is_file():
                continue
            if _packed(path).exists():  # a kill came between the last two steps of `_compress`
                path.unlink()
            else:
                return path
        return None

    def _compress(self, path: Path) -> None:
        """The file keeps its name until all of the other one is on disk: a kill loses nothing."""
        part = self.name(1)
        part = part.with_name(f"{part.name}{SUFFIX}{PART}")
        with path.open("rb") as source:
            found = os.fstat(source.fileno())
            part.unlink(missing_ok=True)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with open(os.open(part, flags, stat.S_IMODE(found.st_mode)), "wb") as target:
                    with gzip.GzipFile("", "wb", LEVEL, target, found.st_mtime) as packed:
                        while data := source.read(STEP):
                            if self._ends.is_set():
                                return
                            packed.write(data)
                    target.flush()
                    os.fsync(target.fileno())
                with self._lock:
                    self._put(part, found)
            finally:
                part.unlink(missing_ok=True)

    def _put(self, part: Path, found: os.stat_result) -> None:
        """Takes the place of the file, which rotations may have renamed meanwhile."""
        for n in range(1, self._kept + 1):
            path = self.name(n)
            with suppress(FileNotFoundError):
                now = path.stat()
                if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino):
                    os.utime(part, ns=(found.st_atime_ns, found.st_mtime_ns))
                    part.replace(_packed(path))
                    path.unlink()
                    return


def _packed(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)
