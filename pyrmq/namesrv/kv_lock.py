"""The hold of a KV configuration's file: two name servers would undo each other's changes."""

from __future__ import annotations

import errno
import fcntl
import logging
from pathlib import Path
from typing import IO

from pyrmq.errors import ConfigError
from pyrmq.escape import escape

log = logging.getLogger(__name__)


class KvLock:
    """The lock of a file beside, which stays: the file itself is replaced with each change. It is
    held until `release`, or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def hold(self) -> None:
        """ConfigError if another name server has it. There is no hold before there is a folder to
        write to, and, with a line of the log, none where no file can be locked. Blocking."""
        if self._file is not None or not self._path.parent.is_dir():
            return
        try:
            file = self._path.with_name(self._path.name + ".lock").open("ab")
        except OSError as e:
            log.info("%s is not locked: %s", escape(self._path), escape(e.strerror))
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            file.close()
            if e.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise ConfigError(
                    f"{self._path} is in use by another process, a name server: stop that one, or "
                    "give this one a file of its own (kvConfigPath)"
                ) from None
            log.info("%s is not locked: %s", escape(self._path), escape(e.strerror))
        else:
            self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
