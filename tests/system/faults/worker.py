"""The process that opens damaged images: `python -m tests.system.faults.worker JOB`.

JOB is a folder with `job` (a pickled `Job`), and images are opened in it. `at` is set to the number
of the image under work, `results` gets a line of JSON for each. What the engine logs goes to
stderr, a file, which is read and emptied after each image. A crash here is found by the parent.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import logging
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.faults.bases import Base

RE_OPEN_EVERY = 8
"""Of so many images one is opened once more after the check."""


@dataclass(frozen=True)
class Job:
    """`kind`_check is the module that has the check; `cases`: (number, case), in order."""

    kind: str
    bases: dict[str, Base]
    cases: list[tuple[int, Any]]


Check = Callable[[Any, dict[str, Base], Path, bool, Callable[[], str]], dict[str, int]]
"""Checks one image below a folder; returns counts by outcome. The last argument reads the log."""


def check_of(kind: str) -> Check:
    check: Check = importlib.import_module(f"tests.system.faults.{kind}_check").run
    return check


def read_log() -> str:
    """What was logged since the last call."""
    sys.stderr.flush()
    text = os.pread(2, 1 << 16, 0).decode(errors="replace")
    os.ftruncate(2, 0)
    os.lseek(2, 0, os.SEEK_SET)
    return text


def main(folder: Path) -> None:
    faulthandler.enable()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    job: Job = pickle.loads((folder / "job").read_bytes())
    check = check_of(job.kind)
    at = os.open(folder / "at", os.O_WRONLY | os.O_CREAT, 0o644)
    with (folder / "results").open("w", buffering=1) as results:
        for number, case in job.cases:
            os.pwrite(at, b"%-20d" % number, 0)
            line: dict[str, Any] = {"number": number}
            try:
                again = number % RE_OPEN_EVERY == 0
                line["counts"] = check(case, job.bases, folder / "image", again, read_log)
            except BaseException as error:  # a panic of the engine is no Exception
                line["error"] = f"{type(error).__name__}: {error}"
                line["where"] = traceback.format_exc(limit=-3, chain=False)
            results.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
