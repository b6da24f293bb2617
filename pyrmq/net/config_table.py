"""Tables of configuration keys: one row a key, which yields parsing, checks and documentation.

A settings class is a frozen dataclass whose fields are made by `key`. RocketMQ's keys that have no
field stand beside it, as `FixedKey` or `UnusedKey`. What is in neither is unknown, and an error.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from pyrmq.errors import ConfigError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

T = TypeVar("T")
_ROW = "key"
_MAX_INT = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One key that sets something. Values are texts, numbers, booleans or paths, by its field."""

    doc: str
    name: str
    """RocketMQ's key; "" in a field: the camelCase form of the field's name."""
    low: int
    high: int
    """Bounds of a number in a file, both inclusive."""
    choices: tuple[str, ...]
    """The values of a text; empty: any."""
    check: Callable[[Any], object] | None
    """Raises ValueError, whose text says what is expected."""
    values: str
    """What values there are, for the documentation; "": by type, bounds and choices."""
    default: str
    """The default where it depends on the machine, for the documentation."""
    section: str
    """Heading of the keys from this one on; "": that of the key before."""


@dataclasses.dataclass(frozen=True, slots=True)
class FixedKey:
    """A key of a feature that is not there: only values that do not ask for it are accepted."""

    name: str
    accepted: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class UnusedKey:
    """A key that tunes something that is not there: accepted, reported, without effect."""

    name: str
    why: str


OtherKeys = Sequence[FixedKey | UnusedKey]


def key(
    default: Any,
    doc: str,
    *,
    name: str = "",
    low: int = 0,
    high: int = _MAX_INT,
    choices: tuple[str, ...] = (),
    check: Callable[[Any], object] | None = None,
    values: str = "",
    shown: str = "",
    section: str = "",
) -> Any:
    """The field of a key in a settings class.

    `default`: the value, or a factory of it, whose text is `shown`. `low` and `high` bound numbers
    in files. `choices` and `check` (which raises ValueError) hold for all instances whose class
    calls `check_fields`. `name`, `values` and `section`: see `Key`.
    """
    row = Key(doc, name, low, high, choices, check, values, shown, section)
    if callable(default):
        if not shown:
            raise TypeError("a default that is a factory needs `shown`, its text")
        return dataclasses.field(default_factory=default, metadata={_ROW: row})
    return dataclasses.field(default=default, metadata={_ROW: row})


def keys_of(cls: Any) -> dict[str, tuple[str, Key]]:
    """RocketMQ's key -> field and row, of a settings class or an instance, in their order."""
    out: dict[str, tuple[str, Key]] = {}
    for field in dataclasses.fields(cls):
        row: Key = field.metadata[_ROW]
        out[row.name or _camel_case(field.name)] = (field.name, row)
    return out


def values_of(instance: Any) -> dict[str, str]:
    """RocketMQ's key -> value as a file would have it, of an instance of a settings class."""
    return {
        name: _shown(getattr(instance, field)) for name, (field, _) in keys_of(instance).items()
    }


def _camel_case(field: str) -> str:
    return re.sub(r"_(\w)", lambda m: m.group(1).upper(), field)


def check_fields(instance: Any) -> None:
    """Applies choices and checks, but not bounds. ConfigError names the key at fault."""
    for name, (field, row) in keys_of(instance).items():
        value = getattr(instance, field)
        if row.choices and value not in row.choices:
            raise ConfigError(f"{name}={value}: {' or '.join(row.choices)} expected")
        if row.check is not None:
            try:
                row.check(value)
            except ValueError as error:
                raise ConfigError(f"{name}={value}: {error}") from None


def from_properties(cls: type[T], values: Mapping[str, str], others: OtherKeys) -> T:
    """Builds `cls` from the values of a file. ConfigError names the key at fault."""
    kinds = get_type_hints(cls)
    rows = keys_of(cls)
    fixed = {row.name: row for row in others if isinstance(row, FixedKey)}
    unused = {row.name: row for row in others if isinstance(row, UnusedKey)}
    chosen: dict[str, Any] = {}
    for name, raw in values.items():
        text = raw.strip().replace("${user.home}", str(Path.home()))
        if name in rows:
            field, row = rows[name]
            chosen[field] = _parsed(name, text, kinds[field])
            if kinds[field] is int and not row.low <= chosen[field] <= row.high:
                raise ConfigError(f"{name}={text}: must be {row.low} to {row.high}")
        elif name in fixed:
            accepted = fixed[name].accepted
            if text not in accepted:
                raise ConfigError(
                    f"{name}={text} is not supported by this version: use {' or '.join(accepted)}"
                )
        elif name in unused:
            log.warning(
                "%s=%s has no effect: %s", escape(name), escape(text), escape(unused[name].why)
            )
        else:
            close = difflib.get_close_matches(name, [*rows, *fixed, *unused], 1, 0.7)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"unknown configuration key {name!r}{hint}")
    return cls(**chosen)


def _parsed(name: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name}={text}: true or false expected")
        return text.lower() == "true"
    if kind is int:
        if not re.fullmatch(r"-?\d{1,18}", text):
            raise ConfigError(f"{name}={text}: a number expected")
        return int(text)
    return Path(text).expanduser() if kind is Path else text


def markdown(cls: type[Any], others: OtherKeys) -> str:
    """The tables of a settings class for docs/configuration.md, a section for each."""
    kinds = get_type_hints(cls)
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    lines: list[str] = []
    for name, (field, row) in keys_of(cls).items():
        if row.section:
            lines += ["", f"### {row.section}", "", "| Key | Default | Values | Meaning |"]
            lines.append("|---|---|---|---|")
        default = row.default or _shown(defaults[field])
        lines.append(f"| {name} | {default} | {_values(row, kinds[field])} | {row.doc} |")
    lines += ["", "### Features that are not there", "", "| Key | Accepted |", "|---|---|"]
    fixed = [other for other in others if isinstance(other, FixedKey)]
    lines += [f"| {other.name} | {', '.join(other.accepted)} |" for other in fixed]
    unused: dict[str, list[str]] = {}
    for other in others:
        if isinstance(other, UnusedKey):
            unused.setdefault(other.why, []).append(other.name)
    lines += ["", "### Keys without effect", "", "| Keys | Why |", "|---|---|"]
    lines += [f"| {', '.join(names)} | {why} |" for why, names in unused.items()]
    return "\n".join(lines).strip() + "\n"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(row: Key, kind: Any) -> str:
    if row.values:
        return row.values
    if row.choices:
        return ", ".join(row.choices)
    if kind is bool:
        return "true, false"
    if kind is int:
        return f"{row.low} or more" if row.high == _MAX_INT else f"{row.low} to {row.high}"
    return "a folder" if kind is Path else "text"
