"""RocketMQ's JSON configuration files: written whole, the one before kept as `.bak`.

Both names are replaced atomically, so a crash leaves at least one file that can be read.
[ConfigManager]
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from pyrmq.errors import ConfigError, ProtocolError
from pyrmq.escape import escape
from pyrmq.net import durable_file, fastjson

log = logging.getLogger(__name__)

MAX_SIZE = 256 << 20
"""Largest file that is read, bytes."""


_damaged: set[Path] = set()
"""Files that could not be read: they must not take the place of a `.bak` that can."""


def _read(path: Path) -> dict[Any, Any] | None:
    try:
        if path.stat().st_size > MAX_SIZE:
            log.error("%s has more than %d bytes: not read", path, MAX_SIZE)
            _damaged.add(path)
            return None
        return fastjson.loads_object(path.read_bytes(), MAX_SIZE)
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


def load(path: Path) -> dict[Any, Any]:
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
    return value or {}


def row(key: str, value: Any) -> bytes:
    """A row of a file's table, encoded as `save` writes it."""
    return fastjson.member(key, value, "\n\t\t")


def save(path: Path, value: dict[str, Any]) -> None:
    """Replaces a file; tables may be `Encoded` rows. Blocking, so call it in a worker thread when
    it may be large."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    durable_file.write(fresh, fastjson.parts(value, "\n"))
    if path.exists() and path not in _damaged:
        os.replace(path, _backup(path))
    os.replace(fresh, path)
    _damaged.discard(path)
    durable_file.sync_folder(path.parent)
