"""Stores to read: what was sent to a broker, killed under load, and what consumers then received.

Every queue is pulled from a broker that was started on a copy of what the kill left: it gives what
recovery says is in the log.
"""

from __future__ import annotations

import math
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.client import Client, batch_command, pull_command
from tests.support.records import Record, decode_records
from tests.system.interop import halves
from tests.system.interop.store import cargo
from tests.system.interop.store.contents import Contents
from tests.system.interop.store.special import INNER

from .rows import Row, rows_of_all

CONF = cargo.CONF + "transactionTimeOut=600000\ntransactionCheckInterval=600000\n"
"""Small files, and no checks: nothing enters the log that nobody sent."""
PACKED = "Packed"
"""Compressed bodies of every kind, flags, an empty tag, a body of one byte."""
SETTLED = "Settled"
"""Transactional messages."""
SYSTEM = (halves.HALF, halves.OP, "SCHEDULE_TOPIC_XXXX")


@dataclass
class Material:
    """A store folder that no broker has open, and the rows of its log."""

    root: Path
    broker: str
    rows: list[Row]
    queues: dict[tuple[str, int], tuple[int, int]]
    """First and end offset of every queue, as the broker reports them."""
    stopped: Path | None = None
    """A copy of the store after recovery and a clean stop, where one was made."""
    java: list[dict[str, Any]] = field(default_factory=list)
    """What the official Java client received, if it was there to ask."""

    @property
    def log(self) -> Path:
        return self.root / "commitlog"

    @property
    def files(self) -> list[Path]:
        return sorted(self.log.iterdir())

    @property
    def user_rows(self) -> list[Row]:
        """Those of topics that are not the broker's own."""
        return [row for row in self.rows if row["topic"] not in SYSTEM]

    @property
    def topics(self) -> list[str]:
        return sorted({row["topic"] for row in self.rows})


def packed(contents: Contents, client: Client) -> None:
    """Bodies that the sender has compressed: zlib with and without its kind named, LZ4, Zstandard;
    and messages at the edges."""
    contents.knows(PACKED, 2)
    plain = b"".join(b"line %d that compresses well\n" % n for n in range(200))
    kinds = {
        0x1: zlib.compress(plain),
        0x301: zlib.compress(plain, 5),
        0x101: bytes(pa.compress(plain, codec="lz4", asbytes=True)),
        0x201: bytes(pa.compress(plain, codec="zstd", asbytes=True)),
    }
    for turn in range(6):
        for number, (flag, body) in enumerate(kinds.items()):
            properties = {"TAGS": f"kind{flag:x}", "number": str(number), "turn": str(turn)}
            change = {"f": str(flag), "h": str(number - 2)}
            answer = client.send(
                PACKED, body, queue_id=turn % 2, queues=2, properties=properties, change=change
            )
            contents.sent(PACKED, body, properties, answer)
    odd: list[tuple[bytes, dict[str, str]]] = [
        (b"\0", {"TAGS": "名", "KEYS": "a b  c", "empty ": "x"}),
        (b"x" * 20_000, {"KEYS": "größe", "p" * 200: "v" * 3000}),
        (bytes(range(256)), {"TAGS": "TagA", "quote\"'\\": '{"a": "b\\n"}', "line": "a\nb\tc"}),
        (struct.pack(">iI", 120, 0xDAA320A7) * 9, {"TAGS": "magic"}),
    ]
    for body, properties in odd:
        answer = client.send(PACKED, body, queue_id=1, queues=2, properties=properties)
        contents.sent(PACKED, body, properties, answer)


def transactions(contents: Contents, address: tuple[str, int]) -> None:
    """Halves that were committed, rolled back, and left pending."""
    contents.knows(SETTLED, 1)
    with halves.Producer(address, "PG-settled") as producer:
        for number in range(8):
            for state in (halves.COMMIT, halves.ROLLBACK, None):
                name = f"{number}-{state}"
                contents.unanswered(name.encode())
                half = producer.send(name, SETTLED)
                if state is not None:
                    producer.end(half, state)


def inner_batches(client: Client, count: int = 6) -> None:
    """Batches that are stored as one record each, of 1 to `count` messages, one compressible."""
    first = 0
    for size in range(1, count + 1):
        batch = [
            (
                b"inner %d " % n * (1 + n % 5),
                {"number": str(n), "TAGS": f"T{n % 3}", "KEYS": f"in-{n}"},
            )
            for n in range(first, first + size)
        ]
        answer = client.request(
            batch_command(INNER, batch, properties={"UNIQ_KEY": f"{first:032X}"}, queues=1)
        )
        assert answer.code == 0, answer.remark
        assert answer.ext["queueOffset"] == str(first)
        first += size


def image(root: Path, target: Path) -> Path:
    """A copy of a store folder; the files in it are small."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(root, target))


def _queues(root: Path) -> Iterator[tuple[str, int]]:
    for kind in ("consumequeue", "batchconsumequeue"):
        for folder in sorted((root / kind).glob("*/*")):
            yield folder.parent.name, int(folder.name)


def _pull(client: Client, topic: str, queue_id: int, start: int, end: int) -> list[Record]:
    """All records of a queue; one of a batch queue stands for several offsets."""
    found: list[Record] = []
    while start < end:
        answer = client.request(pull_command(topic, queue_id, start))
        where = f"{topic}-{queue_id} from {start} to {end}"
        assert answer.code == 0, f"{where}: {answer.code} {answer.remark}"
        found += decode_records(answer.body)
        assert int(answer.ext["nextBeginOffset"]) > start, where
        start = int(answer.ext["nextBeginOffset"])
    return found


def received(
    root: Path, address: tuple[str, int], broker: str, before: float = math.inf
) -> tuple[list[Row], dict[tuple[str, int], tuple[int, int]]]:
    """A pull of every queue in the folder from the broker that serves it: rows and queue ranges.

    before: ms. What was stored later is left out: a restarted broker of Apache's delivers delayed
    messages again whose delivery it had not noted on disk.
    """
    records, queues = [], {}
    with Client(address) as client:
        for topic, queue_id in _queues(root):
            first, end = client.min_offset(topic, queue_id), client.max_offset(topic, queue_id)
            found = _pull(client, topic, queue_id, first, end)
            old = [record for record in found if record.store_timestamp < before]
            if old:
                queues[topic, queue_id] = first, end - (len(found) - len(old))
                records += old
    return rows_of_all(records, broker), queues
