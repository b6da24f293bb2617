"""The stores that are damaged: small ones with every kind of record, the same bytes every time.

Store times are replaced by one second per record, so that an image depends on its number and the
seed only: neither the time field nor what is derived from it is covered by a checksum.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrmq.engine import Listener, Session, Store
from tests.support.client import batch_command, send_command
from tests.support.records import SYS_BORN_V6, encode_properties
from tests.support.waiting import eventually
from tests.support.wire import encode
from tests.system.faults.expected import Stored, queue_of, scan
from tests.system.faults.images import Image, index_files, log_files, take, write

START = 1_700_000_000_000
"""Store time of the first record, ms."""
LONG_TOPIC = "%RETRY%" + "g" * 140
INDEX: dict[str, Any] = {"index_slots": 50, "index_entries": 60}


@dataclass(frozen=True)
class Base:
    """`killed`: with `abort`, no checkpoint; `stopped`: after a clean stop. `records`: all that the
    log holds, in order; `config`: the JSON files of a broker."""

    name: str
    options: dict[str, Any]
    killed: Image
    stopped: Image
    records: list[Stored]

    @property
    def log_size(self) -> int:
        return int(self.options["commit_log_file_size"])

    @property
    def end(self) -> int:
        return self.records[-1].end

    def queues(self) -> dict[tuple[str, int], list[Stored]]:
        """The records of each queue, in order: their places are their queue offsets."""
        found: dict[tuple[str, int], list[Stored]] = {}
        for stored in self.records:
            if queue := queue_of(stored.record):
                found.setdefault(queue, []).append(stored)
        return found


class Writer:
    """Fills an open store; what is stored differs from record to record."""

    def __init__(self, store: Store, log_size: int) -> None:
        self.store = store
        self.log_size = log_size
        self.count = 0
        for topic in ("T", "Orders", "Batch"):
            store.set_topic(topic, read_queues=4, write_queues=4)
        address = ipaddress.ip_address("2001:db8::9").packed
        self.session = Session(Listener(store.native), address, 5555)

    def put(self, topic: str, queue_id: int, size: int, **options: Any) -> int:
        """A record with a body of `size` bytes; returns where it ends."""
        n = self.count
        self.count += 1
        properties = options.pop("properties", None)
        if properties is None:
            properties = {"KEYS": f"key{n} all", "UNIQ_KEY": f"U{n:031d}", "TAGS": f"tag{n % 3}"}
        body = (b"%d.%s.%d." % (n, topic.encode()[:7], queue_id) * (size // 6 + 1))[:size]
        options = {"born_host": "10.0.0.7:4000", **options}
        phys, length, *_ = self.store.put(
            topic, queue_id, body, encode_properties(properties), **options
        )
        return int(phys + length)

    def fill(self, room: int) -> None:
        """Leaves `room` bytes of the log file free, so that the next record rolls it."""
        before = self.store.stats()["maxPhyOffset"]
        end = self.put("T", 0, 0, properties={})
        around = end - before
        while (left := -end % self.log_size - room) > around + 300:
            end = self.put("T", 0, min(200, left - 300), properties={})
        end = self.put("T", 0, left - around, properties={})
        assert -end % self.log_size == room

    def batch(self, queue_id: int, *sizes: int) -> None:
        bodies = [(bytes([66 + n]) * size, {"KEYS": f"b{n}"}) for n, size in enumerate(sizes)]
        reply = self.session.feed_bytes(
            encode(batch_command("Batch", bodies, queue_id=queue_id)), 0
        )
        assert reply is not None
        self.count += len(sizes)

    def send(self, topic: str, queue_id: int, body: bytes) -> None:
        command = send_command(topic, body, queue_id=queue_id,
                               properties={"TAGS": "sent", "UNIQ_KEY": "S"})  # fmt: skip
        assert self.session.feed_bytes(encode(command), 0) is not None
        self.count += 1

    def mixed(self) -> None:
        """Every kind of record, in several queues."""
        self.put("SCHEDULE_TOPIC_XXXX", 2, 20, properties={"DELAY": "3", "REAL_TOPIC": "T"})
        self.put("T", 0, 30)
        self.put("T", 0, 0, properties={})
        self.put("T", 1, 9, properties={"TAGS": "grün"})
        self.batch(1, 20, 1, 30)
        self.put("Half", 0, 40, sys_flag=0x4)
        self.put("T", 3, 40, sys_flag=0x8, prepared_transaction_offset=1000)
        self.put("Half", 0, 12, sys_flag=0xC)
        self.put("Orders", 3, 60, born_host="[2001:db8::7]:4000", flag=-1)
        self.send("Orders", 3, b"sent over a session")
        for n in range(12):
            self.put("T", n % 2, 10 + 7 * n)


def one_file(w: Writer) -> None:
    w.mixed()
    w.put("T", 1, 1300)  # whole sectors are inside of its body
    w.put("T", 0, 40, properties={})
    w.batch(1, 30, 200)
    w.put("Orders", 3, 90)


def rolled(w: Writer) -> None:
    """Just the blank record's header has room; two records are in the next file."""
    w.mixed()
    w.fill(8)
    w.put("T", 0, 50)
    w.put("T", 1, 120)


def rolled_long(w: Writer) -> None:
    """Long topics and IPv6 hosts; the next file holds the last record only."""
    w.mixed()
    for n in range(12):
        w.put(LONG_TOPIC, 0, 20 + n)
    w.fill(300)
    w.put(LONG_TOPIC, 0, 150, born_host="[2001:db8::7]:4000")


def many_files(w: Writer) -> None:
    w.mixed()
    for n in range(60):
        w.put(("T", "T", "Orders")[n % 3], n % 4 if n % 3 else 0, 30 + 5 * n % 170)
    w.put("T", 1, 1300)
    w.put(LONG_TOPIC, 1, 33)
    w.put("T", 0, 33, properties={"TAGS": "a"})
    w.put("T", 1, 33, properties={})


Recipe = tuple[Callable[[Writer], None], dict[str, Any]]

RECIPES: dict[str, Recipe] = {
    "one file": (one_file, {"commit_log_file_size": 16384, "consume_queue_file_size": 200}),
    "rolled": (rolled, {"commit_log_file_size": 8192, "consume_queue_file_size": 200}),
    "rolled long": (
        rolled_long,
        {
            "commit_log_file_size": 12288,
            "consume_queue_file_size": 200,
            "store_host": "[2001:db8::1]:10911",
        },
    ),
    "many files": (many_files, {"commit_log_file_size": 4096, "consume_queue_file_size": 1200}),
}


def build(name: str, root: Path) -> Base:
    """Makes the store of a recipe below `root`."""
    recipe, sizes = RECIPES[name]
    options = {**sizes, **INDEX}
    log_size = sizes["commit_log_file_size"]
    store = Store(root / "made", **options)
    try:
        recipe(Writer(store, log_size))
        made = made_constant(take(root / "made"), log_size)
    finally:
        store.close()
    # Queues and index are made anew from the log with these times.
    log_only = {name: made[name] for name in log_files(made)}
    write({**log_only, "abort": b"1"}, root / "again", holes=True)
    store = Store(root / "again", **options)
    try:
        indexed(store, store.stats()["maxPhyOffset"])
        killed = tidy(take(root / "again"))
    finally:
        store.close()
    stopped = tidy(take(root / "again"))
    records, _ = scan(killed, log_size)
    return Base(name, options, killed, stopped, records)


def indexed(store: Store, end: int) -> None:
    """Waits until the index has reached a physical offset."""
    eventually(
        lambda: store.stats()["indexedWhere"],
        f"the index has reached {end}",
        until=lambda at: at >= end,
    )


def tidy(image: Image) -> Image:
    """Without what differs from run to run: the process id, a file that was prepared ahead, the
    names of index files (their time of creation), the checkpoint of a store that runs."""
    image = dict(image)
    if "abort" in image:
        image["abort"] = b"4711"
        image.pop("checkpoint", None)
    for name in log_files(image)[::-1]:
        if image[name].strip(b"\0"):
            break
        del image[name]
    for n, name in enumerate(index_files(image)):
        image[f"index/202311142213200{n:02d}"] = image.pop(name)
    return image


def made_constant(image: Image, log_size: int) -> Image:
    """Record n gets the store time START + n seconds, and was born 7 ms earlier; half messages get
    queue offset 0."""
    records, _ = scan(image, log_size)
    new = {name: bytearray(image[name]) for name in log_files(image)}
    for n, stored in enumerate(records):
        name = f"commitlog/{stored.phys // log_size * log_size:020d}"
        at = stored.phys % log_size
        flags = stored.record.sys_flag
        struct.pack_into(
            ">q", new[name], at + (68 if flags & SYS_BORN_V6 else 56), START + 1000 * n
        )
        struct.pack_into(">q", new[name], at + 40, START + 1000 * n - 7)
        if flags & 0xC in (0x4, 0xC):
            struct.pack_into(">q", new[name], at + 20, 0)
    return {**image, **{name: bytes(content) for name, content in new.items()}}
