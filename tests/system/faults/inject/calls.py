"""The preloaded library `failing_calls.c`: how it is built, and its control from inside."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("failing_calls.c")
HARMLESS = {errno.EINTR, errno.EOPNOTSUPP}
"""After these a call is done again or in another way: nobody may notice."""
ONCE, STICKY, SHORT, HELD = range(4)
"""How often call number `at` fails: alone, with all that follow, or it is half a write and the
write behind it fails, or it and all that follow wait until the fault is disarmed."""


def build(folder: Path) -> Path | None:
    """Compiles the library into a folder; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    target = folder / "failing_calls.so"
    flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-U_FORTIFY_SOURCE"]
    command = [compiler, *flags, "-o", str(target), str(SOURCE), "-ldl", "-pthread"]
    subprocess.run(command, check=True, timeout=60)
    return target


@dataclass(frozen=True)
class Fault:
    """Call number `at` (from 1) of a kind on a path fails with an errno; a kind of "" is no fault.
    `path`: below the store's folder, may have wildcards; "." is the folder itself."""

    kind: str = ""
    path: str = "*"
    at: int = 0
    error: int = 0
    mode: int = ONCE

    def __str__(self) -> str:
        if not self.kind:
            return "no fault"
        mode = ("", " and all later", " after a short write", " waits")[self.mode]
        return f"{self.kind} {self.at} of {self.path}{mode}: {errno.errorcode[self.error]}"

    @property
    def harmless(self) -> bool:
        return self.error in HARMLESS

    @property
    def cause(self) -> str:
        return os.strerror(self.error)


class FailingCalls:
    """The library in this process, which was started with it in LD_PRELOAD."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL(None)
        self._lib.failing_calls_kinds.restype = ctypes.c_char_p
        self._lib.failing_calls_hit.restype = ctypes.c_char_p
        self._lib.failing_calls_hit.argtypes = [ctypes.c_long]
        self._lib.failing_calls_place.restype = ctypes.c_char_p
        self._lib.failing_calls_range.restype = ctypes.c_char_p
        self._lib.failing_calls_fired.restype = ctypes.c_long
        self._lib.failing_calls_arm.argtypes = [
            ctypes.c_int, ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int,
        ]  # fmt: skip
        self._lib.failing_calls_synced.argtypes = [
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t,
        ]  # fmt: skip
        self.kinds: list[str] = self._lib.failing_calls_kinds().decode().split()

    def arm(self, root: Path, fault: Fault) -> None:
        """Counts from 0 below `root`; the fault is one to come."""
        self._lib.failing_calls_watch(os.fsencode(root))
        kind = self.kinds.index(fault.kind) if fault.kind else -1
        self._lib.failing_calls_arm(
            kind, os.fsencode(fault.path), fault.at, fault.error, fault.mode
        )

    def disarm(self) -> None:
        """Calls succeed again; what was counted and hit stays."""
        self._lib.failing_calls_disarm()

    @contextmanager
    def spared(self, root: Path) -> Iterator[None]:
        """Inside, calls are neither counted nor failed."""
        self._lib.failing_calls_watch(b"")
        try:
            yield
        finally:
            self._lib.failing_calls_watch(os.fsencode(root))

    def places(self) -> list[tuple[str, str, int]]:
        """(kind, path below the root, how many calls) of all calls so far."""
        kind, count = ctypes.c_int(), ctypes.c_long()
        found: list[tuple[str, str, int]] = []
        while path := self._lib.failing_calls_place(
            len(found), ctypes.byref(kind), ctypes.byref(count)
        ):
            found.append((self.kinds[kind.value], os.fsdecode(path), count.value))
        return found

    def ranges(self) -> list[tuple[str, int, int]]:
        """(path, start, end) of the bytes that successful flushes covered."""
        start, end = ctypes.c_size_t(), ctypes.c_size_t()
        found: list[tuple[str, int, int]] = []
        while path := self._lib.failing_calls_range(
            len(found), ctypes.byref(start), ctypes.byref(end)
        ):
            found.append((os.fsdecode(path), start.value, end.value))
        return found

    @property
    def fired(self) -> int:
        return int(self._lib.failing_calls_fired())

    def hits(self) -> list[str]:
        """The paths of the calls that failed (the first of them)."""
        paths = (self._lib.failing_calls_hit(n).decode() for n in range(self.fired))
        return [path for path in paths if path]

    def synced(self, path: Path, start: int, end: int) -> bool:
        """Whether successful flushes together covered these bytes of a file."""
        return bool(self._lib.failing_calls_synced(os.fsencode(path), start, end))
