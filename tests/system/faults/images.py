"""A store's folder in memory, damaged there and written out to be opened.

Files live on a memory file system where there is one: a run opens tens of thousands of them.
PYRMQ_FAULT_DIR names another folder.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Image = dict[str, bytes]
"""Every file of a store: path below its root, content."""

SECTOR = 512
MIN_ROOM = 256 << 20
"""Bytes that a memory file system must have free to be used."""


def take(root: Path) -> Image:
    """The files below `root`, with what was never written as zeros."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def write(image: Image, root: Path, *, holes: bool) -> None:
    """Puts an image at `root`. `holes`: the zeros at a file's end are not stored, as in a file
    that was never written so far; else every byte is."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    made = set()
    for name, content in image.items():
        path = root / name
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.write(fd, content.rstrip(b"\0") if holes else content)
            os.ftruncate(fd, len(content))
        finally:
            os.close(fd)


def zeroed(content: bytes, start: int, end: int) -> bytes:
    """The same bytes with zeros in [start, end)."""
    end = min(end, len(content))
    return content[:start] + bytes(max(end - start, 0)) + content[end:] if start < end else content


def log_files(image: Image) -> list[str]:
    return sorted(name for name in image if name.startswith("commitlog/"))


def queue_files(image: Image) -> dict[tuple[str, int], list[str]]:
    """The files of each queue in order, by (topic, queue id)."""
    found: dict[tuple[str, int], list[str]] = {}
    for name in sorted(image):
        parts = name.split("/")
        if parts[0] == "consumequeue":
            found.setdefault((parts[1], int(parts[2])), []).append(name)
    return found


def index_files(image: Image) -> list[str]:
    return sorted(name for name in image if name.startswith("index/"))


def base_of(name: str) -> int:
    """The offset that a file's name states, bytes."""
    return int(name.rsplit("/", 1)[1])


def checkpoint(flushed_until: int, end: int) -> bytes:
    """A checkpoint file after which all up to this store time (ms), which is the log below `end`,
    is known to be on disk."""
    time = flushed_until + 3000
    return struct.pack(">5q", time, time, 0, 0, end).ljust(4096, b"\0")


def known_flushed(content: bytes | None) -> tuple[int, int, int]:
    """(physicMsgTimestamp, store time up to which everything is on disk, both ms; physical offset
    below which the log is). [StoreCheckpoint]"""
    if content is None or len(content) < 40:
        return 0, 0, 0
    physic, logics, _, _, end = struct.unpack_from(">5q", content)
    return physic, max(0, min(physic, logics) - 3000), end


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for images, removed at the end."""
    chosen, memory = os.environ.get("PYRMQ_FAULT_DIR"), "/dev/shm"
    if chosen is None and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MIN_ROOM:
        chosen = memory
    with tempfile.TemporaryDirectory(prefix="pyrmq-faults-", dir=chosen) as folder:
        yield Path(folder)
