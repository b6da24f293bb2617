"""Blank places in a queue: recovery leaves them where a message is lost, and every other message
must be found as before, by offset, by time, after a restart, and when old files are deleted."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from tests.support.records import decode_records
from tests.system.faults.bases import START
from tests.system.faults.expected import Stored, scan
from tests.system.faults.images import Image, checkpoint, log_files, take, write

LOG_SIZE = 4096
COUNT = 24
"""Messages of the queue."""
PER_FILE = 9
"""Messages in each file of the log."""
QUEUE = ("T", 0)
OPTIONS: dict[str, Any] = {
    "commit_log_file_size": LOG_SIZE, "consume_queue_file_size": 10 * 20, "index_enable": False,
    "flush_interval_commit_log": 1,
}  # fmt: skip


@contextmanager
def opened(root: Path, **options: Any) -> Iterator[Store]:
    store = Store(root, **{**OPTIONS, **options})
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def killed(room: Path) -> tuple[Image, list[Stored]]:
    """The log of a killed store, all of it known to be on disk; message n was stored at
    START + n s. The queue is made anew when it is opened."""
    with opened(room / "made") as store:
        for n in range(COUNT):
            store.put(*QUEUE, b"%04d" % n * 90)
        image = take(room / "made")
    image = {name: image[name] for name in log_files(image)}
    records, _ = scan(image, LOG_SIZE)
    for n, stored in enumerate(records):
        set_bytes(image, stored, 56, struct.pack(">q", START + 1000 * n))
    image |= {"abort": b"1", "checkpoint": checkpoint(START + 1000 * COUNT, records[-1].end)}
    return image, records


def set_bytes(image: Image, stored: Stored, at: int, new: bytes) -> None:
    """Overwrites bytes of a record."""
    name = f"commitlog/{stored.phys // LOG_SIZE * LOG_SIZE:020d}"
    start = stored.phys % LOG_SIZE + at
    content = image[name]
    image[name] = content[:start] + new + content[start + len(new) :]


def without(killed: tuple[Image, list[Stored]], *lost: int) -> Image:
    """The store with damaged bodies."""
    image, records = dict(killed[0]), killed[1]
    for n in lost:
        set_bytes(image, records[n], 100, b"x")
    return image


def served(store: Store, start: int = 0) -> list[int]:
    """The messages that a consumer gets who begins at a queue offset."""
    offset, found = start, []
    while offset < store.queue_range(*QUEUE)[1]:
        result = store.get(*QUEUE, offset, 5)
        found += decode_records(b"".join(bytes(piece) for piece in result.slices))
        assert result.next_offset > offset
        offset = result.next_offset
    assert [int(r.body[:4]) for r in found] == [r.queue_offset for r in found]
    return [r.queue_offset for r in found]


def but(*lost: int, start: int = 0) -> list[int]:
    return [n for n in range(start, COUNT) if n not in lost]


LOST: list[tuple[int, ...]] = [(n,) for n in range(1, COUNT - 1) if n % PER_FILE != PER_FILE - 1]
LOST += [(11, 12), (5, 12, 18), (9, 10, 11, 12, 13, 14)]
"""Never the last ones of a file: such a store is refused, as the next file is complete."""


@pytest.mark.parametrize("lost", LOST, ids=str)
def test_all_others_stay_visible(
    killed: tuple[Image, list[Stored]], room: Path, lost: tuple[int, ...]
):
    write(without(killed, *lost), room / "image", holes=False)
    for _ in range(3):
        with opened(room / "image") as store:
            assert store.queue_range(*QUEUE) == (0, COUNT)
            assert served(store) == but(*lost)


def test_a_blank_at_the_end(killed: tuple[Image, list[Stored]], room: Path):
    """The last record names a queue offset that cannot be."""
    image, records = killed
    set_bytes(image, records[-1], 20, struct.pack(">q", 1 << 50))
    write(image, room / "image", holes=False)
    for _ in range(3):
        with opened(room / "image") as store:
            assert store.queue_range(*QUEUE) == (0, COUNT)
            assert served(store) == but(COUNT - 1)


@pytest.mark.parametrize("lost", LOST, ids=str)
def test_search_by_time(killed: tuple[Image, list[Stored]], room: Path, lost: tuple[int, ...]):
    """The first message at or after a time: at most blank places are between it and the offset."""
    write(without(killed, *lost), room / "image", holes=False)
    with opened(room / "image") as store:
        for n in range(COUNT):
            offset = store.offset_by_time(*QUEUE, START + 1000 * n)
            assert served(store, offset) == but(*lost, start=n), n
            upper = store.offset_by_time(*QUEUE, START + 1000 * n, True)
            assert served(store, upper)[1:] == but(*lost, start=n + 1) or n in lost, n


@pytest.mark.parametrize(
    "lost", [(9,), (19,), (9, 10, 11), (5, 9), (15,), (16,), (18, 19)], ids=str
)
def test_retention(killed: tuple[Image, list[Stored]], room: Path, lost: tuple[int, ...]):
    """Files of the queue go only when all their messages are gone."""
    write(without(killed, *lost), room / "image", holes=False)
    with opened(room / "image", delete_file_batch_max=1) as store:
        for deleted in (1, 2):
            assert store.clean(now_ms=1 << 50, manual=True)["commitLog"] == 1
            first = next(n for n in but(*lost) if n >= deleted * PER_FILE)
            assert store.queue_range(*QUEUE)[0] in range(deleted * PER_FILE, first + 1)
            assert served(store, first) == but(*lost, start=first)
    with opened(room / "image") as store:
        assert served(store, first) == but(*lost, start=first)
