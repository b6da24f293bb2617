"""The file of `pyrmq pipeline table watch`: which topics, into which tables, how often.

TOML. A table `[[tables]]` has the options of `pyrmq pipeline table write` by their long names, so
there is one set of rules; `[all]` has those that all of them share.

    every = "10m"
    [all]
    catalog = "/data/lake"
    store = ["/data/store"]
    [[tables]]
    topic = "orders"
    table = "mq.orders"
    [upkeep]
    every = "1d"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pyrmq.config import toml_file
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from spark_ext.jobs.early import near
from spark_ext.jobs.table_expire import AGE
from spark_ext.jobs.table_service import Duration
from spark_ext.jobs.table_write import command as write

MAX_BYTES = 1 << 20
MAX_TABLES = 1000
EVERY = 600.0
"""Seconds between two commits of a table, unless the file says."""
WAIT = "5s"
"""How long a catalog that is away is waited for: the next table has its turn then."""
_STORES = "store"
"""Key of the command's argument."""
_NOT = ("every", "follow", "help", "check", "since", "until")
"""Options of the command that a table of the file cannot have; `every` is the file's own, and times
are refused by the command."""


@dataclass(frozen=True)
class Watched:
    """A topic and its table."""

    table: str
    topic: str
    catalog: str
    properties: tuple[tuple[str, str], ...]
    """Of the catalog."""
    arguments: tuple[str, ...]
    """Of `pyrmq pipeline table write`."""
    every: float
    form: str = "iceberg"


@dataclass(frozen=True)
class Upkeep:
    """How often Iceberg tables are compacted and their snapshots expired; times are seconds."""

    every: float
    age: float | None = None
    keep: int | None = None


@dataclass(frozen=True)
class Settings:
    """All of the file."""

    tables: tuple[Watched, ...]
    upkeep: Upkeep | None = None


def read(path: str | Path) -> Settings:
    """Reads a file. ConfigError says what is wrong and where; OSError."""
    return toml_file.read(Path(path), escape(path), parse, MAX_BYTES, "that is no such file")


def parse(text: str) -> Settings:
    """The settings that a text holds. ConfigError."""
    found = toml_file.table(text)
    _known(found, ("every", "all", "tables", "upkeep"), "")
    every = _duration(found.get("every"), "every") or EVERY
    shared = _dict(found.get("all", {}), "all")
    entries = found.get("tables")
    if not isinstance(entries, list) or not entries:
        raise ConfigError("it has no [[tables]]: name at least one topic and its table")
    if len(entries) > MAX_TABLES:
        raise ConfigError(f"{len(entries)} tables: at most {MAX_TABLES} in one file")
    tables = []
    for number, entry in enumerate(entries, 1):
        where = f"tables[{number}]"
        tables.append(_table({**shared, **_dict(entry, where)}, where, every))
    seen: set[tuple[str, str]] = set()
    for one in tables:
        if (one.catalog, one.table) in seen:
            raise ConfigError(f"table {escape(one.table)} is there twice: a table has one topic")
        seen.add((one.catalog, one.table))
    return Settings(tuple(tables), _upkeep(found.get("upkeep")))


def _table(entry: Mapping[str, Any], where: str, every: float) -> Watched:
    options = _options()
    _known(entry, (_STORES, "every", *options), where)
    arguments: list[str] = []
    for key, value in entry.items():
        if key in options:
            arguments += _arguments(options[key], value, f"{where}.{key}")
    if "wait" not in entry:
        arguments.append(f"--wait={WAIT}")
    if "engine" not in entry:
        arguments.append("--engine=local")  # a large backlog is written turn by turn, not by Spark
    stores = entry.get(_STORES, [])
    arguments += ["--", *_texts(stores, f"{where}.{_STORES}")]
    try:
        params = write.make_context("write", list(arguments)).params
    except click.ClickException as e:
        raise ConfigError(f"{where}: {escape(e.format_message())}") from None
    if not stores and "namesrv" not in entry:
        raise ConfigError(f"{where}: name the stores to read (store), or name servers (namesrv)")
    own = _duration(entry.get("every"), f"{where}.every")
    return Watched(
        params["name"],
        params["topic"],
        params["catalog"],
        params["catalog_property"],
        tuple(arguments),
        own or every,
        params["form"],
    )


def _options() -> dict[str, click.Option]:
    """The options of the command by their long names."""
    return {
        name[2:]: option
        for option in write.params
        if isinstance(option, click.Option)
        for name in option.opts
        if name.startswith("--") and name[2:] not in _NOT
    }


def _arguments(option: click.Option, value: Any, where: str) -> list[str]:
    name = next(name for name in option.opts if name.startswith("--"))
    if option.is_flag:
        if not isinstance(value, bool):
            raise ConfigError(f"{where}: true or false is wanted, not {_shown(value)}")
        return [name] if value else []
    if isinstance(value, dict):
        return [f"{name}={key}={_text(text, where)}" for key, text in value.items()]
    if option.multiple:
        return [f"{name}={text}" for text in _texts(value, where)]
    return [f"{name}={_text(value, where)}"]


def _upkeep(found: Any) -> Upkeep | None:
    if found is None:
        return None
    table = _dict(found, "upkeep")
    _known(table, ("every", "older-than", "keep"), "upkeep")
    keep = table.get("keep")
    if keep is not None and (type(keep) is not int or not 1 <= keep <= 1_000_000):
        raise ConfigError(f"upkeep.keep: a number of snapshots is wanted, not {_shown(keep)}")
    return Upkeep(
        _duration(table.get("every"), "upkeep.every") or 86400.0,
        _duration(table.get("older-than"), "upkeep.older-than", AGE),
        keep,
    )


def _known(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    names = set(known)
    for key in table:
        if key not in names:
            at = f"{where}.{key}" if where else key
            raise ConfigError(f"{escape(at)}: unknown key: {near(key, names)}")


def _dict(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: a table is wanted, not {_shown(value)}")
    return value


def _duration(value: Any, where: str, kind: Duration | None = None) -> float | None:
    if value is None:
        return None
    kind = kind or Duration()
    try:
        return kind.convert(_text(value, where), None, None)
    except click.ClickException as e:
        raise ConfigError(f"{where}: {escape(e.format_message())}") from None


def _texts(value: Any, where: str) -> list[str]:
    if isinstance(value, str):
        return [_text(value, where)]
    if not isinstance(value, list):
        raise ConfigError(f"{where}: texts in [ ] are wanted, not {_shown(value)}")
    return [_text(one, where) for one in value]


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise ConfigError(f"{where}: a text is wanted, not {_shown(value)}")
    return str(value)


def _shown(value: Any) -> str:
    return escape(repr(value))[:100]
