"""Runs `pyrmq bench LOAD …` in a process of its own and reads its result.

So each window has a generator without a past, and a sweep or a comparison cannot disturb it.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyrmq.bench.result import BenchError, Result, read_result
from pyrmq.escape import escape

STOP_SECONDS = 20.0


def command(load: str, arguments: Sequence[str]) -> list[str]:
    """What runs it, without its --json."""
    return [sys.executable, "-m", "pyrmq", "bench", load, *arguments]


def run(load: str, arguments: Sequence[str], quiet: bool = False) -> Result:
    """BenchError with what it said if it gave no result. KeyboardInterrupt ends it.

    quiet: its progress is not shown.
    """
    with tempfile.TemporaryDirectory(prefix="pyrmq-bench-") as folder:
        file = Path(folder) / "result.json"
        words = [*command(load, arguments), "--json", str(file)]
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        said: list[str] = []
        try:
            assert process.stderr is not None
            for line in process.stderr:
                said = [*said[-40:], line]
                if not quiet:
                    sys.stderr.write(escape(line.rstrip("\r\n")) + "\n")
            process.wait()
        except KeyboardInterrupt:
            # A terminal told it too, and a second signal would be one too many.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
            raise
        finally:
            _stop(process)
            assert process.stderr is not None
            process.stderr.close()
        if not file.is_file():
            text = "".join(said).strip()[-2000:].rpartition("Error: ")[2]
            why = escape(text) or f"exit code {process.returncode}"
            raise BenchError(f"`pyrmq bench {escape(load)}` gave no result: {why}")
        return read_result(file)


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
