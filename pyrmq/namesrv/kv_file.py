"""kvConfig.json, the file of the KV configuration, in RocketMQ's format, and its lock.
[KVConfigManager]

The file is replaced atomically: a crash leaves the file before or the new one. The lock keeps a
second name server from undoing the changes of the first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from pyrmq.config import files
from pyrmq.engine import json_members
from pyrmq.errors import ConfigError, ProtocolError
from pyrmq.escape import escape
from pyrmq.net import fastjson

log = logging.getLogger(__name__)
MAX_SIZE = 64 << 20
"""Largest file that is read, bytes."""
_TABLES = "configTable"


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


def load(path: Path) -> tuple[dict[str, dict[str, str]], list[bytes]]:
    """Values by namespace and key, and the members of the file that are not ours, for `save`.
    Nothing if there is no file. ConfigError says what to do about one that cannot be used: without
    it the configuration would be lost with the next change."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
    except FileNotFoundError:
        return {}, []
    except OSError as e:
        raise _unusable(path, e.strerror or str(e)) from e
    if len(content) > MAX_SIZE:
        raise _unusable(path, f"it has more than {MAX_SIZE} bytes")
    try:
        value = fastjson.loads_object(content, MAX_SIZE)
    except ProtocolError as e:
        raise _unusable(path, str(e)) from e
    if value and _TABLES not in value:
        raise _unusable(path, "it has no configTable")
    tables = value.get(_TABLES, {})
    if not isinstance(tables, dict):
        raise _unusable(path, "configTable is no JSON object")
    for name, table in tables.items():
        if not isinstance(table, dict) or not all(
            isinstance(text, str) for pair in table.items() for text in pair
        ):
            raise _unusable(path, f"namespace {name!r} is no JSON object of texts")
    others = []
    if len(value) > 1:
        members = json_members(content)
        others = [content[start:end] for key, start, _, end in members if key != _TABLES]
    return {str(name): table for name, table in tables.items() if table}, others


def _unusable(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be used: {why}. Repair it, or restore it from a backup; remove it to start "
        "without KV configuration, or name another file with kvConfigPath"
    )


def save(path: Path, rows: Mapping[str, bytes], others: Sequence[bytes]) -> None:
    """Replaces the file; `rows` are the encoded members of each namespace, `others` those that
    `load` found. When this returns it is on disk. Blocking."""
    parts = [fastjson.dumps(name) + b":{%b}" % members for name, members in rows.items()]
    tail = b",".join([b"}", *others]) + b"}"
    fresh = path.with_name(path.name + ".tmp")
    make_folder(path)
    with _naming(path):
        files.write(fresh, (b'{"configTable":{', b",".join(parts), tail))
        os.replace(fresh, path)
        files.sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """The folder of the file."""
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of the disk say which file it was, also those that know of a descriptor only."""
    try:
        yield
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e
