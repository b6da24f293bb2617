"""How segments are reached that are not local files: pyarrow's file systems, and fsspec's.

A `FileSystem` is a description that can be sent to another process; it is opened there."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

from pyrmq.errors import MissingPackageError, SegmentPathError


def need(package: str, what: str) -> Any:
    """The module, or an error that says what to install."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise MissingPackageError(
            f"{what} needs {name}: {error}", "install 'pyrmq-broker[arrow]', or the package itself"
        ) from error


class Found(NamedTuple):
    """A file or folder of a listing."""

    path: str
    name: str
    is_file: bool
    size: int


@dataclass(frozen=True)
class FileSystem:
    """A file system that is not the local one. `uri`: any path on it, as it was given."""

    uri: str
    options: dict[str, Any] = field(default_factory=dict)

    def __reduce__(self) -> Any:
        return FileSystem, (self.uri, self.options)  # what is open stays here

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The pyarrow file system, and the path on it."""
        fs = need("pyarrow.fs", f"reading {self.uri}")
        if not self.options:
            try:
                system, path = fs.FileSystem.from_uri(self.uri)
                return system, path
            except ValueError as error:  # ArrowInvalid: a scheme that pyarrow does not know
                if "nrecognized" not in str(error):
                    raise SegmentPathError(f"{self.uri}: {error}") from error
            except (OSError, NotImplementedError) as error:
                raise SegmentPathError(
                    f"{self.uri}: its file system does not open: {error}"
                ) from error
        fsspec = need("fsspec", f"reading {self.uri}")
        try:
            inner, path = fsspec.core.url_to_fs(self.uri, **self.options)
        except (ImportError, ValueError) as error:
            raise SegmentPathError(
                f"{self.uri}: neither pyarrow nor fsspec opens it: {error}",
                "check the scheme of the URI, or install the fsspec package for it",
            ) from error
        return fs.PyFileSystem(fs.FSSpecHandler(inner)), path

    @property
    def path(self) -> str:
        """Where `uri` is on the file system."""
        return str(self._opened[1]).rstrip("/") or "/"

    def opener(self) -> Callable[[str], Any]:
        """What opens a file of it by path, with `read_at(nbytes, offset)`."""
        return _Opener(self)

    def open(self, path: str) -> Any:
        return self._opened[0].open_input_file(path)

    def kind(self, path: str) -> str:
        """`file`, `folder`, or "" for nothing."""
        fs = need("pyarrow.fs", f"reading {self.uri}")
        try:
            info = self._opened[0].get_file_info([path])[0]
        except OSError as error:
            raise SegmentPathError(f"{self.uri} cannot be examined: {error}") from error
        return {fs.FileType.File: "file", fs.FileType.Directory: "folder"}.get(info.type, "")

    def list(self, path: str) -> list[Found]:
        """What is in a folder, sorted by name."""
        fs = need("pyarrow.fs", f"reading {self.uri}")
        try:
            infos = self._opened[0].get_file_info(fs.FileSelector(path))
        except OSError as error:
            raise SegmentPathError(f"{path} cannot be listed: {error}") from error
        found = [Found(i.path, i.base_name, i.type == fs.FileType.File, i.size or 0) for i in infos]
        return sorted(found, key=lambda f: f.name)

    def size(self, path: str) -> int:
        return int(self._opened[0].get_file_info([path])[0].size or 0)


class _Opener:
    """`FileSystem.open` as a callable that can be sent elsewhere."""

    def __init__(self, system: FileSystem) -> None:
        self.system = system

    def __call__(self, path: str) -> Any:
        return self.system.open(path)


def place(path: str, options: dict[str, Any]) -> tuple[FileSystem | None, str]:
    """The file system of a path or URI (None: local) and the path on it."""
    try:
        parts = urlsplit(path) if "://" in path or path.startswith("file:") else None
    except ValueError as error:
        raise SegmentPathError(f"{path} is no URI: {error}") from error
    if parts is None or not parts.scheme:
        return None, path
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise SegmentPathError(f"{path}: file URIs have three slashes: file:///folder")
        # All of it: # and ? are signs as others in the name of a file.
        rest = path[len("file:") :]
        return None, unquote(rest.removeprefix("//").removeprefix(parts.netloc))
    system = FileSystem(path, dict(options))
    return system, system.path


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
