"""One flipped bit where it hurts most, one test each: what the random images found."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyrmq.engine import Store
from pyrmq.errors import PyrmqError, StoreDamagedError
from tests.support.records import decode_record
from tests.support.wire import WireError
from tests.system.faults.bases import Base
from tests.system.faults.expected import Stored
from tests.system.faults.flip_check import EVERYDAY
from tests.system.faults.images import Image, checkpoint, log_files, queue_files, write

FOUND = 0
QUEUE = ("T", 1)
MANY = 10_000


@contextmanager
def opened(image: Image, base: Base, root: Path) -> Iterator[Store]:
    write(image, root, holes=False)
    store = Store(root, **base.options)
    try:
        yield store
    finally:
        store.close()


def flip(image: Image, name: str, at: int, bit: int = 0) -> Image:
    """The image with one bit of one byte turned."""
    content = bytearray(image[name])
    content[at] ^= 1 << bit
    return {**image, name: bytes(content)}


def place(stored: Stored, base: Base) -> tuple[str, int]:
    """The log file and the position in it of a record."""
    return f"commitlog/{stored.phys // base.log_size * base.log_size:020d}", (
        stored.phys % base.log_size
    )


def bodies(store: Store, base: Base) -> dict[int, bytes]:
    """The body at each offset of the queue that can be read, as a client sees single messages."""
    found = {}
    for offset in range(len(base.queues()[QUEUE])):
        result = store.get(*QUEUE, offset, 1)
        raw = b"".join(bytes(piece) for piece in result.slices)
        try:
            found[result.next_offset - 1] = decode_record(raw).body  # damaged ones are passed over
        except WireError:
            continue
    return found


def answers(store: Store) -> dict[int, bytes]:
    """The body at each queue offset as a consumer gets them, many at a time: what is no record
    hides what follows in its answer."""
    found: dict[int, bytes] = {}
    offset, end = store.queue_range(*QUEUE)
    while offset < end and len(found) < MANY:
        result = store.get(*QUEUE, offset)
        data = b"".join(bytes(piece) for piece in result.slices)
        while data:
            try:
                record = decode_record(data)
            except WireError:
                break
            found[record.queue_offset] = record.body
            data = data[record.size :]
        assert result.next_offset > offset
        offset = result.next_offset
    return found


def check_offsets(store: Store, base: Base, *, lost: int) -> None:
    """Every message but one is where it was, in single reads and in an answer of many."""
    expected = {n: stored.record.body for n, stored in enumerate(base.queues()[QUEUE]) if n != lost}
    assert {n: body for n, body in bodies(store, base).items() if n != lost} == expected
    assert {n: body for n, body in answers(store).items() if n != lost} == expected


def test_a_body_in_a_file_that_is_not_scanned(bases: dict[str, Base], room: Path):
    """It is served as it is: the CRC in the record is what shows it."""
    base = bases["many files"]
    stored = next(s for s in base.queues()[QUEUE] if len(s.record.body) > 10)
    name, at = place(stored, base)
    harmed = at + stored.raw.index(stored.record.body)
    assert name != log_files(base.stopped)[-1]
    with opened(flip(base.stopped, name, harmed), base, room) as store:
        result = store.get(*QUEUE, stored.record.queue_offset, 1)
        raw = b"".join(bytes(piece) for piece in result.slices)
        assert result.status == FOUND
        with pytest.raises(WireError, match="body CRC"):
            decode_record(raw)


def test_an_entry_that_points_to_another_message(bases: dict[str, Base], room: Path):
    base = bases["many files"]
    first, other = base.queues()[QUEUE][2:4]
    name = queue_files(base.stopped)[QUEUE][0]
    entry = struct.pack(">qi", other.phys, len(other.raw))
    content = base.stopped[name]
    image = {**base.stopped, name: content[:40] + entry + content[52:]}
    with opened(image, base, room) as store:
        assert bodies(store, base).get(2) in (None, first.record.body)


@pytest.mark.parametrize("at", [7, 11])
def test_an_entry_that_points_into_a_message(bases: dict[str, Base], room: Path, at: int):
    """Its physical offset or size is off by one: what is no record hides all that follows."""
    base = bases["many files"]
    name = queue_files(base.stopped)[QUEUE][0]
    with opened(flip(base.stopped, name, 2 * 20 + at), base, room) as store:
        check_offsets(store, base, lost=2)


def test_a_length_in_a_record_of_a_file_that_is_not_scanned(bases: dict[str, Base], room: Path):
    base = bases["many files"]
    name, at = place(base.queues()[QUEUE][2], base)
    with opened(flip(base.stopped, name, at + 87, 1), base, room) as store:
        check_offsets(store, base, lost=2)


@pytest.mark.parametrize(
    ("field", "bit"),
    [
        pytest.param(12, 6, id="queueId"),
        pytest.param(20, 6, id="queueOffset, 2**62 more"),
        pytest.param(20, 7, id="queueOffset, negative"),
        pytest.param(27, 1, id="queueOffset, 2 less"),
        pytest.param(27, 0, id="queueOffset, 1 more"),
        pytest.param(27, 6, id="queueOffset, 64 more"),
    ],
)
def test_a_place_in_a_record_of_a_killed_store(
    bases: dict[str, Base], room: Path, field: int, bit: int
):
    """The queues are made anew from the log: a record that claims another queue or offset must
    not move those that follow. To refuse the store, naming the queue, is allowed."""
    base = bases["many files"]
    name, at = place(base.queues()[QUEUE][2], base)
    image = flip(base.killed, name, at + field, bit)
    refusal = "T/1: the log goes on at queue offset"
    try:
        with opened(image, base, room) as store:
            check_offsets(store, base, lost=2)
    except StoreDamagedError as error:
        if refusal not in str(error):
            raise


@pytest.mark.parametrize("bit", [1, 10, 40, 59, 60, 61, 62])
def test_the_queue_offset_of_a_queues_first_record(bases: dict[str, Base], room: Path, bit: int):
    """The log is there from its start, so every queue begins at 0."""
    base = bases["many files"]
    name, at = place(base.queues()[QUEUE][0], base)
    image = flip(base.killed, name, at + 27 - bit // 8, bit % 8)
    with opened(image, base, room) as store:
        check_offsets(store, base, lost=0)


@pytest.mark.parametrize("bit", range(56, 64))
def test_a_queue_offset_that_no_queue_file_can_have(bases: dict[str, Base], room: Path, bit: int):
    """20 times the offset does not fit 64 bits: the store must go on or say why not."""
    base = bases["one file"]
    name, at = place(base.queues()[QUEUE][0], base)
    image = flip(base.killed, name, at + 27 - bit // 8, bit % 8)
    with opened(image, base, room) as store:
        try:
            _, _, offset, _ = store.put(*QUEUE, b"new")
        except PyrmqError:
            return
        raw = b"".join(bytes(piece) for piece in store.get(*QUEUE, offset, 1).slices)
        assert decode_record(raw).body == b"new"


def test_valid_records_behind_damage_are_not_dropped_in_silence(
    bases: dict[str, Base], room: Path, capfd: pytest.CaptureFixture[str]
):
    """A flipped body in the middle of a killed store: all that follows goes, so somebody must be
    told how much."""
    base = bases["one file"]
    stored = next(s for s in base.queues()[QUEUE] if len(s.record.body) > 10)
    name, at = place(stored, base)
    harmed = at + stored.raw.index(stored.record.body)
    with opened(flip(base.killed, name, harmed), base, room) as store:
        assert store.stats()["maxPhyOffset"] == stored.phys
    told = capfd.readouterr().err.splitlines()
    assert any(str(stored.phys) in line and EVERYDAY not in line for line in told)


def test_durable_records_behind_damage_in_the_same_file(bases: dict[str, Base], room: Path):
    """The checkpoint says that all is on disk: to cut the log at one flipped bit would delete
    messages that were acknowledged."""
    base = bases["one file"]
    stored = next(s for s in base.queues()[QUEUE] if len(s.record.body) > 10)
    name, at = place(stored, base)
    harmed = flip(base.killed, name, at + stored.raw.index(stored.record.body))
    harmed["checkpoint"] = checkpoint(base.records[-1].record.store_timestamp, base.end)
    try:
        with opened(harmed, base, room):
            pass
    except StoreDamagedError:
        pass
    left = (room / name).read_bytes()
    assert base.records[-1].raw in left
