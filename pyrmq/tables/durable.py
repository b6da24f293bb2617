"""Files of the embedded catalog: on the disk before the catalog names them.

pyiceberg closes a file without fsync. After a power failure the catalog, which SQLite does write
through, could name files without content. This FileIO syncs each local file and its folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from pyrmq.config.files import sync_folder


class _Synced:
    """A file that is on the disk when it is closed."""

    def __init__(self, path: str, overwrite: bool) -> None:
        folder = os.path.dirname(path)
        _make(folder)
        self._folder = folder
        self._file = open(path, "wb" if overwrite else "xb")  # noqa: SIM115
        self.closed = False

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError:
            # pyiceberg leaves a file open whose write failed.
            self.closed = True
            with suppress(OSError):
                self._file.close()
            raise

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()
        sync_folder(Path(self._folder))

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def __enter__(self) -> _Synced:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _SyncedFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> OutputStream:
        return _Synced(self._path, overwrite)


class DurableFileIO(PyArrowFileIO):
    """Named as `py-io-impl`. Only local files are written through it."""

    def new_output(self, location: str) -> PyArrowFile:
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return _SyncedFile(fs=self.fs_by_scheme(scheme, netloc), location=location, path=path)


def _make(folder: str) -> None:
    """The folder, and those above it that are missing, on the disk."""
    missing = []
    at = folder
    while not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError:
            continue
        sync_folder(Path(path).parent)
