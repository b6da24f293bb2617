"""What an archive needs of the place where it lies: small files, and what is there. A folder of
this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Protocol

from spark_ext.jobs.errors import JobError
from spark_ext.jobs.local_read import local_path

MAX_FILE = 256 << 20
"""Largest file that is read whole, bytes."""


class Folder(Protocol):
    """A folder; names are relative to it. `files.Folder` is one of Spark's file systems,
    `LocalFolder` one of this machine."""

    uri: str

    def local_path(self) -> str | None:
        """Where it is on this machine; None if it is elsewhere."""

    def path_of(self, name: str) -> str:
        """The whole path or URI of a name."""

    def exists(self, name: str) -> bool: ...

    def names(self, name: str = "") -> list[str]:
        """What lies directly in a folder, in order; nothing if there is none."""

    def sizes(self, name: str) -> Iterable[tuple[str, int]]:
        """Every file below a folder: its name relative to that folder, and bytes."""

    def delete(self, name: str) -> None:
        """With everything below it; nothing if it does not exist."""

    def read(self, name: str) -> bytes: ...

    def create(self, name: str, content: bytes) -> None:
        """A new file, whole or not at all."""


class LocalFolder:
    """A folder by its path; names are relative to it."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(local_path(root))
        self.uri = self._root

    def local_path(self) -> str:
        return self._root

    def path_of(self, name: str) -> str:
        return os.path.join(self._root, name) if name else self._root

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path_of(name))

    def names(self, name: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self.path_of(name)))
        except FileNotFoundError:
            return []

    def sizes(self, name: str) -> Iterator[tuple[str, int]]:
        base = self.path_of(name)
        for folder, _, files in os.walk(base):
            for file in files:
                path = os.path.join(folder, file)
                yield os.path.relpath(path, base), os.path.getsize(path)

    def delete(self, name: str) -> None:
        path = self.path_of(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)

    def read(self, name: str) -> bytes:
        path = self.path_of(name)
        size = os.path.getsize(path)
        if size > MAX_FILE:
            raise JobError(f"{path} has {size} bytes: that cannot be ours")
        with open(path, "rb") as file:
            return file.read()

    def create(self, name: str, content: bytes) -> None:
        """Written beside its place and renamed; on the disk when this returns."""
        path = self.path_of(name)
        folder, last = os.path.split(path)
        if os.path.exists(path):
            raise JobError(f"{path} exists: is another run at work here?")
        os.makedirs(folder, exist_ok=True)
        fresh = os.path.join(folder, f"_{last}.tmp")
        with open(fresh, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, path)
        sync_folder(folder)


def sync_folder(path: str) -> None:
    """Names that were made in a folder are on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
