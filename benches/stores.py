"""Stores for benchmarks: fast producers without a socket, kill images, and what a process uses.

`PYRMQ_BENCH_FULL=1` takes the sizes that the targets are stated for; else they are smaller so that
all benchmarks together take a few minutes.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np

from pyrmq.engine import Listener, RecvBuffer, Session, Store
from pyrmq.model.properties import encode_properties
from pyrmq.model.record import encode_batch
from pyrmq.net.command import encode_request

FULL = os.environ.get("PYRMQ_BENCH_FULL") == "1"
FIELDS = {"a": "PG", "c": "TBW102", "d": 4, "f": 0, "g": 1700000000000, "h": 0}
DIGITS = 8
MARK = "#" * DIGITS
"""Where a property holds this, `Numbered` writes the message's number in decimal."""


def batch_frame(topic: str, queue: int, count: int, body: int, properties: str) -> bytes:
    """A request that sends `count` messages to one queue."""
    payload = encode_batch([(0, b"x" * body, properties)] * count)
    return encode_request(320, 1, {**FIELDS, "b": topic, "e": queue, "i": "", "m": True}, payload)


def single_frame(topic: str, queue: int, body: int, properties: str) -> bytes:
    """A request that sends one message."""
    fields = {**FIELDS, "b": topic, "e": queue, "i": properties}
    return encode_request(310, 1, fields, b"x" * body)


PROPERTIES = encode_properties({"UNIQ_KEY": "C0A8010A1F9018B4AAC247B760000000", "TAGS": "TagA"})


class Frame:
    """Bytes that were laid out once and are fed again and again."""

    def __init__(self, data: bytes) -> None:
        self.buffer = RecvBuffer(len(data))
        self.nbytes = len(data)
        self.bytes = np.frombuffer(memoryview(self.buffer), dtype=np.uint8)
        self.bytes[:] = np.frombuffer(data, dtype=np.uint8)


class Numbered(Frame):
    """A batch whose messages carry their number wherever their properties hold MARK."""

    def __init__(self, data: bytes, count: int) -> None:
        super().__init__(data)
        places, at = [], data.find(MARK.encode())
        while at >= 0:
            places.append(at)
            at = data.find(MARK.encode(), at + DIGITS)
        self.count = count
        # [message, place in it, digit] -> byte of the frame
        firsts = np.array(places).reshape(count, -1, 1)
        self.places = firsts + np.arange(DIGITS)

    def set_numbers(self, first: int) -> None:
        numbers = first + np.arange(self.count)
        powers = 10 ** np.arange(DIGITS - 1, -1, -1)
        digits = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
        self.bytes[self.places] = digits[:, None, :]


class Producer:
    """A store and one connection to it."""

    def __init__(self, root: Path, topics: int = 0, queues: int = 4, **options: object) -> None:
        self.store = Store(root, **options)
        for n in range(topics):
            self.add_topic(f"T{n}", queues)
        self.session = Session(Listener(self.store.native), b"\x7f\0\0\1", 1)

    def add_topic(self, name: str, queues: int = 4) -> None:
        self.store.set_topic(name, read_queues=queues, write_queues=queues)

    def feed(self, frame: Frame) -> None:
        """Sends; every answer but the first is trusted."""
        reply = self.session.feed(frame.buffer, frame.nbytes, 0)
        assert reply is not None
        assert b'"code":0' in reply[:20], reply[:300]

    def fill(self, count: int, body: int, properties: str = PROPERTIES, batch: int = 1000) -> None:
        """Sends `count` messages to queue 0 of T0."""
        frame = Frame(batch_frame("T0", 0, batch, body, properties))
        for _ in range(count // batch):
            self.feed(frame)

    def wait_prepared(self, ready: int = 8 << 20) -> None:
        """Waits until that many bytes are ready ahead of the writer (or there is no more)."""
        deadline = time.monotonic() + 5
        while self.store.stats()["preparedAhead"] < ready and time.monotonic() < deadline:
            time.sleep(0.001)

    def wait_indexed(self) -> None:
        while self.store.stats()["indexedWhere"] < self.store.stats()["maxPhyOffset"]:
            time.sleep(0.01)

    def close(self) -> None:
        self.store.close()


def make_kill_image(root: Path, *, queues: bool = True, index: bool = True) -> None:
    """Makes a store that was closed look killed: the abort file is there, the checkpoint is not,
    and neither are queues or index unless asked for."""
    (root / "abort").write_bytes(b"")
    (root / "checkpoint").unlink(missing_ok=True)
    if not queues:
        shutil.rmtree(root / "consumequeue")
    if not index:
        shutil.rmtree(root / "index", ignore_errors=True)


def allocated(root: Path) -> int:
    """Bytes of disk that files and folders below `root` take."""
    total = 0
    for folder, _, names in os.walk(root):
        total += os.lstat(folder).st_blocks * 512
        total += sum(os.lstat(os.path.join(folder, n)).st_blocks * 512 for n in names)
    return total


def memory() -> dict[str, int]:
    """Bytes of this process: Rss, Private_Dirty and so on, as the kernel sums them up."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    return {k: int(v.split()[0]) << 10 for k, v in (line.split(":") for line in lines)}


def thread_cpu(name: str) -> float:
    """Seconds of CPU that this process's threads of that name have taken."""
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        head, _, rest = (task / "stat").read_text().rpartition(")")
        if head.partition("(")[2] == name[:15]:
            fields = rest.split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
