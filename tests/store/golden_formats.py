"""Decoders of every store file, from the published layouts alone, and the golden stores for them.

They share no code with pyrmq. Records are decoded by tests.support.records. All integers are
big-endian. Sources in brackets are RocketMQ's classes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.store import tools
from tests.support.records import Record, decode_properties, decode_record, java_hash

ARCHIVE = Path(__file__).parent / "data" / "formats-5.3.3.tar.gz"
LOG_FILE = 4096
QUEUE_FILE = 200
BATCH_FILE = 138
EXT_FILE = 160
INDEX_SLOTS = 16
INDEX_ENTRIES = {"broker": 24, "direct": 12, "crc": 12}
STORES = tuple(INDEX_ENTRIES)
BLANK_MAGIC = 0xCBD43194
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LONG_RETRY = "%RETRY%long-" + "g" * 150


def unpack(folder: Path) -> dict[str, Any]:
    """The golden stores below a folder; what is known of them."""
    tools.unpack(ARCHIVE, folder)
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return expected


class Blank(NamedTuple):
    """The end of a log file that the next record did not fit in."""

    position: int
    size: int
    untouched: bool
    """Whether the bytes behind its eight are zero."""


def read_log(root: Path) -> tuple[list[Record], list[Blank]]:
    """All records in order, each where it says it is. [CommitLog.checkMessageAndReturnSize]"""
    records: list[Record] = []
    blanks: list[Blank] = []
    for path in sorted((root / "commitlog").iterdir()):
        base, data, at = int(path.name), path.read_bytes(), 0
        assert len(data) == LOG_FILE
        assert len(path.name) == 20
        while at < len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic == BLANK_MAGIC:
                blanks.append(Blank(base + at, size, not any(data[at + 8 :])))
                assert at + size == len(data)
                break
            if size == 0:
                assert not any(data[at:])
                return records, blanks
            record = decode_record(data, at)
            assert record.physical_offset == base + at
            records.append(record)
            at += record.size
    return records, blanks


def numbered(folder: Path, file_size: int) -> bytes:
    """The files of a queue one after the other; their names are byte offsets."""
    files = sorted(folder.iterdir())
    assert [int(path.name) for path in files] == [n * file_size for n in range(len(files))]
    data = [path.read_bytes() for path in files]
    assert {len(one) for one in data} == {file_size}
    return b"".join(data)


class Entry(NamedTuple):
    """A queue entry. [ConsumeQueue]"""

    physical_offset: int
    size: int
    tags_code: int


def read_queue(root: Path, topic: str, queue_id: int) -> list[Entry]:
    data = numbered(root / "consumequeue" / topic / str(queue_id), QUEUE_FILE)
    entries = [Entry(*fields) for fields in struct.iter_unpack(">qiq", data)]
    while entries and entries[-1] == (0, 0, 0):
        entries.pop()
    return entries


class Unit(NamedTuple):
    """A unit of the extension: what an entry's tag code below -2^31 leads to. [ConsumeQueueExt]"""

    tags_code: int
    store_time: int
    bitmap: bytes


def read_units(root: Path, topic: str, queue_id: int) -> dict[int, Unit]:
    """Units by address. -1 ends a file before its end, zeros end the last one."""
    data = numbered(root / "consumequeue_ext" / topic / str(queue_id), EXT_FILE)
    units: dict[int, Unit] = {}
    for base in range(0, len(data), EXT_FILE):
        at = base
        while at + 2 <= base + EXT_FILE:
            (size,) = struct.unpack_from(">h", data, at)
            if size <= 0:
                assert size == (-1 if base + EXT_FILE < len(data) else 0)
                break
            tags_code, store_time, length = struct.unpack_from(">qqh", data, at + 2)
            assert size == 20 + length
            units[at - (1 << 63)] = Unit(tags_code, store_time, data[at + 20 : at + size])
            at += size
    return units


class BatchEntry(NamedTuple):
    """An entry of a batch queue. [BatchConsumeQueue]"""

    physical_offset: int
    size: int
    tags_code: int
    store_time: int
    base_offset: int
    count: int
    compacted_offset: int
    reserved: int


def read_batch_queue(root: Path, topic: str, queue_id: int) -> list[BatchEntry]:
    data = numbered(root / "batchconsumequeue" / topic / str(queue_id), BATCH_FILE)
    entries = [BatchEntry(*fields) for fields in struct.iter_unpack(">qiqqqhii", data)]
    return [entry for entry in entries if entry.size > 0]


class IndexEntry(NamedTuple):
    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int


class Index:
    """One index file. [IndexFile, IndexHeader]"""

    def __init__(self, path: Path, most_entries: int) -> None:
        data = path.read_bytes()
        assert len(data) == 40 + INDEX_SLOTS * 4 + most_entries * 20
        assert len(path.name) == 17
        assert path.name.isdigit()
        fields = struct.unpack_from(">qqqqii", data)
        self.begin_time, self.end_time, self.begin_offset, self.end_offset = fields[:4]
        self.used_slots, self.next_entry = fields[4:]
        self.slots = struct.unpack_from(f">{INDEX_SLOTS}i", data, 40)
        entries = data[40 + INDEX_SLOTS * 4 :]
        self.entries = [IndexEntry(*fields) for fields in struct.iter_unpack(">iqii", entries)]
        self.full = self.next_entry >= most_entries

    def written(self) -> list[IndexEntry]:
        """Entry number 0 is never used."""
        return self.entries[1 : self.next_entry]

    def find(self, topic: str, key: str) -> list[int]:
        """Physical offsets under a key, newest first, by its slot's chain."""
        wanted = key_hash(topic, key)
        at, found = self.slots[wanted % INDEX_SLOTS], []
        while at > 0:
            entry = self.entries[at]
            if entry.key_hash == wanted:
                found.append(entry.physical_offset)
            assert entry.previous < at
            at = entry.previous
        return found


def key_hash(topic: str, key: str) -> int:
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


def read_indexes(root: Path, store: str) -> list[Index]:
    return [Index(path, INDEX_ENTRIES[store]) for path in sorted((root / "index").iterdir())]


def index_keys(record: Record) -> list[str]:
    """What a record is indexed under, in order. [IndexService.buildIndex]"""
    if record.sys_flag & 0xC == 0xC:
        return []
    properties = record.properties
    unique = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
    return unique + [key for key in properties.get("KEYS", "").split(" ") if key]


def split_inner(body: bytes) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Messages of an inner batch. [MessageDecoder.decodeMessage]"""
    at = 0
    while at < len(body):
        size, _magic, _crc, _flag, length = struct.unpack_from(">iiiii", body, at)
        content = body[at + 20 : at + 20 + length]
        (properties,) = struct.unpack_from(">h", body, at + 20 + length)
        text = body[at + 22 + length :][:properties].decode()
        assert size == 22 + length + properties
        yield content, decode_properties(text)
        at += size


def tags_code(record: Record) -> int:
    return java_hash(record.properties["TAGS"]) if "TAGS" in record.properties else 0
