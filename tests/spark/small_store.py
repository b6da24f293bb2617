"""Stores that the tests of this folder write themselves, with what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyrmq.engine import Store
from tests.support.records import encode_properties

SEGMENT = 64 << 10
"""Bytes of a commit-log file: a few hundred messages, so that stores have several."""
TOPICS = ("orders", "payments")
QUEUES = 4
TAGS = ("A", "B", "C")


@dataclass(frozen=True)
class Sent:
    topic: str
    queue: int
    offset: int
    physical: int
    size: int
    """Bytes of the record."""
    body: bytes
    tag: str
    key: str
    store_time: int


class Writer:
    """An open store; `put` appends messages, numbered from 0 on, over all topics and queues."""

    def __init__(self, root: Path, queues: int = QUEUES) -> None:
        self.root, self._queues = root, queues
        self.sent: list[Sent] = []
        self._store = Store(root, commit_log_file_size=SEGMENT, store_host="127.0.0.1:10911")

    def put(self, count: int, body: bytes = b"x" * 100) -> list[Sent]:
        """Appends; returns what was appended."""
        first = len(self.sent)
        for number in range(first, first + count):
            topic, queue = TOPICS[number % 2], number // 2 % self._queues
            tag, key = TAGS[number % 3], f"key-{number}"
            text = b"%d " % number + body
            properties = encode_properties({"TAGS": tag, "KEYS": key, "n": str(number)})
            put = self._store.put(topic, queue, text, properties, born_timestamp=number)
            physical, size, offset, time = put
            self.sent.append(Sent(topic, queue, offset, physical, size, text, tag, key, time))
        return self.sent[first:]

    def close(self) -> None:
        self._store.close()


def write(root: Path, count: int) -> list[Sent]:
    """A closed store of so many messages."""
    writer = Writer(root)
    writer.put(count)
    writer.close()
    return writer.sent
