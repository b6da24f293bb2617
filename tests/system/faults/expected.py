"""What a damaged store must come back with, computed from its bytes and the published rules alone.

Sources: storage format (record, ConsumeQueue entry), [CommitLog.recoverNormally,
CommitLog.recoverAbnormally], and the rules of this project: nothing known to be on disk is given up
for damage in front of it, and every other message keeps its queue offset. See `predict`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.support.records import Record, decode_properties, decode_record, java_hash
from tests.support.wire import WireError
from tests.system.faults.images import Image, base_of, known_flushed, log_files, queue_files

MAGIC_BLANK = 0xCBD43194
MAGIC_START = bytes.fromhex("DAA320")
"""What the magic numbers of both versions of a record begin with."""
DELAYS = [1, 5, 10, 30, *(60 * n for n in (*range(1, 11), 20, 30, 60, 120))]
"""Seconds of the delay levels from 1 on."""
TOPIC = re.compile(r"(?=.{1,127}$|%RETRY%|%DLQ%)[%|A-Za-z0-9_-]{1,255}")
Queue = tuple[str, int]
Entry = tuple[int, int, int]
"""Physical offset, record size, tag code."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record at its place in the log (bytes)."""

    phys: int
    raw: bytes
    record: Record

    @property
    def end(self) -> int:
        return self.phys + len(self.raw)


Row = list[Stored | None]
"""A queue: the record at each queue offset from 0 on, None where it is lost."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What reading the log from file number `first` on finds. `records`: all that is served,
    those of the files before among them; `end`: where the log ends; `left_out`: damaged bytes
    [start, end) in front of records that are known to be on disk; `cut_off`: the valid record that
    goes with the log's end; `refused`: a later file is known to be complete."""

    first: int
    records: list[Stored]
    end: int
    left_out: tuple[tuple[int, int], ...]
    cut_off: int | None
    refused: bool


def read_place(content: bytes, at: int, phys: int) -> Stored | None:
    """The valid record at a place of a file, if there is one."""
    try:
        record = decode_record(content, at)
    except WireError:
        return None
    if record.physical_offset != phys:
        return None
    return Stored(phys, content[at : at + record.size], record)


def is_cut(stored: Stored, content: bytes, base: int) -> bool:
    """Whether a crash has cut the write of a record: zeros where its text ends, and behind it."""
    text = stored.record.properties_raw or stored.record.topic.encode()
    behind = content[stored.end - base :][:8]
    return text.endswith(b"\0") and not any(behind)


def next_place(content: bytes, at: int, base: int) -> Stored | None:
    """The first valid record behind a place of the file that starts at `base`."""
    while (at := content.find(MAGIC_START, at + 5) - 4) > 0:
        if stored := read_place(content, at, base + at):
            return stored
    return None


def walk(
    image: Image, log_size: int, first: int, known: Callable[[Stored], bool], clean: bool
) -> Walk:
    """Reads the files from number `first` on. `known`: whether a record is known to be on disk;
    such ones are not given up for damage in front of them. Unless `clean`, a record whose write was
    cut is none."""
    names = log_files(image)
    found = [s for name in names[:first] for s in valid_in(image[name], base_of(name), log_size)]
    left_out: list[tuple[int, int]] = []
    end = base_of(names[first]) if names else 0
    for name in names[first:]:
        content, base = image[name], base_of(name)
        end = base
        while not ends_blank(content, end - base, log_size):
            stored = read_place(content, end - base, end)
            if stored is not None and not clean and is_cut(stored, content, base):
                told = known_flushed(image.get("checkpoint"))[2]
                if stored.end > told and not vouched(image, stored):
                    stored = None
            if stored is None:
                stored = next_place(content, end - base, base)
                if stored is None or not known(stored):
                    cut_off = None if stored is None else stored.phys
                    return Walk(first, found, end, tuple(left_out), cut_off, False)
                left_out.append((end, stored.phys))
            found.append(stored)
            end = stored.end
        end = base + log_size
    return Walk(first, found, end, tuple(left_out), None, False)


def ends_blank(content: bytes, at: int, log_size: int) -> bool:
    """Whether the rest of a file is a blank record."""
    return log_size - at >= 8 and struct.unpack_from(">I", content, at + 4)[0] == MAGIC_BLANK


def valid_in(content: bytes, base: int, log_size: int) -> Iterator[Stored]:
    """Every valid record of a file, whatever stands between them."""
    at = 0
    while at < log_size:
        stored = read_place(content, at, base + at) or next_place(content, at, base)
        if stored is None:
            return
        yield stored
        at = stored.end - base


def scan(image: Image, log_size: int) -> tuple[list[Stored], int]:
    """The valid records up to the first damage, and where they end."""
    found = walk(image, log_size, 0, lambda _: False, clean=False)
    return found.records, found.end


def vouched(image: Image, stored: Stored) -> bool:
    """Whether the entry of a record's place in its queue leads to it."""
    at = stored.record.queue_offset * 20
    for name in queue_files(image).get((stored.record.topic, stored.record.queue_id), ()):
        if base_of(name) <= at < base_of(name) + len(image[name]):
            phys, size = struct.unpack_from(">qi", image[name], at - base_of(name))
            return (phys, size) == (stored.phys, len(stored.raw))
    return False


def predict(image: Image, log_size: int, clean: bool) -> list[Walk]:
    """The outcomes that are allowed for an image, the one that reads all of the log first.

    A record whose write a crash has cut is none. The valid prefix is kept and what is behind it
    goes, but for records that are known to be on disk: all after a clean stop, else those below the
    checkpoint's confirmPhyOffset; without one, those that their queues know and that are 3 s older
    than its physicMsgTimestamp. In front of such a record of the same file,
    damaged bytes are left out. If a later file begins with one, or there is no checkpoint to tell,
    the store is refused. Files before one that is known to be in the queues need not be read:
    several outcomes.
    """
    physic, flushed, end = known_flushed(image.get("checkpoint"))
    names = log_files(image)

    def known(stored: Stored) -> bool:
        if clean or end > 0:
            return clean or stored.end <= end
        old = physic > 0 and stored.record.store_timestamp <= physic - 3000
        return old and vouched(image, stored)

    walks: list[Walk] = []
    for first, name in enumerate(names):
        begin = read_place(image[name], 0, base_of(name))
        covered = begin is not None and (clean or begin.record.store_timestamp <= flushed)
        if first > 0 and not covered:
            continue
        found = walk(image, log_size, first, known, clean)
        behind = next((n for n in names if base_of(n) > found.end), None)
        follower = read_place(image[behind], 0, base_of(behind)) if behind else None
        if follower is not None:
            time = follower.record.store_timestamp
            found = replace(found, refused=clean or physic == 0 or time <= flushed)
        walks.append(found)
    return walks


def queue_of(record: Record) -> Queue | None:
    """The queue that a record belongs to; None for half and rolled back messages, and when the
    topic (of which a part may be lost) is none."""
    kind = record.sys_flag & 0xC
    if kind in (0x4, 0xC) or not TOPIC.fullmatch(record.topic):
        return None
    return record.topic, record.queue_id


def tag_code(record: Record) -> int:
    properties = decode_properties(record.properties_raw.decode(errors="replace"))
    if record.topic == "SCHEDULE_TOPIC_XXXX" and "DELAY" in properties:
        return record.store_timestamp + 1000 * DELAYS[int(properties["DELAY"]) - 1]
    return java_hash(properties["TAGS"]) if "TAGS" in properties else 0


def keys_of(record: Record) -> list[str]:
    """What a message is found by: its unique key and each of its KEYS. [IndexService]"""
    properties = decode_properties(record.properties_raw.decode(errors="replace"))
    unique = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
    return unique + [key for key in properties.get("KEYS", "").split(" ") if key]


def rows(records: list[Stored]) -> dict[Queue, Row]:
    """The queues up to their last records, each at its own queue offset."""
    found: dict[Queue, Row] = {}
    for stored in records:
        if queue := queue_of(stored.record):
            row = found.setdefault(queue, [])
            offset = stored.record.queue_offset
            assert offset >= len(row), "two records for one place"
            row += [None] * (offset - len(row))
            row.append(stored)
    return found


def entry_of(stored: Stored) -> Entry:
    return stored.phys, len(stored.raw), tag_code(stored.record)
