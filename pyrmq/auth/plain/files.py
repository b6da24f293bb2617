"""Access files: which there are, whether they changed, and what they say.

They are `conf/plain_acl.yml` below rocketmqHome, and every `.yml` and `.yaml` file in `conf/acl`
and the folders in it, but for `tools.yml`, which has credentials of tools.
[PlainPermissionManager, AclFileWatchService]
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from pyrmq.auth.plain.accounts import AccessFile, access_file
from pyrmq.auth.plain.document import MAX_SIZE, DocumentError, Mapped, read
from pyrmq.errors import ConfigError

MAX_FILES = 256
MAX_FOLDERS = 4
"""Levels of folders in conf/acl."""
Fingerprint = tuple[tuple[str, int, int, int], ...]
"""Of each file: path, time of its change in ns, size, inode. It differs after every change."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The configuration folder below rocketmqHome."""

    home: Path

    @property
    def default(self) -> Path:
        """Where new accounts are made."""
        return self.home / "conf" / "plain_acl.yml"

    @property
    def folder(self) -> Path:
        return self.home / "conf" / "acl"

    def paths(self) -> list[Path]:
        """The files that there are: those of conf/acl by name, then the default one. Of an access
        key that stands in several, the first counts. ConfigError if there are too many."""
        found: list[Path] = []
        for at, folders, files in os.walk(self.folder):
            depth = len(Path(at).relative_to(self.folder).parts)
            folders[:] = sorted(folders) if depth < MAX_FOLDERS else []
            found += [
                Path(at, name)
                for name in files
                if name.endswith((".yml", ".yaml")) and name != "tools.yml"
            ]
            if len(found) > MAX_FILES:
                raise ConfigError(f"{self.folder} has more than {MAX_FILES} access files")
        found.sort()
        if self.default.exists():
            found.append(self.default)
        return found

    def fingerprint(self) -> Fingerprint:
        """What tells that a file changed, came or went. A file that cannot be looked at has
        zeros."""
        rows = []
        for path in self.paths():
            try:
                found = path.stat()
            except OSError:
                rows.append((str(path), 0, 0, 0))
            else:
                rows.append((str(path), found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(rows)


def load(path: Path) -> AccessFile:
    """What a file says. ConfigError names the file and what is wrong with it."""
    return access_file(str(path), document(path, load_bytes(path)))


def document(path: Path, raw: bytes) -> Mapped:
    """ConfigError."""
    try:
        return read(raw)
    except DocumentError as e:
        raise ConfigError(f"{path}: {e}") from None


def load_bytes(path: Path) -> bytes:
    """At most one byte more than `document` takes. ConfigError."""
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path} is no file")
            return file.read(MAX_SIZE + 1)
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from e
