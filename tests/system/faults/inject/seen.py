"""What a store was asked and what it answered while calls failed; what has to hold of both.

Message number n goes to one queue of two; numbers only grow, so order can be checked. A number is
`acked` (the client was told that it is stored), `refused` (told that it is not) or `unknown` (told
that it may not be durable); when its file was deleted it is `cleaned`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyrmq.engine import Store
from pyrmq.errors import PyrmqError
from tests.store.tools import read_queue
from tests.support.ledger import Ledger
from tests.support.records import Record, decode_records

PATIENCE = 10.0
"""Seconds that a wait in one case takes at most."""

QUEUES = (("T", 0), ("U", 1))
OPTIONS: dict[str, Any] = {
    "commit_log_file_size": 16 << 10,
    "consume_queue_file_size": 10 * 20,
    "flush_interval_commit_log": 1,
    "flush_interval_consume_queue": 1,
    "flush_queue_least_pages": 0,
    "max_mapped_queue_files": 2,
    "max_message_size": 8 << 10,
    "index_slots": 20,
    "index_entries": 20,
}
"""Small files, so that a few messages need many of them; threads that flush all the time."""
OWN_ERRORS = {
    "StoreDamagedError", "StoreLockedError", "MessageIllegalError", "ServiceNotAvailableError",
    "ConfigError",
}  # fmt: skip
"""Errors of pyrmq that a failed call may become, beside OSError. Not EngineError: that is a bug."""


def queue_of(number: int) -> tuple[str, int]:
    return QUEUES[number % len(QUEUES)]


def body_of(number: int) -> bytes:
    """The number in eight digits and 500 to 1,900 bytes of it."""
    return b"%08d" % number * (62 + number * 37 % 176)


def properties_of(number: int) -> dict[str, str]:
    return {"KEYS": f"key{number}", "TAGS": f"tag{number % 3}"}


@dataclass
class Seen:
    """Grows while a life goes on; `as_dict` crosses the border of the process."""

    acked: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    cleaned: list[int] = field(default_factory=list)
    """Acknowledged, and deleted since with their file."""
    errors: list[list[str]] = field(default_factory=list)
    """[what was done, class of the error, its text]"""
    wrong: list[str] = field(default_factory=list)
    """What must not be."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def error(self, where: str, kind: str, text: str) -> None:
        if kind not in OWN_ERRORS and kind != "OSError":
            self.wrong.append(f"{where}: {kind}: {text}")
        elif [where, kind, text] not in self.errors:
            self.errors.append([where, kind, text])

    def caught(self, where: str, error: BaseException) -> None:
        kind = "OSError" if isinstance(error, OSError) else type(error).__name__
        self.error(where, kind, str(error))

    def check(self, store: Store, where: str, *, faulty: bool = False) -> None:
        """Every queue: nothing acknowledged is missing, nothing refused is there, none twice, all
        in order, bodies whole. `faulty`: calls fail, so a read may, with an error that says so."""
        for queue in QUEUES:
            name = f"{where}, {queue[0]}-{queue[1]}"
            try:
                self._check_queue(name, queue, read_queue(store, *queue))
            except (OSError, PyrmqError) as error:
                self.caught(f"read in {name}", error)
                if not faulty:
                    self.wrong.append(f"{name}: {error}")
            except Exception as error:  # what cannot even be decoded
                self.wrong.append(f"{name}: {type(error).__name__}: {error}")

    def _check_queue(self, name: str, queue: tuple[str, int], records: list[Record]) -> None:
        ledger = Ledger(name, ordered=True, single=True)
        for number in (*self.acked, *self.refused, *self.unknown, *self.cleaned):
            ledger.sent(queue_of(number)[0], number)
        for number in self.refused:
            ledger.refused(queue_of(number)[0], number)
        for number in self.acked:
            if queue_of(number) == queue:
                ledger.acknowledged(queue[0], number)
        numbers = [int(record.body[:8]) for record in records]
        for number, record in zip(numbers, records, strict=True):
            ledger.received(queue[0], number, record.physical_offset)
        first = records[0].queue_offset if records and self.cleaned else 0
        if [r.queue_offset for r in records] != list(range(first, first + len(records))):
            self.wrong.append(f"{name}: queue offsets are not dense")
        for record, number in zip(records, numbers, strict=True):
            if record.body != body_of(number) or queue_of(number) != queue:
                ledger.note("damaged", f"message {number}")
        self.wrong += ledger.faults()

    def check_keys(self, store: Store, where: str) -> None:
        """Every acknowledged message is found by its key, and nothing else is."""
        if not wait(lambda: store.stats()["indexedWhere"] >= store.stats()["maxPhyOffset"]):
            self.wrong.append(f"{where}: the index does not reach the end: {store.stats()}")
            return
        for number in self.acked:
            topic, _ = queue_of(number)
            found, *_ = store.query_message(topic, f"key{number}")
            records = [record for piece in found for record in decode_records(bytes(piece))]
            if [int(record.body[:8]) for record in records] != [number]:
                self.wrong.append(f"{where}: key{number} finds {len(records)} records")


def is_data(root: Path, path: str) -> bool:
    """Whether a path is a file of the log or of a queue, not a folder."""
    parts = Path(path).relative_to(root).parts
    folders = ("commitlog", "commitlog2", "consumequeue")
    return bool(parts) and parts[0] in folders and len(parts[-1]) == 20


def wait(done: Callable[[], bool]) -> bool:
    """Whether it is done within PATIENCE. In these processes what is wrong is noted, not raised,
    and there are thousands of waits: they look often."""
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.0003)
    return True
