"""Cuts a log that went apart from its master's, so that it is the beginning of that again.

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
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.net import fastjson
from pyrmq.net.address import Address
from pyrmq.net.client.blocking_channel import BlockingChannel
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls
from pyrmq.net.command import check_success

TIMEOUT = 10.0
"""Seconds that the master may take to answer."""
PIECE = 1 << 20
_HEAD = struct.Struct(">ii")
_RECORDS = (0xDAA320A7 - (1 << 32), 0xDAA320AB - (1 << 32))
_MIN = 91

Theirs = Callable[[int], bytes | None]
"""The record that the master has at a physical offset; None if it has none there."""


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


def at_master(channel: BlockingChannel) -> Theirs:
    """Asks the master by VIEW_MESSAGE_BY_ID. ConnectError, RequestTimeoutError, ResponseError."""

    def theirs(offset: int) -> bytes | None:
        answer = channel.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset}, timeout=TIMEOUT)
        if answer.code == ResponseCode.SYSTEM_ERROR:  # what both makes say of no record
            return None
        return bytes(check_success(answer).body)

    return theirs


def end_of_master(channel: BlockingChannel) -> int:
    """Where the master's log ends. ConnectError, RequestTimeoutError, ResponseError."""
    answer = channel.call(RequestCode.GET_BROKER_RUNTIME_INFO, {}, timeout=TIMEOUT)
    table = fastjson.loads_object(check_success(answer).body).get("table")
    text = str(table.get("commitLogMaxOffset", "")) if isinstance(table, dict) else ""
    if not text.isdecimal() or len(text) > 19:
        raise ResponseError("it does not say where its log ends (commitLogMaxOffset)")
    return int(text)


def check_is_master(
    address: Address, credentials: Credentials | None = None, tls: Tls | None = None
) -> BlockingChannel:
    """A connection to a broker that answers as a master. ConnectError, ResponseError."""

    channel = BlockingChannel(address, credentials=credentials, tls=tls)
    answer = channel.call(RequestCode.GET_BROKER_HA_STATUS, {}, timeout=TIMEOUT)
    if answer.code == 0 and fastjson.loads_object(answer.body).get("master") is False:
        raise ResponseError("this broker is a slave: name the master")
    return channel


def find(log: Log, theirs: Theirs, masters_end: int) -> Apart | None:
    """Where the log went apart; None if nothing of it is at the master. What both have is a
    beginning, so the last record that is the same is searched for."""

    def same(record: tuple[int, int]) -> bool:
        return theirs(record[0]) == log.read(*record)

    for base, path in reversed(log.files):
        records = list(log.records(base, path))
        if not records or not same(records[0]):
            continue
        low, high = 0, len(records)  # the first is the same; the one at `high` is not, or none
        while high - low > 1:
            middle = (low + high) // 2
            if same(records[middle]):
                low = middle
            else:
                high = middle
        offset = sum(records[low])
        file_end = base + log.file_size
        if low == len(records) - 1 and file_end <= min(log.end, masters_end):
            # The rest of the file is blank here. The master may have a record there.
            offset = file_end if theirs(offset) is None else offset
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
