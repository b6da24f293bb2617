"""Index files written and searched from their published layout alone. [IndexFile, IndexService]

Shares no code with pyrmq. `IndexRow.add` builds the files that a row of records leads to, and
`query` looks a hash up in the bytes of such files. All integers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.store.golden_formats import index_keys, key_hash
from tests.support.records import Record, decode_record

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
BLANK_MAGIC = 0xCBD43194


def log_records(root: Path, file_size: int) -> Iterator[Record]:
    """Every record of the log in order, found by walking its files (of an open store too)."""
    for path in sorted((root / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        if not data:
            break  # the next file, being made at this moment
        assert len(data) == file_size
        while at < len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic == BLANK_MAGIC or size == 0:
                break
            yield decode_record(data, at)
            at += size


@dataclass
class IndexFile:
    """A file of `slots` slots and `places` places for entries, of which number 0 is not used."""

    slots: int
    places: int
    begin_time: int = 0
    end_time: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used: int = 0
    heads: list[int] = field(default_factory=list)
    entries: list[tuple[int, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.heads = [0] * self.slots
        self.entries = [(0, 0, 0, 0)]

    @property
    def full(self) -> bool:
        return len(self.entries) >= self.places

    def add(self, wanted: int, offset: int, time: int) -> None:
        slot = wanted % self.slots
        since = (time - self.begin_time) // 1000 if self.begin_time > 0 else 0
        self.used += self.heads[slot] == 0
        if len(self.entries) == 1:
            self.begin_time, self.begin_offset = time, offset
        self.entries.append((wanted, offset, max(since, 0), self.heads[slot]))
        self.heads[slot] = len(self.entries) - 1
        self.end_time, self.end_offset = time, offset

    def data(self) -> bytes:
        head = HEADER.pack(self.begin_time, self.end_time, self.begin_offset, self.end_offset,
                           self.used, len(self.entries))  # fmt: skip
        entries = b"".join(ENTRY.pack(*entry) for entry in self.entries)
        return (head + struct.pack(f">{self.slots}i", *self.heads) + entries).ljust(
            HEADER.size + 4 * self.slots + ENTRY.size * self.places, b"\0"
        )


class IndexRow:
    """The files of an index that has seen these records."""

    def __init__(self, slots: int, places: int, records: Iterable[Record] = ()) -> None:
        self.slots, self.places = slots, places
        self.files: list[IndexFile] = []
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        for key in index_keys(record):
            if not self.files:
                self.files.append(IndexFile(self.slots, self.places))
            elif self.files[-1].full:
                last = self.files[-1]
                ends = (last.end_time, last.end_time, last.end_offset, last.end_offset)
                self.files.append(IndexFile(self.slots, self.places, *ends))
            wanted = key_hash(record.topic, key)
            self.files[-1].add(wanted, record.physical_offset, record.store_timestamp)

    def data(self) -> list[bytes]:
        return [file.data() for file in self.files]


def query(files: list[bytes], slots: int, wanted: int, begin: int, end: int) -> list[int]:
    """Physical offsets under a hash, newest first, without a bound. [IndexService.queryOffset]"""
    found: list[int] = []
    for data in reversed(files):
        first, last, _, _, _, count = HEADER.unpack_from(data)
        if begin <= last and end >= first:
            (at,) = struct.unpack_from(">i", data, HEADER.size + 4 * (wanted % slots))
            while 0 < at < count:
                key, offset, seconds, previous = ENTRY.unpack_from(
                    data, HEADER.size + 4 * slots + ENTRY.size * at
                )
                time = first + seconds * 1000
                if key == wanted and begin <= time <= end:
                    found.append(offset)
                if time < begin:
                    break
                at = previous
        if first < begin:
            break
    return found
