"""The floor: the least that a broker can do, which is what a broker is measured against.

native/crates/bench/src/floor says in full what it does; `pyrmq.bench.floor` runs it.
"""

from __future__ import annotations

import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyrmq.bench.floor import command

from .harness import READY_SECONDS, Broker, HarnessError, stop


@contextmanager
def floor(flush: str, directory: Path | None) -> Iterator[Broker]:
    """The floor on a free loopback port; it writes below `directory`, gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="pyrmq-floor-", dir=directory))
    words = command(home, sync=flush == "SYNC_FLUSH")
    try:
        started = time.perf_counter()
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            ready = select.select([process.stdout], [], [], READY_SECONDS)[0]
            line = process.stdout.readline() if ready else ""
            name, _, port = line.partition(" ")
            if name != "port":
                raise HarnessError("the floor did not get ready")
            yield Broker("127.0.0.1", int(port), process.pid, started)
        finally:
            stop(process)
            process.stdout.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
