"""What an archive needs of the place where it lies: small files, and what is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

MAX_FILE = 256 << 20
"""Largest file that is read whole, bytes."""


class Folder(Protocol):
    """A folder; names are relative to it. `files.Folder` is one of Spark's file systems,
    `local_files.LocalFolder` one of this machine."""

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
