"""pyrmq's own server, for one run: another process on a temporary folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyrmq.bench.result import BenchError
from pyrmq.escape import escape

STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Embedded:
    namesrv: str
    broker: str
    pid: int
    store: Path


@contextmanager
def embedded(flush: str) -> Iterator[Embedded]:
    """Ends it and removes its folder when left. BenchError if it does not start."""
    home = Path(tempfile.mkdtemp(prefix="pyrmq-bench-"))
    words = [sys.executable, "-m", "pyrmq", "server", "--host", "127.0.0.1"]
    words += ["--namesrv-port", "0", "--broker-port", "0", "--flush", flush]
    words += ["--log-level", "warning", "--store", str(home / "store")]
    try:
        with (home / "log").open("w+b") as log:
            # A session of its own: Ctrl-C is for the load, which then ends the server.
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
            assert process.stdout is not None
            try:
                line = process.stdout.readline().decode(errors="replace")
                facts = dict(re.findall(r"(\w+)=(\S+)", line))
                if not line.startswith("ready ") or "broker" not in facts:
                    log.seek(0)
                    said = escape(log.read(4000).decode(errors="replace").strip())
                    raise BenchError(f"the embedded server did not start: {said or 'no word'}")
                yield Embedded(facts["namesrv"], facts["broker"], int(facts["pid"]), home / "store")
            finally:
                _stop(process)
                process.stdout.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
