"""Files that hold secrets: for their owner only, replaced whole, and read strictly.

There is no `.bak`: a user or a right that was taken away would come back with it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from pyrmq.config import files
from pyrmq.config.secret_file import is_open
from pyrmq.errors import ConfigError, ProtocolError
from pyrmq.net import fastjson

MAX_SIZE = 64 << 20
"""Bytes of the largest file that is read."""
MAX_VALUES = 1 << 22
"""Most JSON values of it."""
_MODE = 0o600
RESTORE = "restore it from a copy, mend it, or remove it and make its users and access lists anew"
"""What to do about a file of a server."""


def load(path: Path, do: str = RESTORE) -> dict[Any, Any] | None:
    """The object in a file; None if there is no file. ConfigError if it cannot be read, or if
    others than its owner may read it. `do`: what to do about content that is wrong. Blocking."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(MAX_SIZE + 1)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror or e}") from e
    if is_open(mode):
        raise ConfigError(
            f"{path} holds secrets and is open to others (mode {mode:o}): chmod 600 it, and change "
            "the passwords in it if others may have read them"
        )
    if len(text) > MAX_SIZE:
        raise ConfigError(f"{path} has more than {MAX_SIZE} bytes")
    try:
        return fastjson.loads_object(text, MAX_VALUES, "file")
    except ProtocolError as e:
        raise unusable(path, str(e), do) from e


def unusable(path: Path, why: str, do: str = RESTORE) -> ConfigError:
    """The error for a file with content that cannot be used. It quotes nothing of it."""
    return ConfigError(f"{path} cannot be used ({why}): {do}")


def save(path: Path, value: dict[str, Any]) -> None:
    """Replaces a file: after a crash there is the old one or the new one, whole. Blocking."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    fresh.unlink(missing_ok=True)  # its mode may be another
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE))
    files.write(fresh, fastjson.parts(value, "\n"))
    os.replace(fresh, path)
    files.sync_folder(path.parent)
