"""Two folders that change places in one step."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""
_UNABLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def exchange(one: Path, other: Path) -> None:
    """Swaps the names of two that exist. A reader of either name sees the one or the other; where
    the file system cannot do that, neither for a moment."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        done = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
        if done == 0:
            return
        number = ctypes.get_errno()
        if number not in _UNABLE:
            raise OSError(number, os.strerror(number), str(one), None, str(other))
    aside = one.with_name(f"{one.name}.old")
    other.rename(aside)
    try:
        one.rename(other)
    except OSError:
        aside.rename(other)
        raise
    aside.rename(one)
