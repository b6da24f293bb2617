"""Appending through the Python call, beside memcpy of the same bytes into a populated mapping."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pyrmq.engine import Listener, Session, Store
from pyrmq.model.properties import encode_properties
from pyrmq.model.record import encode_batch
from pyrmq.net.command import encode_request

MAPPING = 256 << 20
READY = 8 << 20
"""Bytes that must be prepared ahead of the writer before a round starts."""
PROPERTIES = encode_properties({"UNIQ_KEY": "C0A8010A1F9018B4AAC247B760000000", "TAGS": "TagA"})
FIELDS = {"a": "PG", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000000, "h": 0}


class Appender:
    """A session on a store whose window of prepared pages has grown to its full size."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "store")
        self.store.set_topic("T", read_queues=4, write_queues=4)
        self.session = Session(Listener(self.store.native), b"\x7f\0\0\1", 1)
        filler = self.batch(1000, 1024)
        for _ in range(80):
            self.feed(filler)
        self.wait_prepared()

    @staticmethod
    def batch(count: int, body: int) -> bytes:
        payload = encode_batch([(0, b"x" * body, PROPERTIES)] * count)
        return encode_request(320, 1, {**FIELDS, "i": "", "m": True}, payload)

    @staticmethod
    def single(body: int) -> bytes:
        return encode_request(310, 1, {**FIELDS, "i": PROPERTIES}, b"x" * body)

    def feed(self, frame: bytes) -> None:
        reply = self.session.feed_bytes(frame, 0)
        assert reply is not None
        assert b'"code":0' in reply[:20]

    def stored(self, frame: bytes) -> int:
        """Bytes of log that a frame gives."""
        before = self.store.stats()["maxPhyOffset"]
        self.feed(frame)
        return self.store.stats()["maxPhyOffset"] - before

    def wait_prepared(self) -> None:
        deadline = time.monotonic() + 5
        while self.store.stats()["preparedAhead"] < READY and time.monotonic() < deadline:
            time.sleep(0.001)


@pytest.fixture
def appender(folder: Path) -> Iterator[Appender]:
    appender = Appender(folder)
    yield appender
    appender.store.close()


@pytest.fixture
def memcpy(folder: Path) -> Callable[[int], None]:
    """Copies n bytes to the next place of a mapped file whose pages are all there."""
    path = folder / "mapping"
    with path.open("w+b") as f:
        f.truncate(MAPPING)
        mapping = mmap.mmap(f.fileno(), MAPPING)
    target = np.frombuffer(mapping, dtype=np.uint8)
    target[:] = 1
    source = np.full(8 << 20, 7, dtype=np.uint8)
    place = 0

    def copy(n: int) -> None:
        nonlocal place
        if place + n > MAPPING:
            place = 0
        np.copyto(target[place : place + n], source[:n])
        place += n

    return copy


@pytest.mark.parametrize(("body", "target"), [(1024, ">= 0.5"), (100, "")])
@pytest.mark.benchmark(group="append, a batch of 1,000")
def test_append_batch(body, target, appender, memcpy, paired, report) -> None:
    frame = appender.batch(1000, body)
    size = appender.stored(frame)
    result = paired(
        lambda: appender.feed(frame),
        lambda: memcpy(size),
        rounds=60,
        before=appender.wait_prepared,
    )
    report(f"{result.speed:.2f} of memcpy", target)
    report(f"{result.cpu_ns(1000):.0f} ns of CPU a message", "<= 120 ns" if body == 100 else "")


@pytest.mark.parametrize("body", [1024, 100])
@pytest.mark.benchmark(group="append, 64 single sends in one feed")
def test_append_single(body, appender, memcpy, paired, report) -> None:
    frame = appender.single(body) * 64
    size = appender.stored(frame)
    result = paired(
        lambda: appender.feed(frame),
        lambda: memcpy(size),
        rounds=300,
        before=appender.wait_prepared,
    )
    report(f"{result.speed:.2f} of memcpy, frames read and answered included")
    report(f"{result.cpu_ns(64):.0f} ns of CPU a message")
