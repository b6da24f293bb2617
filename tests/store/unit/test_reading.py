"""The rules of a read: status and next offset for every case, limits, file borders."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Store
from tests.store.tools import (
    FOUND,
    NO_MATCH,
    NO_MESSAGE,
    OVERFLOW_BADLY,
    OVERFLOW_ONE,
    REMOVING,
    TOO_SMALL,
    data,
    image,
    log_file,
    opened,
    overwrite,
    queue_files,
)
from tests.support.records import decode_records, java_hash

TAGS = "aabbbbbbbbcabaabababbbbbb"
"""Tag of each message; a queue file holds ten entries."""
BODY = 700


def hashes(tags: str) -> array[int]:
    return array("i", [java_hash(tag) for tag in tags])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("read")


@pytest.fixture(scope="module")
def store(root: Path) -> Iterator[Store]:
    """`T-0`: 25 records of 799 bytes in log files of 4 KiB; `T-1` has none."""
    with opened(root, commit_log_file_size=4096) as store:
        for n, tag in enumerate(TAGS):
            store.put("T", 0, bytes([n]) * BODY, f"TAGS\x01{tag}\x02")
        store.notify_on_arrival("T", 1)
        yield store


def test_status_of_queues_without_messages(store: Store):
    for topic, queue_id in [("T", 1), ("T", 2), ("U", 0), ("T", 2**32 - 1)]:
        for offset in (0, 1, -1, 2**62):
            result = store.get(topic, queue_id, offset)
            assert (result.status, result.next_offset) == (NO_MESSAGE, 0)
            assert (result.min_offset, result.max_offset) == (0, 0)
        assert store.queue_range(topic, queue_id) == (0, 0)


@pytest.mark.parametrize(
    ("offset", "tags", "status", "following", "offsets"),
    [
        (-1, "", TOO_SMALL, 0, []),
        (-(2**63), "", TOO_SMALL, 0, []),
        (25, "", OVERFLOW_ONE, 25, []),
        (26, "", OVERFLOW_BADLY, 25, []),
        (2**63 - 1, "", OVERFLOW_BADLY, 25, []),
        (0, "", FOUND, 10, range(10)),
        (9, "", FOUND, 10, [9]),
        (10, "", FOUND, 20, range(10, 20)),
        (24, "", FOUND, 25, [24]),
        (0, "a", FOUND, 10, [0, 1]),
        (0, "c", NO_MATCH, 10, []),
        (10, "c", FOUND, 20, [10]),
        (11, "c", NO_MATCH, 20, []),
        (20, "a", NO_MATCH, 25, []),
        (10, "ac", FOUND, 20, [10, 11, 13, 14, 16, 18]),
        (15, "z", NO_MATCH, 20, []),
        (25, "z", OVERFLOW_ONE, 25, []),
    ],
)
def test_status_and_next_offset(store: Store, offset, tags, status, following, offsets):
    result = store.get("T", 0, offset, tags=hashes(tags) if tags else None)
    assert (result.status, result.next_offset) == (status, following)
    assert (result.min_offset, result.max_offset) == (0, 25)
    assert [r.queue_offset for r in decode_records(data(result))] == list(offsets)


@pytest.mark.parametrize(
    ("offset", "tags", "count", "following", "offsets"),
    [
        (0, "", 1, 1, [0]),
        (0, "", 0, 1, [0]),
        (3, "", 4, 7, [3, 4, 5, 6]),
        # A full answer ends at the next entry, whether that would match or not.
        (0, "a", 2, 2, [0, 1]),
        (10, "a", 2, 14, [11, 13]),
        (10, "c", 1, 11, [10]),
    ],
)
def test_count_limit(store: Store, offset, tags, count, following, offsets):
    result = store.get("T", 0, offset, count, tags=hashes(tags) if tags else None)
    assert (result.status, result.next_offset) == (FOUND, following)
    assert [r.queue_offset for r in decode_records(data(result))] == list(offsets)


def test_byte_limit_and_the_first_message(store: Store):
    size = store.get("T", 0, 0, 1).nbytes
    for limit, expected in [(0, 1), (1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2)]:
        result = store.get("T", 0, 0, max_bytes=limit)
        assert (result.count, result.next_offset) == (expected, expected)


def test_neighbours_in_one_file_are_one_slice(store: Store):
    """Records of 799 bytes: five in a file of 4 KiB, so ten of them lie in two files."""
    size = store.get("T", 0, 0, 1).nbytes
    assert size == 700 + 92 + 7
    assert [len(piece) for piece in store.get("T", 0, 0).slices] == [5 * size, 5 * size]
    picked = store.get("T", 0, 10, tags=hashes("a")).slices
    assert [len(piece) // size for piece in picked] == [1, 2, 1, 1]


def test_figures_of_a_transfer(tmp_path: Path):
    options = {"transfer_memory": (3000, 32), "transfer_disk": (2500, 2)}
    with opened(tmp_path, **options) as store:
        for _ in range(10):
            store.put("T", 0, b"x" * 908)
        assert store.get("T", 0, 0).count == 3
        assert store.in_memory("T", 0, 0)
        assert not store.in_memory("T", 0, 10)
    with opened(tmp_path, **options, in_memory_ratio=0) as store:
        assert not store.in_memory("T", 0, 0)
        assert store.get("T", 0, 0).count == 2
        store.put("T", 0, b"x" * 5000)
        assert store.get("T", 0, 10).count == 1


@pytest.mark.parametrize(("limit", "count", "following"), [(100, 1, 5), (100, 7, 7), (20, 1, 1)])
def test_entries_looked_at(tmp_path: Path, limit: int, count: int, following: int):
    """At most maxFilterMessageSize bytes of entries, or as many as messages are asked for."""
    with opened(tmp_path, max_filter_bytes=limit) as store:
        for _ in range(10):
            store.put("T", 0, b"b", "TAGS\x01a\x02")
        result = store.get("T", 0, 0, count, tags=hashes("z"))
        assert (result.status, result.next_offset) == (NO_MATCH, following)


def test_at_most_256_records_of_one_read(tmp_path: Path):
    options = {"consume_queue_file_size": 6000, "transfer_memory": (1 << 20, 1000)}
    with opened(tmp_path, **options) as store:
        for n in range(300):
            store.put("T", n % 2, b"b")
            store.put("T", 0, b"b")
        result = store.get("T", 0, 0, 1000)
        assert (result.count, result.next_offset) == (256, 256)
        data(result)


def test_tags_from_any_buffer_of_int32(store: Store):
    raw = struct.pack("=i", java_hash("c"))
    for tags in (hashes("c"), memoryview(raw), bytearray(raw)):
        assert store.get("T", 0, 10, tags=tags).count == 1
    assert store.get("T", 0, 10, tags=array("i")).count == 10


def test_a_hash_is_compared_as_int32_and_sign_extended(tmp_path: Path):
    with opened(tmp_path) as store:
        store.put("T", 0, b"b", "TAGS\x01CANCELLED\x02")
        assert store.get("T", 0, 0, tags=array("i", [-1031784143])).status == FOUND
        assert store.get("T", 0, 0, tags=array("i", [1031784143])).status == NO_MATCH


@pytest.fixture
def late(store: Store, root: Path, tmp_path: Path) -> Path:
    """The same store without its first log file, which held the offsets 0 to 4."""
    copy = image(root, tmp_path / "late")
    log_file(copy).unlink()
    return copy


def test_offsets_below_the_least(late: Path):
    with opened(late, commit_log_file_size=4096) as store:
        assert store.queue_range("T", 0) == (5, 25)
        for offset in (-1, 0, 4):
            result = store.get("T", 0, offset)
            assert (result.status, result.next_offset) == (TOO_SMALL, 5)
        result = store.get("T", 0, 5)
        assert (result.status, result.next_offset, result.count) == (FOUND, 10, 5)


def test_records_whose_file_is_gone(late: Path):
    """Entries between good ones that point below the log's start."""
    (late / "abort").unlink()
    with opened(late, commit_log_file_size=4096, max_filter_bytes=40) as store:
        assert store.queue_range("T", 0) == (5, 25)
        for index in (6, 7):  # a start would make them again
            overwrite(queue_files(late)[1], index * 20, struct.pack(">qiq", 0, 799, java_hash("a")))
        result = store.get("T", 0, 16, 2)
        assert (result.status, result.next_offset) == (REMOVING, 18)
        result = store.get("T", 0, 17, 2)
        assert (result.status, result.next_offset, result.count) == (FOUND, 19, 1)
        result = store.get("T", 0, 17, 2, tags=hashes("z"))
        assert (result.status, result.next_offset) == (NO_MATCH, 19)
        result = store.get("T", 0, 17, 2, tags=hashes("ab"))
        assert (result.status, result.next_offset) == (FOUND, 19)
