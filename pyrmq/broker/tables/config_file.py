"""RocketMQ's JSON configuration files: written whole, the one before kept as `.bak`.

Both names are replaced atomically, so a crash leaves at least one file that can be read.
[ConfigManager]
"""

from __future__ import annotations

import logging
import os
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any, Final

from pyrmq.config import files
from pyrmq.engine import json_members
from pyrmq.errors import ConfigError, ProtocolError
from pyrmq.escape import escape
from pyrmq.net import fastjson

log = logging.getLogger(__name__)

MAX_SIZE = 256 << 20
"""Largest file that is read, bytes."""


_SHOWN = 10
"""Rows that are named in the log where more are kept."""
_MEMBER: Final = "\n\t\t"
"""What stands before a row of a table."""


class Content(dict[Any, Any]):
    """What a file says, and its text: what this broker does not understand is written again as it
    stands there."""

    def __init__(self, value: dict[Any, Any], text: bytes) -> None:
        super().__init__(value)
        self._text = text

    def others(self, known: Container[Any]) -> dict[Any, fastjson.Raw]:
        """The members of the file that are not `known`."""
        if all(key in known for key in self):
            return {}
        return {
            key: fastjson.Raw(self._raw(self._text[value:end], self[key], "\n\t"))
            for key, _, value, end in json_members(self._text)
            if key not in known
        }

    def rows(self, table: str, keys: Container[Any]) -> dict[Any, bytes]:
        """Rows of a table as they stand in the file, for `Rows.keep`."""
        text = b"{}"
        for key, _, value, end in json_members(self._text):
            if key == table:
                text = self._text[value:end]  # of several the last one counts
        found = {}
        for key, start, value, end in json_members(text):
            if key in keys:
                raw = self._raw(text[value:end], self[table][key], _MEMBER)
                found[key] = _MEMBER.encode() + text[start:value] + raw
        return found

    @staticmethod
    def _raw(text: bytes, value: Any, line: str) -> bytes:
        """A part of the file. What it refers to may move or go, so it is written without that."""
        if b'"$ref"' not in text:
            return text
        return b"".join(fastjson.parts(value, line))


_damaged: set[Path] = set()
"""Files that could not be read: they must not take the place of a `.bak` that can."""


def _read(path: Path) -> Content | None:
    try:
        if path.stat().st_size > MAX_SIZE:
            log.error("%s has more than %d bytes: not read", path, MAX_SIZE)
            _damaged.add(path)
            return None
        text = path.read_bytes()
        return Content(fastjson.loads_object(text, MAX_SIZE), text)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror or e}") from e
    except ProtocolError as e:
        log.error("%s cannot be used: %s", path, escape(e))
        _damaged.add(path)
        return None


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def load(path: Path) -> Content:
    """The content of a file, or of its `.bak`; {} if there is neither. ConfigError if there is
    something that cannot be read: starting without it would lose what it contained."""
    backup = _backup(path)
    value = _read(path)
    if value is None:
        value = _read(backup)
        if value is not None and path in _damaged:
            log.error("%s is used instead: the last change may be missing", escape(backup))
    if value is None and not _damaged.isdisjoint((path, backup)):
        raise ConfigError(
            f"neither {path} nor its .bak can be read: restore one of them, or remove both to go "
            "on without what they say"
        )
    return Content({}, b"{}") if value is None else value


def tell_kept(path: Path, names: Iterable[Any]) -> None:
    """Logs which rows of a file are kept as they are, and not used."""
    names = [str(name)[:64] for name in names]
    if names:
        text = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        log.warning(
            "%s: %d rows are not understood: they are kept as they are, and not used: %s",
            escape(path),
            len(names),
            escape(text),
        )


def row(key: str, value: Any) -> bytes:
    """A row of a file's table, encoded as `save` writes it."""
    return fastjson.member(key, value, _MEMBER)


def save(path: Path, value: dict[str, Any]) -> None:
    """Replaces a file; tables may be `Encoded` rows. Blocking, so call it in a worker thread when
    it may be large."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    files.write(fresh, fastjson.parts(value, "\n"))
    if path.exists() and path not in _damaged:
        os.replace(path, _backup(path))
    os.replace(fresh, path)
    _damaged.discard(path)
    files.sync_folder(path.parent)
