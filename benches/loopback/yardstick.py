"""What the disk does without a broker: one write and one fdatasync per message."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

_FILE_BYTES = 64 << 20


def fdatasync_rate(directory: Path | None, seconds: float, body: int = 1024) -> float:
    """Messages a second of a single thread that writes `body` bytes and calls fdatasync for each.

    The file is reserved beforehand (posix_fallocate), as the commit log is, so no write changes
    its size; it is written from front to back and over again.
    """
    payload = bytes(i * 7 % 251 for i in range(body))
    with tempfile.NamedTemporaryFile(prefix="pyrmq-yardstick-", dir=directory) as file:
        fd = file.fileno()
        os.posix_fallocate(fd, 0, _FILE_BYTES)
        os.fsync(fd)
        count = 0
        began = time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            os.pwrite(fd, payload, count * body % (_FILE_BYTES - body))
            os.fdatasync(fd)
            count += 1
    return count / spent
