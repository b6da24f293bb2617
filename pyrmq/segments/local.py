"""Local files, with the interface of `filesystem.FileSystem`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from pyrmq.errors import SegmentPathError
from pyrmq.segments.filesystem import Found


def kind(path: str) -> str:
    """`file`, `folder`, or "" for nothing."""
    try:
        where = Path(path)
        return "folder" if where.is_dir() else "file" if where.is_file() else ""
    except PermissionError as error:
        raise SegmentPathError(f"{path} cannot be examined: {error.strerror}") from error
    except (OSError, ValueError):  # a name that is too long, a zero byte in it
        return ""


def list_folder(path: str) -> list[Found]:
    """What is in a folder, sorted by name. A file that is deleted meanwhile is left out."""
    out = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    is_file = entry.is_file()
                    size = entry.stat().st_size if is_file else 0
                except FileNotFoundError:
                    continue
                out.append(Found(entry.path, entry.name, is_file, size))
    except OSError as error:
        raise SegmentPathError(f"{path} cannot be listed: {error.strerror or error}") from error
    return sorted(out, key=lambda f: f.name)


class LocalFiles:
    """The local file system."""

    def kind(self, path: str) -> str:
        return kind(path)

    def list(self, path: str) -> list[Found]:
        return list_folder(path)

    def size(self, path: str) -> int:
        return Path(path).stat().st_size

    def open(self, path: str) -> BinaryIO:
        return open(path, "rb")


LOCAL = LocalFiles()
