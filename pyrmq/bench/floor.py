"""Runs the floor as a process: `python -m pyrmq.bench.floor --dir DIR [--sync] [--port PORT]`.

The floor is the least that a broker can do with a send or a pull. One thread with one epoll writes
what came in a pass with one pwrite (and, with --sync, one fdatasync), then answers. It has no
queues and no index, and it checks nothing. What a broker takes beyond that is its own.

It prints `port PORT` when it listens on 127.0.0.1, and serves until SIGTERM. Then its files are
removed.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pyrmq.engine import BenchFloor

LOOK_SECONDS = 0.5
SIGNALS = {signal.SIGTERM, signal.SIGINT}


def command(directory: Path, *, sync: bool) -> list[str]:
    """What runs it."""
    words = [sys.executable, "-m", "pyrmq.bench.floor", "--dir", str(directory)]
    return [*words, "--sync"] if sync else words


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pyrmq.bench.floor")
    parser.add_argument("--dir", type=Path, required=True, help="where its files go")
    parser.add_argument("--sync", action="store_true", help="one fdatasync behind each write")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    options = parser.parse_args(arguments)
    if not 0 <= options.port < 65_536:
        parser.error("--port must be 0 to 65535")
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        floor = BenchFloor(options.dir, options.sync, options.port)
        print("port", floor.port, flush=True)
        while not floor.ended() and signal.sigtimedwait(SIGNALS, LOOK_SECONDS) is None:
            pass
        floor.stop()
    except OSError as error:
        print(f"the floor: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
