"""Files with one secret each, such as a secret key: nobody but their owner may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pyrmq.errors import ConfigError
from pyrmq.escape import escape

MAX_SECRET = 4096
"""Most bytes of such a file."""


def read_secret(path: Path | str, what: str) -> str:
    """The text of a file, without the end of its line. ConfigError, which names `what` and says
    nothing of the content, if the file cannot be read, has several lines, or if others may read
    it."""
    shown = f"{what} {escape(path)}"
    try:
        with open(path, "rb") as file:
            _check_private(os.fstat(file.fileno()), shown)
            raw = file.read(MAX_SECRET + 1)
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else e
        raise ConfigError(f"{shown} cannot be read: {why}") from None
    if len(raw) > MAX_SECRET:
        raise ConfigError(f"{shown} has more than {MAX_SECRET} bytes: is it the right file?")
    try:
        text = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"{shown} is not UTF-8") from None
    if not text or "\n" in text:
        raise ConfigError(f"{shown} must have one line, with the secret")
    return text


def _check_private(found: os.stat_result, shown: str) -> None:
    """A pipe, such as a shell's <(…), has no other readers."""
    if stat.S_ISFIFO(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{shown} is not a file")
    if is_open(found.st_mode):
        mode = stat.S_IMODE(found.st_mode)
        raise ConfigError(f"{shown} may be read by others (mode {mode:o}): chmod 600")


def is_open(mode: int) -> bool:
    """Whether a file with this mode has rights for others than its owner."""
    return bool(mode & 0o077)


def others_may_read(path: Path) -> bool:
    """Whether a file has rights for others than its owner; False if it is not there."""
    try:
        return is_open(path.stat().st_mode)
    except OSError:
        return False
