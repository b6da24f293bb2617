"""Two exports of a cluster compared: what was added, what is gone, which fields are others.

The files are those of exportConfigs, exportMetadata and exportMetrics, RocketMQ's and pyrmq's. When
an export was made (`exportTime`, `dataVersion`) does not count, nor does the order of a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from pyrmq.errors import ClientError, ProtocolError
from pyrmq.net import fastjson

MAX_BYTES = 256 << 20
"""The largest file that is read."""
MAX_VALUES = 16 << 20
"""Most values that a file may hold."""
MAX_DEPTH = 32
"""How deep objects within a row are taken apart; below that they are compared as a whole."""

TABLES = {
    "brokerConfigs": "broker config",
    "topicConfigTable": "topic",
    "subscriptionGroupTable": "group",
    "evaluateReport": "broker metrics",
}
"""Members of an export that have a row for each name, and what a row is."""
SINGLES = {"clusterScale": "cluster scale", "totalData": "total metrics"}
"""Members that are one row."""
KINDS = {
    "exportConfigs": ("brokerConfigs", "clusterScale"),
    "exportMetadata": ("topicConfigTable", "subscriptionGroupTable"),
    "exportMetrics": ("evaluateReport", "totalData"),
}
"""By the command that writes it: the members of its file."""

Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `old` or `new` is None where that side has nothing."""

    kind: str
    """What it is about: `topic`, `group`, `broker config`, …"""
    name: str
    """Which one; empty for what there is once."""
    change: str
    """`added`, `removed` or `changed`."""
    field: str
    """Which field, `a.b` for one within another; empty for the whole."""
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """What two exports have in common was compared, with these changes."""

    changes: list[Change]
    compared: list[str]
    """Which kinds both have."""
    only_old: list[str]
    only_new: list[str]
    """Which kinds only one has: they are not compared."""

    @property
    def equal(self) -> bool:
        return not self.changes


@dataclass(frozen=True, slots=True)
class Export:
    """One file."""

    name: str
    tables: dict[str, Rows]
    """By the name of the member."""

    @property
    def written_by(self) -> str:
        return next(k for k, members in KINDS.items() if set(members) & set(self.tables))


async def read(path: str | Path) -> Export:
    """Reads an export. ClientError for a file that is none, or too large; OSError."""
    raw = await trio.to_thread.run_sync(_bytes, Path(path))
    return parse(str(path), raw)


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ClientError(f"{path} has more than {MAX_BYTES >> 20} MiB: that is no export")
    return raw


def parse(name: str, raw: bytes) -> Export:
    """The export that a file holds. ClientError."""
    try:
        found = fastjson.loads_object(raw, MAX_VALUES, "it")
    except (ProtocolError, RecursionError) as e:
        raise ClientError(f"{name} is no export: {e}") from None
    tables: dict[str, Rows] = {}
    for member, kind in TABLES.items():
        if member in found:
            tables[member] = _rows(name, f"{member} ({kind})", found[member])
    for member, kind in SINGLES.items():
        if member in found:
            tables[member] = _rows(name, f"{member} ({kind})", {"": found[member]})
    if not tables:
        raise ClientError(
            f"{name} is no export: it has none of {', '.join([*TABLES, *SINGLES])}; "
            "`pyrmq admin export` writes such files"
        )
    return Export(name, tables)


def _rows(name: str, what: str, found: Any) -> Rows:
    if not isinstance(found, Mapping):
        raise ClientError(f"{name} is no export: {what} is no object")
    for key, row in found.items():
        if not isinstance(row, Mapping):
            raise ClientError(f"{name} is no export: {key!s} in {what} is no object")
    return {str(key): {str(k): v for k, v in row.items()} for key, row in found.items()}


def compare(old: Export, new: Export) -> Difference:
    """What changed from one export to another, in an order that is always the same. ClientError if
    they have nothing in common."""
    names = TABLES | SINGLES
    both = [m for m in names if m in old.tables and m in new.tables]
    if not both:
        raise ClientError(
            f"{old.name} is of {old.written_by} and {new.name} of {new.written_by}: "
            "compare two files of one kind"
        )
    changes = [c for m in both for c in _changes(names[m], old.tables[m], new.tables[m])]
    return Difference(
        changes,
        [names[m] for m in both],
        [names[m] for m in names if m in old.tables and m not in new.tables],
        [names[m] for m in names if m in new.tables and m not in old.tables],
    )


def _changes(kind: str, old: Rows, new: Rows) -> Iterator[Change]:
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield Change(kind, name, "removed", "", old[name], None)
        elif name not in old:
            yield Change(kind, name, "added", "", None, new[name])
        else:
            yield from _fields(kind, name, "", old[name], new[name], MAX_DEPTH)


def _fields(
    kind: str, name: str, prefix: str, old: Mapping[Any, Any], new: Mapping[Any, Any], depth: int
) -> Iterator[Change]:
    olds, news = ({str(k): v for k, v in one.items() if v is not None} for one in (old, new))
    for key in sorted(olds.keys() | news.keys()):
        field, a, b = f"{prefix}{key}", olds.get(key), news.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping) and depth:
            yield from _fields(kind, name, f"{field}.", a, b, depth - 1)
        elif not same(a, b):
            change = "added" if a is None else "removed" if b is None else "changed"
            yield Change(kind, name, change, field, a, b)


def same(a: Any, b: Any) -> bool:
    """Whether two values mean the same: 1 and 1.0 do, true and 1 do not, lists in any order do."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and sorted(map(_key, a)) == sorted(map(_key, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return _key(a) == _key(b)
    return bool(a == b)


def _key(value: Any) -> str:
    """A text that is the same for values that mean the same."""
    if isinstance(value, Mapping):
        return repr(sorted((str(k), _key(v)) for k, v in value.items() if v is not None))
    if isinstance(value, list):
        return repr(sorted(map(_key, value)))
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value)
