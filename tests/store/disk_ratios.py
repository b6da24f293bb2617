"""What retention does as a disk fills up; run in a process of its own, on a small file system.

Arguments: the store's folder. Prints one line of JSON with what happened.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyrmq.engine import Store
from pyrmq.errors import ServiceNotAvailableError
from tests.store.tools import bodies
from tests.store.waiting import settle
from tests.support.waiting import eventually

FILE = 64 << 10
OPTIONS: dict[str, Any] = {
    "commit_log_file_size": FILE,
    "consume_queue_file_size": 4000,
    "index_slots": 16,
    "index_entries": 100,
    "file_reserved_time": 3_600_000,
    "delete_when": [],
    "delete_commit_log_files_interval": 0,
    "delete_file_batch_max": 2,
}


def percent(root: Path) -> int:
    """Used space as retention counts it: rounded up."""
    fs = os.statvfs(root)
    used = fs.f_blocks - fs.f_bfree
    return -(-used * 100 // (used + fs.f_bavail))


def fill_to(root: Path, goal: int) -> None:
    """Makes a file beside the store so large that `goal` percent of the disk are used."""
    blocker = root.parent / "blocker"
    with blocker.open("ab") as file:
        file.truncate(0)
        while percent(root) < goal:
            file.write(bytes(4096))
            file.flush()
    assert percent(root) == goal


def put(store: Store) -> str | None:
    """Stores one message; the error's text if it was refused."""
    try:
        store.put("T", 0, b"another")
    except ServiceNotAvailableError as error:
        return str(error)
    return None


def main(root: Path) -> None:
    report: dict[str, Any] = {"usage": []}
    store = Store(root, **OPTIONS)
    stored = 0
    while store.stats()["maxPhyOffset"] < 11 * FILE:
        store.put("T", 0, b"%06d" % stored * 300, f"KEYS\x01k{stored}\x02")
        stored += 1
    settle(store)
    now = int(time.time() * 1000)
    later = now + 2 * 3_600_000
    for goal in (75, 76, 85, 86, 90, 91):
        for when, name in ((now, "young"), (later, "old")):
            fill_to(root, goal)
            deleted = store.clean(when)["commitLog"]
            full = store.stats()["diskFull"]
            report["usage"].append([goal, name, deleted, full, put(store)])
            settle(store)
    report["reads"] = bodies(store)[-1] == b"another"
    report["found"] = len(store.query_message("T", f"k{stored - 1}")[0])
    for goal in (88, 85, 30):
        fill_to(root, goal)
        store.clean(now)
        report[f"back at {goal}"] = [store.stats()["diskFull"], put(store)]
    fill_to(root, 95)
    store.close()
    store = Store(root, **OPTIONS, clean_file_forcibly=False, clean_resource_interval=10)
    eventually(lambda: store.stats()["diskFull"], "the disk counts as full")
    report["full at start"] = put(store)
    report["not forcibly"] = store.clean(now)["commitLog"]
    fill_to(root, 30)
    eventually(lambda: not store.stats()["diskFull"], "the disk counts as full no more")
    report["room again"] = put(store)
    store.close()
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
