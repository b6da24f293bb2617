"""What a store does on a full disk; run in a process of its own, on a small file system.

Arguments: the store's folder. Prints one line of JSON with what happened.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyrmq.engine import Store
from tests.store.tools import bodies

SIZES = {"commit_log_file_size": 256 * 1024, "consume_queue_file_size": 6000}


def fill(store: Store, topic: str, first: int) -> tuple[int, int | None, str]:
    """Puts until the disk is full: the number after the last message stored, errno, and text."""
    for n in range(first, first + 10_000):
        try:
            store.put(topic, 0, b"%08d" % n * 400)
        except OSError as error:
            return n, error.errno, str(error)
    return first + 10_000, None, ""


def main(root: Path) -> None:
    report: dict[str, Any] = {}
    store = Store(root, **SIZES)
    count, report["errno"], report["text"] = fill(store, "T", 0)
    count, *_ = fill(store, "T", count)
    expected = [b"%08d" % n * 400 for n in range(count)]
    report["readable"] = bodies(store) == expected
    new_queue, *_ = fill(store, "U", 0)
    report["failure"] = store.failure()
    report["range"] = store.queue_range("T", 0) == (0, count)
    report["close"] = close(store)
    del store  # its mappings keep the blocks of removed files
    for round_ in range(2):
        store = Store(root, **SIZES)
        report[f"reopened {round_}"] = (
            bodies(store) == expected and store.queue_range("U", 0)[1] == new_queue
        )
        report[f"close {round_}"] = close(store)
        del store
    for blocker in root.parent.glob("blocker*"):
        blocker.unlink()
    store = Store(root, **SIZES)
    report["goes on"] = store.put("T", 0, b"there is room again")[2] == count
    report["last close"] = close(store)
    report["abort"] = (root / "abort").exists()
    del store
    store = Store(root, **SIZES)
    report["at last"] = bodies(store) == [*expected, b"there is room again"]
    store.close()
    print(json.dumps(report))


def close(store: Store) -> str | None:
    try:
        store.close()
    except OSError as error:
        return str(error)
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
