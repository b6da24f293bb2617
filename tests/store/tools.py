"""What the store tests share: small files, kill images, reading everything back."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyrmq.engine import GetResult, Store
from tests.support.records import Record, decode_records

LOG_FILE = 64 * 1024
"""Bytes of a commit-log file in these tests."""
QUEUE_FILE = 10 * 20
"""Bytes of a consume-queue file in these tests: ten entries."""

FOUND, NO_MATCH, REMOVING, FOUND_NULL, OVERFLOW_BADLY, OVERFLOW_ONE, TOO_SMALL = range(7)
NO_MESSAGE = 8
"""GetMessageStatus, in RocketMQ's order."""

GOLDEN = Path(__file__).parent / "data" / "store-5.3.3.tar.gz"
"""A store that RocketMQ wrote and stopped cleanly, with `expected.json` beside it."""

Queue = tuple[str, int]
Entry = tuple[int, int, int]
"""A consume-queue entry: physical offset, record size, tag code."""


PAGE = 4096


def unpack(archive: Path, folder: Path) -> Path:
    """Unpacks an archive of test data; returns the folder."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder


def open_store(root: Path, **options: Any) -> Store:
    sizes = {"commit_log_file_size": LOG_FILE, "consume_queue_file_size": QUEUE_FILE}
    return Store(root, **{**sizes, **options})


@contextmanager
def opened(root: Path, **options: Any) -> Iterator[Store]:
    """A store that is closed cleanly at the end."""
    store = open_store(root, **options)
    try:
        yield store
    finally:
        store.close()


def image(root: Path, target: Path) -> Path:
    """A copy of the folder of an open store: what a kill -9 at this moment leaves.

    As in the original, what was never written is a hole.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root, target, copy_function=copy_sparse)
    return target


def copy_sparse(source: str, target: str) -> None:
    """Copies a file without its pages of zeros; its holes are not even read."""
    with open(source, "rb") as old, open(target, "wb") as new:
        end = os.fstat(old.fileno()).st_size
        for start, stop in _extents(old.fileno(), end):
            old.seek(start)
            for at in range(start, stop, PAGE):
                piece = old.read(min(PAGE, stop - at))
                if piece.strip(b"\0"):
                    new.seek(at)
                    new.write(piece)
        new.truncate(end)


def _extents(fd: int, end: int) -> Iterator[tuple[int, int]]:
    """Where a file has data: from, to."""
    at = 0
    while at < end:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as e:
            if e.errno != errno.ENXIO:  # behind the last data
                raise
            return
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, at


def data(result: GetResult) -> bytes:
    """The bytes of a read; its figures must agree with them."""
    joined = b"".join(bytes(piece) for piece in result.slices)
    assert result.nbytes == len(joined)
    assert result.count == len(decode_records(joined))
    assert (result.status == FOUND) == (result.count > 0)
    return joined


def read_queue(store: Store, topic: str, queue_id: int, **options: Any) -> list[Record]:
    """Every record of a queue, in order, from its least offset to its end."""
    offset, end = store.queue_range(topic, queue_id)
    found: list[Record] = []
    while offset < end:
        result = store.get(topic, queue_id, offset, **options)
        assert result.status == FOUND, f"{topic}-{queue_id} at {offset}: status {result.status}"
        assert result.next_offset > offset
        found += decode_records(data(result))
        offset = result.next_offset
    return found


def read_all(store: Store) -> dict[Queue, list[Record]]:
    """Every queue that has records."""
    queues = {(topic, queue_id): read_queue(store, topic, queue_id)
              for topic, queue_id, *_ in store.queues()}  # fmt: skip
    return {queue: records for queue, records in queues.items() if records}


def bodies(store: Store, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [record.body for record in read_queue(store, topic, queue_id)]


def log_file(root: Path, base: int = 0) -> Path:
    """The commit-log file that starts at a physical offset."""
    return root / "commitlog" / f"{base:020d}"


def rename_topic(root: Path, old: str, new: str) -> None:
    """Has the records and queues of a closed store say that they are of another topic, as those of
    a broker that allows its name. No checksum covers the topic; both names have as many bytes."""
    before, after = old.encode(), new.encode()
    assert len(before) == len(after)
    for path in (root / "commitlog").iterdir():
        raw, mark = path.read_bytes(), bytes([len(before)])
        path.write_bytes(raw.replace(mark + before, mark + after))
    queues = root / "consumequeue"
    (queues / old).rename(queues / new)


def queue_files(root: Path, topic: str = "T", queue_id: int = 0) -> list[Path]:
    return sorted((root / "consumequeue" / topic / str(queue_id)).iterdir())


def queue_entries(root: Path, topic: str = "T", queue_id: int = 0) -> list[Entry]:
    """The entries on disk, without the zeros behind the last."""
    raw = b"".join(path.read_bytes() for path in queue_files(root, topic, queue_id))
    entries = list(struct.iter_unpack(">qiq", raw))
    while entries and entries[-1] == (0, 0, 0):
        entries.pop()
    return entries


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def overwrite(path: Path, at: int, new: bytes) -> None:
    """Writes into the middle of a file; its length stays."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(new)
