"""Making a log that went apart from its master's the beginning of that again.

A broker that was master and comes back has records that the one which replaced it never got. They
are put aside, never deleted, and the log is cut behind the last record that both have. The next
start brings queues and index in line with it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyrmq.errors import ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.net import fastjson
from pyrmq.net.address import Address
from pyrmq.net.blocking_channel import BlockingChannel

TIMEOUT = 10.0
"""Seconds that the master may take to answer."""
PIECE = 1 << 20
_HEAD = struct.Struct(">ii")
_RECORDS = (0xDAA320A7 - (1 << 32), 0xDAA320AB - (1 << 32))
_MIN = 91

Same = Callable[[int, bytes], bool]
"""Whether the master has this record at this physical offset."""


@dataclass(frozen=True, slots=True)
class Log:
    """The files of a log, oldest first: (physical offset, path); and where it ends."""

    files: list[tuple[int, Path]]
    file_size: int
    end: int

    @classmethod
    def of(cls, folders: list[Path], file_size: int, end: int) -> Log:
        found = [
            (int(path.name), path)
            for folder in folders
            for path in folder.iterdir()
            if len(path.name) == 20 and path.name.isdecimal()
        ]
        return cls(sorted(one for one in found if one[0] < end), file_size, end)

    def records(self, base: int, path: Path) -> Iterator[tuple[int, int]]:
        """(physical offset, length) of each record of a file."""
        with path.open("rb") as file:
            at, end = base, min(base + self.file_size, self.end)
            while at + _HEAD.size <= end:
                file.seek(at - base)
                length, magic = _HEAD.unpack(file.read(_HEAD.size))
                if magic not in _RECORDS or length < _MIN or at + length > end:
                    return
                yield at, length
                at += length

    def read(self, offset: int, length: int) -> bytes:
        base, path = next(one for one in reversed(self.files) if one[0] <= offset)
        with path.open("rb") as file:
            file.seek(offset - base)
            return file.read(length)


@dataclass(frozen=True, slots=True)
class Apart:
    """Where a log went apart from its master's, and how much stands behind."""

    offset: int
    length: int
    """Bytes behind it."""
    records: list[int]
    """Physical offsets of the records behind it."""


def at_master(channel: BlockingChannel) -> Same:
    """Asks the master by VIEW_MESSAGE_BY_ID. ConnectError, RequestTimeoutError."""

    def same(offset: int, record: bytes) -> bool:
        answer = channel.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset}, timeout=TIMEOUT)
        return answer.code == 0 and bytes(answer.body) == record

    return same


def check_is_master(address: Address) -> BlockingChannel:
    """A connection to a broker that answers as a master. ConnectError, ResponseError."""

    channel = BlockingChannel(address)
    answer = channel.call(RequestCode.GET_BROKER_HA_STATUS, {}, timeout=TIMEOUT)
    if answer.code == 0 and fastjson.loads_object(answer.body).get("master") is False:
        raise ResponseError("this broker is a slave: name the master")
    return channel


def find(log: Log, same: Same) -> Apart | None:
    """Where the log went apart; None if nothing of it is at the master. What both have is a
    beginning, so the last record that is the same is searched for."""
    for base, path in reversed(log.files):
        records = list(log.records(base, path))
        if not records or not same(records[0][0], log.read(*records[0])):
            continue
        low, high = 0, len(records)  # the first is the same; the one at `high` is not, or none
        while high - low > 1:
            middle = (low + high) // 2
            if same(records[middle][0], log.read(*records[middle])):
                low = middle
            else:
                high = middle
        offset = sum(records[low])
        if low == len(records) - 1 and log.end >= base + log.file_size:
            offset = base + log.file_size  # the rest of the file is blank
        behind = [at for at, _ in records[low + 1 :]]
        for later, at_path in log.files:
            if later > base:
                behind += [at for at, _ in log.records(later, at_path)]
        return Apart(offset, log.end - offset, behind)
    return None


def put_aside(log: Log, apart: Apart, target: Path) -> None:
    """Copies what stands behind `apart` into a new file, which is on disk when this returns."""
    with target.open("xb") as out:
        for base, path in log.files:
            start, end = max(apart.offset, base), min(log.end, base + log.file_size)
            if start >= end:
                continue
            with path.open("rb") as source:
                source.seek(start - base)
                left = end - start
                while left and (piece := source.read(min(left, PIECE))):
                    out.write(piece)
                    left -= len(piece)
        out.flush()
        os.fsync(out.fileno())


def cut(log: Log, apart: Apart) -> None:
    """Ends the log at `apart`: later files go, newest first, the rest of its file reads as zero."""
    for base, path in reversed(log.files):
        if base >= apart.offset:
            path.unlink()
            _sync(path.parent)
            continue
        with path.open("r+b") as file:
            file.seek(apart.offset - base)
            left = log.file_size - (apart.offset - base)
            while left > 0:
                left -= file.write(bytes(min(left, PIECE)))
            file.flush()
            os.fsync(file.fileno())
        return


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
