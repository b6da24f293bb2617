"""Files that are on disk when a call returns. Blocking; errors name the file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def write(path: Path, parts: Iterable[bytes]) -> None:
    """Writes a file anew."""
    try:
        with path.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e


def sync_folder(path: Path) -> None:
    """Has names that were made or replaced in a folder be there after a crash."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e
    finally:
        os.close(fd)
