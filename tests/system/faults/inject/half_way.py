"""Opens a store and fails half-way: prints, as JSON, which of the files that were named are flushed
by then. A process of its own with `failing_calls.c` in LD_PRELOAD."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

from pyrmq.engine import Store
from pyrmq.errors import PyrmqError
from tests.system.faults.inject.calls import STICKY, FailingCalls, Fault


def main(root: Path, kind: str, pattern: str, options: str, names: str) -> None:
    calls = FailingCalls()
    calls.arm(root, Fault(kind, pattern, 1, errno.EIO, STICKY))
    try:
        Store(root, **json.loads(options))
    except (PyrmqError, OSError):
        calls.disarm()
        sizes = {name: os.path.getsize(root / name) for name in json.loads(names)}
        print(json.dumps({name: calls.synced(root / name, 0, sizes[name]) for name in sizes}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
