"""A process that writes a store as fast as it may, for readers to read meanwhile.

    python -m tests.spark.e2e.proof.writer STORE COUNT PER_SECOND

Message n goes to topic W(n mod 3), queue (n / 3) mod 4, and its body begins with n: a log read
from its start must hold 0, 1, 2 ... with none left out. It prints "ready" when there is something
to read. It ends when COUNT are written or its stdin is closed, and prints how many there are when
the store is closed. PER_SECOND 0: as fast as it can.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from pyrmq.engine import Store

FILE = 256 * 1024
"""Bytes of a commit-log file."""
TOPICS, QUEUES = 3, 4
AHEAD = 100
"""Messages that are there before it says that it is ready."""


def place_of(number: int) -> tuple[str, int, int]:
    """Topic, queue and queue offset of a message."""
    return f"W{number % TOPICS}", number // TOPICS % QUEUES, number // (TOPICS * QUEUES)


def body_of(number: int) -> bytes:
    return b"%d;" % number + b"abcdefgh" * (number * 7919 % 61)


def number_of(body: bytes) -> int:
    """The number of a message whose body is as it was sent."""
    number = int(body.partition(b";")[0])
    assert body == body_of(number), f"body of message {number} is torn: {body[:80]!r}"
    return number


def put(store: Store, number: int) -> int:
    """Appends message `number`; its physical offset."""
    topic, queue, offset = place_of(number)
    text = f"TAGS\x01T{number % 8}\x02KEYS\x01k{number}\x02"
    at, _, given, _ = store.put(topic, queue, body_of(number), text)
    assert given == offset, f"message {number} got offset {given}, not {offset}"
    return at


def opened(root: Path, **options: Any) -> Store:
    """A store with small files; nothing is flushed in the way."""
    return Store(root, commit_log_file_size=FILE, consume_queue_file_size=20 * 1000,
                 index_slots=1000, index_entries=4000, **options)  # fmt: skip


def write(root: Path, count: int, per_second: float) -> int:
    store, written = opened(root), 0
    try:
        start = time.monotonic()
        while written < count:
            put(store, written)
            written += 1
            if written == AHEAD:
                print("ready", flush=True)
            if written % 16 == 0 and written > AHEAD:
                early = written / per_second - (time.monotonic() - start) if per_second else 0
                if select.select([sys.stdin], [], [], max(early, 0))[0]:
                    break
    finally:
        store.close()
    return written


class Writer:
    """The process as a context: leaving it kills what still writes."""

    def __init__(self, root: Path, count: int, per_second: float = 0) -> None:
        words = [str(root), str(count), str(per_second)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.e2e.proof.writer", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[4],
        )

    def __enter__(self) -> Self:
        assert self._line() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        """Until all is written; how many that is."""
        written = self._line()
        assert self._process.wait(60) == 0
        return int(written)

    def stop(self) -> int:
        """Ends it, with the store closed; how many messages it has written."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.wait()

    def kill(self) -> None:
        """SIGKILL; fine on one that has gone."""
        self._process.kill()
        self._process.wait(30)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])), flush=True)
