"""Has log files deleted that nobody needs any more: fileReservedTime is over for none by itself.

A file is made old by its times and then deleted on command, if all in it lies before the first
message that is still owed to anybody, and if it was not written for a while: so long ago no offset
is moved, and nothing is fetched by its place.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.support.operators import DELETE_EXPIRED_COMMITLOG
from tests.system.soak.shared import Role, Shared

EVERY = 5.0
KEPT_SECONDS = 40.0


def expendable(files: dict[int, tuple[int, float]], needed: int | None, before: float) -> list[int]:
    """Which files may go. files: size and time of the last change by first offset. needed: the
    first offset that is needed, None if nothing is. before: only what was not changed since."""
    found = []
    for start, (size, changed) in sorted(files.items()):
        if changed >= before or (needed is not None and start + size > needed):
            break
        found.append(start)
    return found


class Retention(Role):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "retention")
        self._folder = shared.settings.folder / "store" / "commitlog"

    def work(self) -> None:
        with self.shared.connect() as client:
            while self.wanted():
                # First what is owed: what is acknowledged meanwhile lies in newer files.
                needed = self.shared.ledgers.oldest_owed()
                files = {int(path.name): path for path in self._log_files()}
                facts = {start: _facts(path) for start, path in files.items()}
                old = expendable(facts, needed, time.time() - KEPT_SECONDS)
                for start in old:
                    os.utime(files[start], (0, 0))
                if old:
                    answer = client.call(DELETE_EXPIRED_COMMITLOG)
                    if answer.code == 0:
                        gone = [start for start in old if not files[start].exists()]
                        self.shared.count("log files deleted", len(gone))
                    elif not self.shared.refused(answer.code):
                        self.shared.fault(f"retention: {answer.code} {answer.remark}")
                self._sleep()

    def _sleep(self) -> None:
        until = time.monotonic() + EVERY
        while self.wanted() and self.shared.up.is_set() and time.monotonic() < until:
            time.sleep(0.1)

    def _log_files(self) -> list[Path]:
        return [path for path in self._folder.iterdir() if path.name.isdigit()]


def _facts(path: Path) -> tuple[int, float]:
    """Size and time of the last change; a file that was just deleted is kept, to be safe."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, time.time()
    return status.st_size, status.st_mtime
