"""Names of data files: who wrote them, and for which commit.

`pyrmq-OWNER-PID.START-COMMIT-NUMBER.parquet`. The owner is this machine (or container); PID and
START name the process. So a later run of the same owner knows which files are of a process that has
ended, on any file system and without a lock.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from functools import lru_cache

_NAME = re.compile(
    r"pyrmq-([0-9a-f]{12})-([0-9]{1,10})\.([0-9]+)-([0-9a-f-]{36})-[0-9]{5,}\.parquet"
)

IDS = ("/proc/sys/kernel/random/boot_id", "/etc/machine-id")
"""Files that say which machine this is."""


def data_file(commit: str, number: int, process: str | None = None) -> str:
    """The name of a data file of this process, or of another one that writes the commit."""
    return f"pyrmq-{process or this_process()}-{commit}-{number:05}.parquet"


def this_process() -> str:
    """Owner, PID and START of this process."""
    pid = os.getpid()
    return f"{owner()}-{pid}.{_started(pid)}"


def commit_of(name: str) -> str | None:
    """The commit of a data file of ours; None for other names."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[4]


def is_abandoned(name: str) -> bool:
    """Whether a data file is of this owner and of a process that has ended."""
    found = _NAME.fullmatch(name)
    if found is None or found[1] != owner():
        return False
    pid = int(found[2])
    start = _started(pid)
    # 0: no such process, or /proc hides those of other users.
    return start != int(found[3]) and (start != 0 or not _runs(pid))


@lru_cache
def owner() -> str:
    """This machine, as long as it runs, and its namespace of process ids: two containers have two
    owners. Host names and machine ids are copied with images, so the id of the boot counts as well:
    a machine must not take the files of another one's live process for abandoned."""
    parts = [socket.gethostname()]
    for path in IDS:
        try:
            with open(path, encoding="ascii") as file:
                parts.append(file.read(64).strip())
        except (OSError, UnicodeDecodeError):
            parts.append("")
    try:
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        parts.append("")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _started(pid: int) -> int:
    """When a process started, in ticks since the boot; 0 if nothing says it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program, which may have blanks, is in parentheses.
            return int(file.read(4096).rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _runs(pid: int) -> bool:
    """Whether there is a process, also one of another user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
