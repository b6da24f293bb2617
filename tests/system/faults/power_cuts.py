"""What a power cut leaves of the files that follow the log: queues, batch queues, extension files.

Flushed is a prefix of each of them: what belongs to records that the checkpoint speaks of. Of what
is behind, over any number of files, each block is there or not, whatever comes before or behind it.
A disk that lies gives an older version of a block, or the content of another place or file.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyrmq.engine import Delays, Listener, Session, Store, Transactions
from tests.support.records import encode_properties
from tests.support.transactions import half_command
from tests.support.wire import encode
from tests.system.faults.bases import made_constant
from tests.system.faults.expected import Stored, scan
from tests.system.faults.images import Image, base_of, checkpoint, log_files, take, write

BLOCK = 64
"""What these disks write at once, bytes: some entries and a part of one, as 4 KiB are."""
UNITS = {"consumequeue": 20, "batchconsumequeue": 46, "consumequeue_ext": 20}
"""Bytes of an entry, by folder."""
LOWEST_ADDRESS = -(1 << 63)
DELAYED, HALVES = 24, 24
COMMITTED = [n for n in range(HALVES) if n % 3 == 0 and n < 18]
ROLLED_BACK = [n for n in range(HALVES) if n % 3 == 1 and n < 18]
KINDS: dict[str, dict[str, Any]] = {
    "simple": {},
    "ext": {"queue_ext": True, "queue_ext_file_size": 170},
    "batch": {"batch_topics": ["T", "Orders", "Quiet"], "batch_queue_file_size": 460},
}
SIZES: dict[str, Any] = {
    "commit_log_file_size": 8192,
    "consume_queue_file_size": 200,
    "index_enable": False,
    "message_delay_level": "1s 5s",
}
Queue = tuple[str, int]


@dataclass(frozen=True)
class Made:
    """The store of a killed process, all of whose pages are there, without a checkpoint.

    `records`: of the whole log, in order, one second apart. `progress`: how far the delay levels
    were, and of what log end that speaks.
    """

    options: dict[str, Any]
    image: Image
    records: list[Stored]
    progress: tuple[list[int], int]

    @property
    def log_size(self) -> int:
        return int(self.options["commit_log_file_size"])


def make(kind: str, root: Path) -> Made:
    """Plain messages of a busy queue, of a few others and of one that ends early; transactions of
    which some wait; delayed messages of which a half is delivered."""
    options = {**SIZES, **KINDS[kind]}
    store = Store(root / "made", **options)
    try:
        progress = fill(store, batch=kind == "batch")
        made = made_constant(take(root / "made"), SIZES["commit_log_file_size"])
    finally:
        store.close()
    # The queues are made anew with these times.
    write({**{n: made[n] for n in log_files(made)}, "abort": b"1"}, root / "again", holes=True)
    store = Store(root / "again", **options)
    try:
        image = take(root / "again")
    finally:
        store.close()
    image.pop("checkpoint", None)
    records, _ = scan(image, SIZES["commit_log_file_size"])
    return Made(options, image, records, progress)


def fill(store: Store, *, batch: bool) -> tuple[list[int], int]:
    for topic in ("T", "Orders", "Quiet"):
        store.set_topic(topic, read_queues=4, write_queues=4, batch=batch)
    for topic in ("Tx", "Late"):
        store.set_topic(topic, read_queues=1, write_queues=1)
    for n in range(20):
        put(store, "Quiet", 0, n)
    engine = Transactions(store.native)
    session = Session(Listener(store.native, transactions=engine), bytes([10, 9, 8, 7]), 40_000)
    for n in range(HALVES):
        command = half_command("Tx", b"half %d" % n, group="G", key=f"half-{n}")
        assert session.feed_bytes(encode(command), 0) is not None
        properties = {"DELAY": "1", "REAL_TOPIC": "Late", "REAL_QID": "0", "TAGS": "late"}
        store.put("SCHEDULE_TOPIC_XXXX", 0, b"late %d" % n, encode_properties(properties))
        for _ in range(3):
            put(store, "T", 0, n)
        put(store, "Orders", n % 3, n)
        if n == HALVES // 2:
            delays = Delays(store.native, offsets=[0, 0], log_end=0)
            delays.deliver(1 << 50, 1 << 20)
            progress = delays.progress()
    for n in range(18):
        if n in COMMITTED or n in ROLLED_BACK:
            engine.settle(n, n in COMMITTED)
            put(store, "T", 0, n)
    engine.write_owed()
    for n in range(60):
        put(store, "T", 0, n)
        put(store, "Orders", n % 3, n)
    return progress


def put(store: Store, topic: str, queue_id: int, n: int) -> None:
    properties = {"KEYS": f"key{n}", "TAGS": ("red", "green", "CANCELLED")[n % 3]}
    store.put(topic, queue_id, b"%s %d." % (topic.encode(), n) * 3, encode_properties(properties))


Loss = Callable[["Area", "Cut"], bytes]
"""What is left of a file set, of which all up to `Area.kept` is flushed."""


@dataclass(frozen=True)
class Area:
    """The files of one queue, or of its extension, as one: `kept` bytes are flushed. `elsewhere`:
    the content of other files."""

    name: str
    content: bytes
    kept: int
    file_size: int
    elsewhere: bytes


@dataclass(frozen=True)
class Cut:
    """One power cut. `durable`: number of the last record that the checkpoint speaks of, None:
    there is no checkpoint; `log_end`: where the log ends, None: all of it is there."""

    durable: int | None
    loss: str
    number: int = 0
    log_end: int | None = None

    def draw(self, name: str) -> random.Random:
        return random.Random(f"{self.loss}:{self.number}:{name}")


def apply(cut: Cut, made: Made) -> Image:
    image = dict(made.image)
    end = 0
    if cut.durable is not None:
        last = made.records[cut.durable]
        end = last.end
        image["checkpoint"] = checkpoint(last.record.store_timestamp, end)
    if cut.log_end is not None:
        for name in log_files(image):
            kept = min(max(cut.log_end - base_of(name), 0), made.log_size)
            image[name] = image[name][:kept].ljust(made.log_size, b"\0")
    sets: dict[str, list[str]] = {}
    for name in sorted(image):
        if name.split("/")[0] in UNITS:
            sets.setdefault(name.rsplit("/", 1)[0], []).append(name)
    contents = {folder: b"".join(image[name] for name in names) for folder, names in sets.items()}
    for folder, names in sets.items():
        size = len(image[names[0]])
        elsewhere = b"".join(c for other, c in contents.items() if other != folder)
        elsewhere += image[log_files(image)[0]]
        area = Area(folder, contents[folder], flushed(folder, contents, end), size, elsewhere)
        left = LOSSES[cut.loss](area, cut)
        assert len(left) == len(area.content)
        assert left[: area.kept] == area.content[: area.kept]
        for n, name in enumerate(names):
            image[name] = left[n * size : (n + 1) * size]
    return image


def flushed(folder: str, contents: dict[str, bytes], end: int) -> int:
    """Bytes that belong to records below the physical offset `end`."""
    root, _, queue = folder.partition("/")
    entries = contents[f"consumequeue/{queue}"] if root == "consumequeue_ext" else contents[folder]
    unit = UNITS["consumequeue" if root == "consumequeue_ext" else root]
    count = units = 0
    for at in range(0, len(entries) - unit + 1, unit):
        phys, size, code = struct.unpack_from(">qiq", entries, at)
        if size == 0 or phys >= end:
            break
        count += 1
        units = code - LOWEST_ADDRESS + 20
    return units if root == "consumequeue_ext" and count else count * unit


def blocks(area: Area) -> range:
    """Where the blocks start that were not flushed, or not whole."""
    return range(area.kept - area.kept % BLOCK, len(area.content), BLOCK)


def nothing(area: Area, cut: Cut) -> bytes:
    return area.content


def tail(area: Area, cut: Cut) -> bytes:
    """The last `number` files are blank, as far as they were not flushed."""
    start = max(len(area.content) - cut.number * area.file_size, area.kept, 0)
    return area.content[:start].ljust(len(area.content), b"\0")


def hole(area: Area, cut: Cut) -> bytes:
    """File `number` behind the flushed part is blank, those behind it are there."""
    start = area.kept - area.kept % area.file_size + cut.number * area.file_size
    start, end = max(start, area.kept), min(start + area.file_size, len(area.content))
    return area.content if start >= end else over(area, start, bytes(end - start))


def some(area: Area, cut: Cut) -> bytes:
    """Any blocks are lost."""
    draw, left = cut.draw(area.name), area
    share = draw.choice((0.1, 0.5, 0.9))
    for at in blocks(area):
        if draw.random() < share:
            left = replace(left, content=over(left, at, bytes(BLOCK)))
    return left.content


def older(area: Area, cut: Cut) -> bytes:
    """Any blocks have the content that they had some entries earlier."""
    draw, left = cut.draw(area.name), area
    for at in blocks(area):
        if draw.random() < 0.5:
            start = at + draw.randrange(0, BLOCK)
            left = replace(left, content=over(left, start, bytes(at + BLOCK - start)))
    return left.content


def misplaced(area: Area, cut: Cut) -> bytes:
    """Any blocks have the content of another one, of these files or of others."""
    draw, left = cut.draw(area.name), area
    for at in blocks(area):
        if at >= area.kept and draw.random() < 0.2:
            source = draw.choice((area.content, area.elsewhere))
            other = draw.choice(range(0, len(source), BLOCK))
            left = replace(left, content=over(left, at, source[other : other + BLOCK]))
    return left.content


def over(area: Area, start: int, new: bytes) -> bytes:
    """The content with other bytes from `start` on, as far as nothing flushed is touched."""
    skipped = max(area.kept - start, 0)
    start, new = start + skipped, new[skipped:][: max(len(area.content) - start - skipped, 0)]
    return area.content[:start] + new + area.content[start + len(new) :]


LOSSES: dict[str, Loss] = {
    "nothing": nothing, "tail": tail, "hole": hole, "some": some, "older": older,
    "misplaced": misplaced,
}  # fmt: skip
