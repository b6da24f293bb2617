"""RocketMQ's JSON configuration files, and the tables that are kept in them.

A file is written whole, the one before is kept as `.bak`. Both names are replaced atomically, so a
crash leaves at least one file that can be read. [ConfigManager]

`PersistentTable` is the base of the tables. `Rows` are the encoded rows of a large one: each row is
encoded again only when it changed.
"""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

import trio

from pyrmq.config import files
from pyrmq.engine import json_members
from pyrmq.errors import ConfigError, ProtocolError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.topic import DataVersion
from pyrmq.net import fastjson
from pyrmq.net.fastjson import Encoded
from pyrmq.net.server.turns import TURN_SECONDS

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
            log.error("%s has more than %d bytes: not read", path, MAX_SIZE, extra=about(path=path))
            _damaged.add(path)
            return None
        text = path.read_bytes()
        return Content(fastjson.loads_object(text, MAX_SIZE), text)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror or e}") from e
    except ProtocolError as e:
        log.error("%s cannot be used: %s", path, escape(e), extra=about(path=path))
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
            log.error(
                "%s is used instead: the last change may be missing",
                escape(backup),
                extra=about(path=backup),
            )
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
            extra=about(path=path),
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


K = TypeVar("K")


class Rows(Encoded, Generic[K]):
    """Encoded rows of a table that changes while they are made.

    `freeze` takes the table as it is in that moment. `encode` then does the work in turns. A row
    that is about to change before its turn is encoded first, so that what `members` returns is the
    table that was frozen. `row` encodes the row of a key; one that is empty is left out.
    """

    def __init__(self, row: Callable[[K], bytes]) -> None:
        self._row = row
        self._encoded: dict[K, bytes] = {}
        self._frozen: OrderedDict[K, None] = OrderedDict()
        """Rows that are to be encoded as they are. (A dict would be slow to lose its first one.)"""
        self._changed: OrderedDict[K, None] = OrderedDict()
        """Rows that changed since the table was frozen."""
        self._removed: set[K] = set()
        """Rows that were removed since then: the frozen table still has them."""
        self._kept: dict[Any, bytes] = {}
        """Rows that are written as they were found."""

    def keep(self, rows: Mapping[Any, bytes]) -> None:
        """Encoded rows that the table does not have: they are written as they are. One that the
        table makes or removes takes their place."""
        self._kept.update(rows)

    def keeps(self, key: K) -> bool:
        """Whether this is such a row."""
        return key in self._kept

    def change(self, key: K) -> None:
        """Has to be called before a row changes, or is made."""
        if key in self._frozen:
            self._encode(key)
        self._changed[key] = None
        self._removed.discard(key)

    def remove(self, key: K) -> None:
        """Has to be called before a row is removed; it may be made again."""
        if key in self._frozen:
            self._encode(key)
        self._changed.pop(key, None)
        self._removed.add(key)

    def freeze(self) -> Self:
        """From now on this is the table as it is now. What was frozen before is no more."""
        for key in self._removed:
            self._encoded.pop(key, None)
        if self._kept:
            for key in (*self._removed, *self._changed):
                self._kept.pop(key, None)
        self._removed.clear()
        if self._frozen:
            self._frozen.update(self._changed)
            self._changed.clear()
        else:
            self._frozen, self._changed = self._changed, self._frozen
        return self

    def _encode(self, key: K) -> None:
        self._encoded[key] = self._row(key)
        del self._frozen[key]

    async def encode(self) -> None:
        """Encodes what is frozen, in turns; then `members` is quick, and safe in any thread until
        the next `freeze`."""
        end = time.monotonic() + TURN_SECONDS
        while self._frozen:
            self._encode(next(iter(self._frozen)))
            if time.monotonic() >= end:
                await trio.lowlevel.checkpoint()
                end = time.monotonic() + TURN_SECONDS

    def encoded(self, key: K) -> bytes:
        """The row of one key, as it was encoded last."""
        return self._encoded[key]

    def members(self) -> Iterable[bytes]:
        """The rows of the frozen table."""
        while self._frozen:
            self._encode(next(iter(self._frozen)))
        return filter(None, chain(self._encoded.values(), self._kept.values()))


class PersistentTable:
    """A table with a file. `changed` marks it; `save_if_changed` writes it in a worker thread.

    What may grow large is kept in `Rows`: encoding it whole would hold the loop, and a thread that
    encodes takes the GIL from the loop just the same.
    """

    def __init__(self, path: Path, on_changed: Callable[[], None] | None = None) -> None:
        """`on_changed` is called behind every change."""
        self.path = path
        self._changed = False
        self._lock = trio.Lock()
        self._on_changed = on_changed
        self._others: dict[Any, fastjson.Raw] = {}
        """Members of the file that are no part of the table."""
        self._version: dict[Any, Any] = {}
        """The same of its dataVersion."""

    def load(self, *known: str) -> Content:
        """The content of the file. Its members that are not `known` are written again as they are,
        whenever the file is. ConfigError if it cannot be read. Blocking."""
        content = load(self.path)
        self._others = content.others(known)
        version = content.get("dataVersion")
        if isinstance(version, dict):
            ours = DataVersion().to_json()
            self._version = {key: value for key, value in version.items() if key not in ours}
        return content

    def changed(self) -> None:
        self._changed = True
        if self._on_changed is not None:
            self._on_changed()

    def to_json(self) -> dict[str, Any]:
        """The content of the file as it is in this moment, with frozen `Rows` as members."""
        raise NotImplementedError

    def _whole(self) -> dict[Any, Any]:
        """`to_json`, and what others wrote into the file."""
        content: dict[Any, Any] = self.to_json()
        if self._version and "dataVersion" in content:
            content["dataVersion"] = self._version | content["dataVersion"]
        return self._others | content

    async def await_frozen(self) -> None:
        """Returns once what `to_json` gave last may be written. OSError if it must not be."""

    async def encoded(self) -> bytes:
        """The content of the file as it would be written now."""
        async with self._lock:
            content = self.to_json()
            for value in content.values():
                if isinstance(value, Rows):
                    await value.encode()
            return await trio.to_thread.run_sync(lambda: b"".join(fastjson.parts(content)))

    async def save_if_changed(self) -> None:
        """Writes the file if something changed since it was written last."""
        async with self._lock:
            if self._changed:
                self._changed = False
                try:
                    content = self._whole()
                    for value in content.values():
                        if isinstance(value, Rows):
                            await value.encode()
                    await self.await_frozen()
                    await trio.to_thread.run_sync(save, self.path, content)
                except BaseException:
                    self._changed = True
                    raise
