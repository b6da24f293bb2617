"""Touches most of the machine's free memory once and gives it back.

On a virtual machine memory that the guest has never touched is slow at first touch, as the host
has to find it: whoever comes first would pay for it.

    python -m benches.loopback.touch BYTES
"""

from __future__ import annotations

import mmap
import subprocess
import sys
import time
from pathlib import Path

from .proc import available_bytes

SHARE = 0.6
"""Of what is available: the page cache of whoever else works here may stay."""
MOST = 64 << 30
SECONDS = 120.0
"""No longer than this; some machines find less than half a GiB in a second."""
PIECE = 64 << 20


def _fill(size: int) -> None:
    """Holds so much memory at once, or what there is in good time without pressing on others."""
    # Should memory become short all the same, it is this process that has to go.
    Path("/proc/self/oom_score_adj").write_text("1000")
    pieces: list[mmap.mmap] = []
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE  # which writes zeros
    end = time.monotonic() + SECONDS
    while len(pieces) * PIECE < size and available_bytes() > 4 * PIECE and time.monotonic() < end:
        pieces.append(mmap.mmap(-1, PIECE, flags=flags))


def touch() -> None:
    """In a process of its own, so that all of it is free again."""
    size = min(int(available_bytes() * SHARE), MOST)
    words = [sys.executable, "-m", "benches.loopback.touch", str(size)]
    # If it was killed for its size, it has touched all there was.
    subprocess.run(words, check=False)


if __name__ == "__main__":
    _fill(int(sys.argv[1]))
