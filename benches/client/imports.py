"""How long a program waits for `import`: the best of some fresh interpreters."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import time
cpu, wall = time.process_time(), time.perf_counter()
import {}
print(time.process_time() - cpu, time.perf_counter() - wall)
"""


def import_seconds(module: str, times: int = 10) -> tuple[float, float]:
    """CPU and wall seconds of `import module`, each the least that was met."""
    found = []
    for _ in range(times):
        command = [sys.executable, "-c", _PROGRAM.format(module)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append([float(text) for text in done.stdout.split()])
    return min(cpu for cpu, _ in found), min(wall for _, wall in found)
