"""Reads the file systems of folders: space, kind, options; and what a store holds."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pyrmq.doctor.facts import Disk, Folder

MAX_QUEUES = 4_000_000
QUEUES_SECONDS = 3.0
"""Longest that queues are counted."""
_OCTAL = re.compile(r"\\([0-7]{3})")


def disk_of(folder: Folder, mountinfo: str) -> Disk:
    """The file system of a folder. It may take as long as the file system likes."""
    there = folder.path.absolute()
    try:
        while not there.exists() and there != there.parent:
            there = there.parent
        found = os.statvfs(there)
        writable = os.access(there, os.W_OK | os.X_OK)
        real = there.resolve()
    except OSError as e:
        return Disk(folder, problem=str(e.strerror or e))
    kind, mount, options = mount_of(real, mountinfo)
    return Disk(
        folder,
        exists=folder.path.exists(),
        writable=writable,
        # As the engine counts: without what is reserved for root.
        total=(found.f_blocks - found.f_bfree + found.f_bavail) * found.f_frsize,
        free=found.f_bavail * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_favail,
        file_system=kind,
        mount=mount,
        options=options,
    )


def mount_of(path: Path, mountinfo: str) -> tuple[str, str, frozenset[str]]:
    """Kind, place and options of the mount that has a path, of /proc/self/mountinfo."""
    best = ("", "/", frozenset[str]())
    depth = -1
    for mount, kind, options in _mounts(mountinfo):
        if path.is_relative_to(mount) and len(Path(mount).parts) >= depth:
            best, depth = (kind, mount, options), len(Path(mount).parts)
    return best


def _mounts(text: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    for line in text.splitlines():
        own, _, rest = line.partition(" - ")
        left, right = own.split(" "), rest.split(" ")
        if len(left) < 6 or len(right) < 3:
            continue
        mount = _OCTAL.sub(lambda m: chr(int(m[1], 8)), left[4])
        yield mount, right[0], frozenset([*left[5].split(","), *right[2].split(",")])


def is_locked(lock: Path, proc: Path = Path("/proc")) -> bool | None:
    """Whether another process holds the lock of a store, or of a KV configuration. None if that is
    not known. It takes no lock, so no server that starts meanwhile is hindered."""
    if not lock.exists():
        return False
    try:
        with lock.open("rb") as file:
            return _record_locked(file.fileno()) or _file_locked(os.fstat(file.fileno()), proc)
    except OSError:
        return None


def _record_locked(fd: int) -> bool:
    """A broker's: an open-file-description lock on the first byte."""
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    return bool(struct.unpack("hhqqi4x", found)[0] != fcntl.F_UNLCK)


def _file_locked(file: os.stat_result, proc: Path) -> bool:
    """A name server's: a lock on the whole file, as the kernel lists it."""
    device = file.st_dev
    wanted = f"{os.major(device):02x}:{os.minor(device):02x}:{file.st_ino}"
    lines = (proc / "locks").read_text().splitlines()
    return any("FLOCK" in line and wanted in line.split() for line in lines)


def queues_of(store: Path) -> int | None:
    """The consume queues of a store, or those that were counted in time; None if there are none."""
    end, found = time.monotonic() + QUEUES_SECONDS, 0
    with suppress(OSError):
        with os.scandir(store / "consumequeue") as topics:
            for topic in topics:
                with suppress(OSError), os.scandir(topic.path) as queues:
                    found += sum(1 for _ in queues)
                if found > MAX_QUEUES or time.monotonic() > end:
                    break
        return found
    return None
