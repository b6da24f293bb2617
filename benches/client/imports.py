"""How long a program waits for `import`: the best of some fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

_PROGRAM = """
import time
cpu, wall = time.process_time(), time.perf_counter()
import {}
print(time.process_time() - cpu, time.perf_counter() - wall)
"""


def import_seconds(module: str, times: int = 10) -> tuple[float, float]:
    """CPU and wall seconds of `import module` with byte code that is there, each the least that was
    met. The start of the interpreter is not in it."""
    with TemporaryDirectory(prefix="pyrmq-bench-") as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        found = []
        for _ in range(times + 1):
            command = [sys.executable, "-c", _PROGRAM.format(module)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
            found.append([float(text) for text in done.stdout.split()])
    return min(cpu for cpu, _ in found[1:]), min(wall for _, wall in found[1:])
