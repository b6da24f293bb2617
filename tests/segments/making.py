"""What the tests of segments share: small stores with known messages, and how rows compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyrmq.engine import Store
from tests.store.tools import opened, read_all

BROKER = "broker-a"
ROW = ["topic", "queueId", "queueOffset", "commitLogOffset", "tags", "keys", "body"]
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@dataclass
class Made:
    """A store and the rows that it holds, in log order; a row is as `ROW` names it."""

    root: Path
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return str(self.root)

    def of(self, *topics: str) -> list[tuple[Any, ...]]:
        return [row for row in self.rows if row[0] in topics]

    def phys(self, topic: str, queue: int, offset: int) -> int:
        """Physical offset of a message."""
        return next(int(row[3]) for row in self.rows if row[:3] == (topic, queue, offset))


@contextmanager
def small(root: Path) -> Iterator[Store]:
    """A store whose files are all small, closed cleanly at the end."""
    with opened(root, index_slots=250, index_entries=1000) as store:
        yield store


def put(store: Store, topic: str, queue: int, body: bytes, tag: str = "", key: str = "") -> int:
    """Stores one message; returns its physical offset."""
    pairs = [("TAGS", tag), ("KEYS", key)]
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs if value)
    return store.put(topic, queue, body, text)[0]


def rows_of(store: Store) -> list[tuple[Any, ...]]:
    """Everything that the store serves to consumers, in log order."""
    found = [
        (
            topic,
            queue,
            record.queue_offset,
            record.physical_offset,
            record.properties.get("TAGS"),
            record.properties.get("KEYS"),
            record.body,
        )
        for (topic, queue), records in read_all(store).items()
        for record in records
    ]
    return sorted(found, key=lambda row: row[3])


def fill(store: Store, rounds: int, size: int = 200) -> None:
    """Some topics: A has four queues and most of the messages, B two, rare C one of 16."""
    for number in range(rounds):
        filler = bytes([number % 251]) * (size + number % 97)
        for queue in range(4):
            tag = ("red", "green", "blue")[(number + queue) % 3]
            put(store, "A", queue, b"A%d " % number + filler, tag, f"a-{number}-{queue}")
        put(store, "B", number % 2, b"B%d " % number + filler, "red" if number % 5 else "")
        if number % 4 == 0:
            put(store, "C", 0, b"C%d" % number, "rare", f"c-{number} shared")
        if number % 16 == 0:
            put(store, SCHEDULE, 0, b"later", "red")


def make(root: Path, rounds: int = 400) -> Made:
    """A store over several segments, cleanly stopped."""
    with small(root) as store:
        fill(store, rounds)
        return Made(root, rows_of(store))


def as_rows(table: Any, columns: Iterable[str] = ROW) -> list[tuple[Any, ...]]:
    """These columns of a pyarrow table, or batch."""
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def read(splits: Iterable[Any]) -> list[tuple[Any, ...]]:
    """What splits give, one after the other."""
    import pyarrow as pa

    batches = [batch for split in splits for batch in split.read()]
    return as_rows(pa.Table.from_batches(batches)) if batches else []
