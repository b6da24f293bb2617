"""Runs images in worker processes, so that a crash or a hang is a finding and not the end."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.system.faults.bases import Base
from tests.system.faults.worker import Job

CHUNK = 250
"""Images of one worker process."""
LIMIT = 180.0
"""Seconds for one worker, far above what it needs; more is a hang."""


@dataclass
class Report:
    """`images`: how many were opened; `counts`: outcomes; `failures`: number and what happened."""

    images: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.images += other.images
        self.counts += other.counts
        self.failures += other.failures


def run(
    kind: str, bases: dict[str, Base], cases: Iterable[tuple[int, Any]], root: Path, jobs: int
) -> Report:
    """Checks every (number, case); `root` is a folder for the workers' files and the images."""
    todo = list(cases)
    chunks = [todo[n : n + CHUNK] for n in range(0, len(todo), CHUNK)]
    total = Report()
    with ThreadPoolExecutor(jobs) as pool:
        parts = pool.map(lambda n: run_chunk(Job(kind, bases, chunks[n]), root / str(n)),
                         range(len(chunks)))  # fmt: skip
        for part in parts:
            total.add(part)
    return total


def run_chunk(job: Job, folder: Path) -> Report:
    """One worker after the other until all cases are done: a case that kills its worker is noted
    and left out."""
    report, todo, n = Report(), job.cases, 0
    while todo:
        part, died = run_worker(Job(job.kind, job.bases, todo), folder / str(n))
        report.add(part)
        n += 1
        if died is None:
            break
        number, how = died
        report.images += 1
        report.failures.append((number, how))
        places = [place for place, (other, _) in enumerate(todo) if other == number]
        todo = todo[places[0] + 1 :] if places else []
    return report


def run_worker(job: Job, folder: Path) -> tuple[Report, tuple[int, str] | None]:
    """What a worker found, and the number of the image at which it died or hung, if it did."""
    folder.mkdir(parents=True)
    (folder / "job").write_bytes(pickle.dumps(job))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RUST_BACKTRACE": "0"}
    died = None
    with (folder / "log").open("w+b") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.faults.worker", str(folder)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
        )  # fmt: skip
        try:
            code = process.wait(LIMIT)
            how = f"the worker died of {signal.Signals(-code).name}" if code < 0 else ""
            if code > 0:
                how = f"the worker ended with {code}"
        except subprocess.TimeoutExpired:
            how = f"no end after {LIMIT:.0f} s"
        finally:
            process.kill()
            process.wait()
        if how:
            log.seek(0)
            text = log.read().decode(errors="replace")[-2000:]
            at = folder / "at"
            died = int(at.read_text()) if at.exists() else -1, f"{how}\n{text}"
    found = read_results(folder / "results")
    shutil.rmtree(folder)
    return found, died


def read_results(path: Path) -> Report:
    report = Report()
    lines = path.read_text().splitlines() if path.exists() else []
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            break  # the worker was killed in the middle of it
        report.images += 1
        report.counts.update(line.get("counts", {}))
        if "error" in line:
            report.failures.append((line["number"], f"{line['error']}\n{line['where']}"))
    return report
