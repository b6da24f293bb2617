"""Every case there is: lives, kinds of calls, their numbers and errors; and a host to run them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from tests.system.faults.inject.calls import HARMLESS, ONCE, SHORT, STICKY, Fault

PROJECT = Path(__file__).parents[4]

ERRORS: dict[str, list[int]] = {
    "open": [errno.EIO, errno.EMFILE, errno.ENOSPC, errno.EINTR],
    "read": [errno.EIO, errno.EINTR],
    "write": [errno.ENOSPC, errno.EIO, errno.EINTR],
    "ftruncate": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "fallocate": [errno.ENOSPC, errno.EIO, errno.EINTR, errno.EOPNOTSUPP],
    "fsync": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "fdatasync": [errno.EIO, errno.ENOSPC, errno.EINTR],
    "msync": [errno.EIO, errno.ENOSPC],
    "sync_file_range": [errno.EIO, errno.ENOSPC],
    "rename": [errno.EIO, errno.ENOSPC],
    "unlink": [errno.EIO, errno.EROFS],
    "mkdir": [errno.ENOSPC, errno.EIO],
    "mmap": [errno.ENOMEM, errno.EIO],
    "madvise": [errno.EFAULT, errno.EIO],
    "opendir": [errno.EIO, errno.EMFILE],
    "readdir": [errno.EIO],
    "stat": [errno.EIO, errno.EACCES],
}
"""What each kind of call may fail with; the first one is what the short run takes."""
Report = dict[str, Any]
OTHER_CAUSE = {"stat", "madvise"}
"""Kinds whose error becomes another one: making a folder looks again and finds that it exists, and
a page that cannot be had is EFAULT, which means a full disk."""
LIVES = (
    "async",
    "sync",
    "recovery",
    "reopened",
    "damaged",
    "killed",
    "retention",
    "folders",
    "extended",
    "tables",
    "transactions",
)


@dataclass(frozen=True)
class Case:
    life: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.life}, {self.fault}"


class Host:
    """The process of `host.py`."""

    def __init__(self, process: subprocess.Popen[str], work: Path) -> None:
        self._process = process
        self.root = work / "store"
        """The folder of the store, made anew for each case."""

    def run(self, case: Case) -> Report:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"life": case.life, "fault": astuple(case.fault)})
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise AssertionError(f"the host died in: {case}")
        return dict(json.loads(answer))


@contextmanager
def host(work: Path, library: Path) -> Iterator[Host]:
    command = [sys.executable, "-W", "error", "-m", "tests.system.faults.inject.host", str(work)]
    environment = os.environ | {"LD_PRELOAD": str(library)}
    with subprocess.Popen(
        command, cwd=PROJECT, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield Host(process, work)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)


def faults(kind: str, path: str, at: int) -> list[Fault]:
    """Everything that call number `at` of a kind on a path can do wrong."""
    found: list[Fault] = []
    for error in ERRORS[kind]:
        found.append(Fault(kind, path, at, error, ONCE))
        if error not in HARMLESS:
            found.append(Fault(kind, path, at, error, STICKY))
    if kind == "write":
        found.append(Fault(kind, path, at, errno.ENOSPC, SHORT))
    return found


def some_faults(kind: str, path: str, at: int) -> list[Fault]:
    """Of these, what the short run takes."""
    every = faults(kind, path, at)
    return [every[0], every[-1]] if kind == "write" else every[:1]


def complaints(case: Case, root: Path, report: Report) -> list[str]:
    """What is wrong with a case, in one line each."""
    found = list(report["wrong"])
    errors = report.get("errors", [])
    if case.fault.harmless or not case.fault.kind:
        found += [f"{where} failed: {text}" for where, _, text in errors]
    else:
        cause = "" if case.fault.kind in OTHER_CAUSE else case.fault.cause
        for where, _, text in errors:
            if str(root) not in text or cause not in text:
                found.append(f"{where}: the error does not tell file and cause: {text}")
    return [f"{case}: {text}" for text in found]
