"""What a killed process, or a machine that lost its power, leaves of a store's folder."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLANK = 0xCBD43194
RECORD = 0xDAA320A7
LEFT_OUT = frozenset({"index", "lock"})
"""The index is made anew from the log, and the lock is the running process's."""


@dataclass(frozen=True, slots=True)
class Place:
    """A record in the log."""

    phys: int
    size: int
    store_timestamp: int

    @property
    def end(self) -> int:
        return self.phys + self.size


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def records(root: Path) -> Iterator[Place]:
    """Every record of the log, in order."""
    for path in log_files(root):
        base, data, at = int(path.name), path.read_bytes(), 0
        while at + 64 <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic != RECORD or size <= 0:
                if magic == BLANK and size > 0:
                    break
                return
            (time,) = struct.unpack_from(">q", data, at + 56)
            yield Place(base + at, size, time)
            at += size


def copy(root: Path, target: Path) -> None:
    """The folder as it is now. What was never written is a hole."""
    target.mkdir(parents=True)
    for path in sorted(root.iterdir()):
        if path.name in LEFT_OUT:
            continue
        if path.is_dir():
            copy(path, target / path.name)
            continue
        data = path.read_bytes()
        with (target / path.name).open("wb") as file:
            file.write(data.rstrip(b"\0"))
            file.truncate(len(data))


def cut(root: Path, at: int, torn: int = 0) -> None:
    """Takes everything behind a physical offset out of the log. Of the record there `torn` bytes
    stay, but for its length, which is written last."""
    for path in log_files(root):
        base, size = int(path.name), path.stat().st_size
        keep = min(max(at - base, 0), size)
        with path.open("r+b") as file:
            piece = b""
            if torn and keep < size:
                file.seek(keep)
                piece = bytes(4) + file.read(torn)[4:]
                torn = 0
            file.truncate(keep)
            file.truncate(size)
            file.seek(keep)
            file.write(piece[: size - keep])


def forget_entries(root: Path, at: int) -> None:
    """Takes the queue entries of records behind a physical offset away: they were not on disk."""
    for path in sorted((root / "consumequeue").glob("*/*/*")):
        data = bytearray(path.read_bytes())
        for place in range(0, len(data), 20):
            phys, size = struct.unpack_from(">qi", data, place)
            if size and phys >= at:
                data[place : place + 20] = bytes(20)
        path.write_bytes(data)


def note_durable(root: Path, places: list[Place], flushed: int) -> None:
    """A checkpoint that says what is on disk as exactly as it can: all up to the last millisecond
    of which every record lies below `flushed`. A reader takes three seconds off, as a flush is
    noted only after it happened; here that time is added, for a run takes less."""
    behind = [p.store_timestamp for p in places if p.end > flushed]
    below = [p.store_timestamp for p in places if p.end <= flushed]
    time = min(behind) - 1 if behind else max(below, default=0)
    if time in below or time > 0:
        point = struct.pack(">qqq", time + 3000, time + 3000, 0)
        (root / "checkpoint").write_bytes(point.ljust(4096, b"\0"))
