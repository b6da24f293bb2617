"""KV configuration (namespace, key, value), its file, and the requests that read and change it.
[KVConfigManager, DefaultRequestProcessor]

A change counts when it is on disk. Tables are kept encoded as well: the file is written whole, and
one namespace is part of every answer to a broker that registers.

kvConfig.json has RocketMQ's format. It is replaced atomically: a crash leaves the file before or
the new one. Its lock keeps a second name server from undoing the changes of the first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
from collections.abc import Awaitable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import IO

import trio

from pyrmq.config import files
from pyrmq.engine import Command, json_members
from pyrmq.errors import (
    ConfigError,
    InvalidParameterError,
    ProtocolError,
    QueryNotFoundError,
    ServiceNotAvailableError,
)
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.route import MAX_ROUTE_QUEUES
from pyrmq.namesrv import fields
from pyrmq.net import fastjson
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import Steps, Turns

log = logging.getLogger(__name__)
MAX_READ = 64 << 20
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
            log.warning(
                "%s is not locked: %s",
                escape(self._path),
                escape(e.strerror),
                extra=about(path=self._path),
            )
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
            log.warning(
                "%s is not locked: %s",
                escape(self._path),
                escape(e.strerror),
                extra=about(path=self._path),
            )
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
            content = file.read(MAX_READ + 1)
    except FileNotFoundError:
        return {}, []
    except OSError as e:
        raise _unusable(path, e.strerror or str(e)) from e
    if len(content) > MAX_READ:
        raise _unusable(path, f"it has more than {MAX_READ} bytes")
    try:
        value = fastjson.loads_object(content, MAX_READ)
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


ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of order configurations: by topic, such as `broker-a:8;broker-b:8`."""

MAX_NAME = 255
"""Longest namespace or key, characters."""
MAX_VALUE = 32_768
"""Longest value, bytes."""
MAX_NAMESPACES = 1024
MAX_KEYS = 1 << 17
"""Most keys of all namespaces."""
MAX_SIZE = 16 << 20
"""Largest file, bytes."""
MAX_TABLE = 8 << 20
"""Largest namespace, encoded, bytes: all of it is in one answer, of at most 16 MiB."""
SOME = 256
"""Keys that are encoded in one step."""

Tables = dict[str, dict[str, str]]
_ORDER = re.compile(r"([^:;]{1,255}):([0-9]{1,9})")


def check_name(what: str, name: str) -> None:
    """Raises InvalidParameterError if a text is no valid namespace or key."""
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidParameterError(
            f"{what} {name[:64]!r} is illegal: 1 to {MAX_NAME} printable characters"
        )


def check_value(value: str) -> None:
    """InvalidParameterError for a value that cannot be kept."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidParameterError("value is no text: it has half a surrogate pair") from None
    if size > MAX_VALUE:
        raise InvalidParameterError(f"value has {size} bytes: at most {MAX_VALUE}")


class KvConfig:
    """Reads its file when it is made. ConfigError if that cannot be used. `lock` is held before
    the file is written."""

    def __init__(self, path: Path, turns: Turns, lock: KvLock | None = None) -> None:
        self._path = path
        self._lock = lock
        self._turns = turns
        self._changing = trio.Lock()
        self._last: trio.Event | None = None
        """The end of the last change that was asked for."""
        self._tables: Tables
        self._tables, self._others = load(path)
        self._rows = {name: _encoded_at_once(table) for name, table in self._tables.items()}
        """Members of each namespace's object, as JSON."""

    def get(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def sizes(self) -> tuple[int, int]:
        """How many namespaces there are, and how many values in all."""
        return len(self._tables), sum(map(len, self._tables.values()))

    def table(self, namespace: str) -> bytes | None:
        """All of a namespace as a KVTable; None if there is nothing in it."""
        rows = self._rows.get(namespace)
        return None if rows is None else b'{"table":{%b}}' % rows

    def change(self, namespace: str, key: str, value: str | None) -> Awaitable[bool]:
        """Sets a value, or deletes it (None), behind all changes before it. Awaits the disk;
        returns whether anything has changed. InvalidParameterError, OSError."""
        if value is not None:
            check_name("namespace", namespace)
            check_name("key", key)
            check_value(value)
        before, self._last = self._last, trio.Event()
        return self._behind(before, self._last, namespace, key, value)

    async def _behind(
        self,
        before: trio.Event | None,
        done: trio.Event,
        namespace: str,
        key: str,
        value: str | None,
    ) -> bool:
        try:
            if before is not None:
                await before.wait()
            async with self._changing:  # the one before may have been given up
                return await self._set(namespace, key, value)
        finally:
            done.set()

    async def _set(self, namespace: str, key: str, value: str | None) -> bool:
        if self.get(namespace, key) == value:
            return False
        table = dict(self._tables.get(namespace, {}))
        if value is None:
            del table[key]
        else:
            table[key] = value
        await self._replace(namespace, table)
        return True

    async def _replace(self, namespace: str, table: dict[str, str]) -> None:
        tables = {**self._tables, namespace: table}
        rows = dict(self._rows)
        rows[namespace] = await self._turns.run(_encoded(table))
        if len(rows[namespace]) > max(MAX_TABLE, len(self._rows.get(namespace, b""))):
            raise InvalidParameterError(
                f"namespace {namespace[:64]} would have more than {MAX_TABLE} bytes: delete keys"
            )
        if not table:
            del tables[namespace], rows[namespace]
        if len(tables) > max(MAX_NAMESPACES, len(self._tables)):
            raise InvalidParameterError(f"there are {MAX_NAMESPACES} namespaces already")
        if _size(tables) > max(MAX_KEYS, _size(self._tables)):
            raise InvalidParameterError(f"there are {MAX_KEYS} keys already")
        # A file of another version may be larger: it can shrink.
        if _size(rows) > max(MAX_SIZE, _size(self._rows)):
            raise InvalidParameterError(f"{self._path.name} would have more than {MAX_SIZE} bytes")
        await trio.to_thread.run_sync(self._save, rows)
        self._tables, self._rows = tables, rows

    def _save(self, rows: Mapping[str, bytes]) -> None:
        """Blocking."""
        if self._lock is not None:
            make_folder(self._path)
            try:
                self._lock.hold()
            except ConfigError as e:
                log.error("the KV configuration is held by another: %s", escape(e))
                raise ServiceNotAvailableError(
                    "KV configuration cannot be saved: another name server, which has started with "
                    f"the same {self._path.name}, has it. Nothing is changed"
                ) from e
        save(self._path, rows, self._others)


def _size(tables: Mapping[str, Sized]) -> int:
    return sum(map(len, tables.values()))


def _encoded(table: Mapping[str, str]) -> Steps[bytes]:
    members = []
    for n, (key, value) in enumerate(table.items(), 1):
        members.append(fastjson.member(key, value))
        if n % SOME == 0:
            yield
    return b",".join(members)


def _encoded_at_once(table: Mapping[str, str]) -> bytes:
    return b",".join([fastjson.member(key, value) for key, value in table.items()])


def check_order(value: str) -> None:
    """InvalidParameterError for what is no order configuration: clients build their queues from
    it, and fail on another form, each in its own way."""
    brokers = set()
    for part in value.split(";"):
        found = _ORDER.fullmatch(part)
        if found is None or not 0 < int(found[2]) <= MAX_ROUTE_QUEUES:
            raise InvalidParameterError(
                f"order configuration {value[:64]!r}: broker:number of queues expected, several "
                f"separated by a semicolon, such as broker-a:8;broker-b:8 (1 to {MAX_ROUTE_QUEUES})"
            )
        fields.check_name("order configuration: broker", found[1])
        if found[1] in brokers:
            raise InvalidParameterError(f"order configuration: broker {found[1]!r} is named twice")
        brokers.add(found[1])


class KvProcessor:
    def __init__(self, kv: KvConfig) -> None:
        self._kv = kv

    def put(self, connection: Connection, command: Command) -> Awaitable[Response]:
        """PUT_KV_CONFIG: answered when it is on disk."""
        value = fields.text(command, "value")
        if fields.text(command, "namespace") == ORDER_TOPIC_CONFIG:
            fields.check_topic(fields.text(command, "key"))
            check_order(value)
        return self._change(connection, command, value)

    def delete(self, connection: Connection, command: Command) -> Awaitable[Response]:
        """DELETE_KV_CONFIG: a success as well where there is nothing to delete."""
        return self._change(connection, command, None)

    def _change(
        self, connection: Connection, command: Command, value: str | None
    ) -> Awaitable[Response]:
        namespace, key = fields.text(command, "namespace"), fields.text(command, "key")
        what = f"{connection.peer} {'deletes' if value is None else 'sets'} {key} in {namespace}"
        return self._changed(self._kv.change(namespace, key, value), what)

    async def _changed(self, change: Awaitable[bool], what: str) -> Response:
        try:
            if await change:
                log.info("KV configuration: %s", escape(what))
        except OSError as e:
            log.error("KV configuration cannot be saved: %s", escape(e))
            file = Path(str(e.filename)).name
            raise ServiceNotAvailableError(
                f"KV configuration cannot be saved: {e.strerror} ({file}). Nothing is changed"
            ) from e
        return Response()

    def get(self, connection: Connection, command: Command) -> Response:
        """GET_KV_CONFIG."""
        namespace, key = fields.text(command, "namespace"), fields.text(command, "key")
        value = self._kv.get(namespace, key)
        if value is None:
            raise QueryNotFoundError(
                f"No config item, Namespace: {namespace[:255]} Key: {key[:255]}"
            )
        return Response(ext={"value": value})

    def all(self, connection: Connection, command: Command) -> Response:
        """GET_KVLIST_BY_NAMESPACE."""
        namespace = fields.text(command, "namespace")
        table = self._kv.table(namespace)
        if table is None:
            raise QueryNotFoundError(f"No config item, Namespace: {namespace[:255]}")
        return Response(body=table)
