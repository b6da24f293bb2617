"""Tables of configuration keys: one row a key, which yields parsing, checks and documentation; and
the configuration of a server while it runs.

A settings class is a frozen dataclass whose fields are made by `key`. RocketMQ's keys that have no
field stand beside it, as `FixedKey` or `UnusedKey`. What is in neither is unknown, and an error.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar, get_type_hints

import trio

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.logs.about import about

log = logging.getLogger(__name__)

T = TypeVar("T")
_ROW = "key"
HIDDEN = "******"
"""What is shown of a secret."""
FOLDERS = "folders, separated by commas"
"""`values` of keys that hold paths."""
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
    live: bool
    """Whether UPDATE_BROKER_CONFIG, or UPDATE_NAMESRV_CONFIG, may change it: it then counts at
    once, everywhere."""
    secret: bool
    """Whether its value is shown nowhere: in no answer, error, log or output."""

    def shown(self, value: object) -> str:
        """The value as texts may have it."""
        return HIDDEN if self.secret and value else _shown(value)


@dataclasses.dataclass(frozen=True, slots=True)
class FixedKey:
    """A key of a feature that is not there: only values that do not ask for it are accepted.
    `why`: what is not there."""

    name: str
    accepted: tuple[str, ...]
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class UnusedKey:
    """A key that tunes something that is not there: accepted, reported, without effect."""

    name: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class RenamedKey:
    """A key of older versions, or a frequent mistake: an error that says what it is called now."""

    name: str
    now: str


OtherKeys = Sequence[FixedKey | UnusedKey | RenamedKey]


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
    live: bool = False,
    secret: bool = False,
) -> Any:
    """The field of a key in a settings class.

    `default`: the value, or a factory of it, whose text is `shown`. `low` and `high` bound numbers
    in files. `choices` and `check` (which raises ValueError) hold for all instances whose class
    calls `check_fields`. `name`, `values`, `section`, `live` and `secret`: see `Key`.
    """
    row = Key(doc, name, low, high, choices, check, values, shown, section, live, secret)
    if callable(default):
        if not shown:
            raise TypeError("a default that is a factory needs `shown`, its text")
        return dataclasses.field(default_factory=default, metadata={_ROW: row}, repr=not secret)
    return dataclasses.field(default=default, metadata={_ROW: row}, repr=not secret)


def keys_of(cls: Any) -> Mapping[str, tuple[str, Key]]:
    """RocketMQ's key -> field and row, of a settings class or an instance, in their order. Fields
    without a row are not for users."""
    return _keys_of(cls if isinstance(cls, type) else type(cls))


@cache
def _keys_of(cls: Any) -> Mapping[str, tuple[str, Key]]:
    out: dict[str, tuple[str, Key]] = {}
    for field in dataclasses.fields(cls):
        row: Key | None = field.metadata.get(_ROW)
        if row is None:
            continue
        out[row.name or _camel_case(field.name)] = (field.name, row)
    return MappingProxyType(out)


@cache
def _kinds(cls: Any) -> dict[str, Any]:
    """The types of its fields."""
    return get_type_hints(cls)


def values_of(instance: Any) -> dict[str, str]:
    """RocketMQ's key -> value as a file would have it, of an instance of a settings class. Secrets
    are hidden."""
    return {
        name: row.shown(getattr(instance, field))
        for name, (field, row) in keys_of(instance).items()
    }


def _camel_case(field: str) -> str:
    return re.sub(r"_(\w)", lambda m: m.group(1).upper(), field)


def check_fields(instance: Any) -> None:
    """Applies choices and checks, but not bounds. ConfigError names the key at fault."""
    for name, (field, row) in keys_of(instance).items():
        _check(name, row, getattr(instance, field))


def _check(name: str, row: Key, value: object) -> None:
    if row.choices and value not in row.choices:
        raise ConfigError(f"{name}={row.shown(value)}: {' or '.join(row.choices)} expected")
    if row.check is not None:
        try:
            row.check(value)
        except ValueError as error:
            raise ConfigError(f"{name}={row.shown(value)}: {error}") from None


def check_value(cls: Any, name: str, value: str, others: OtherKeys) -> None:
    """All checks of one key alone. ConfigError."""
    chosen = parsed(cls, {name: value}, others)
    for converted in chosen.values():
        _check(name, keys_of(cls)[name][1], converted)


def from_properties(cls: type[T], values: Mapping[str, str], others: OtherKeys) -> T:
    """Builds `cls` from the values of a file. ConfigError names the key at fault."""
    instance = cls(**parsed(cls, values, others))
    report_unused(values, others)
    return instance


def report_unused(values: Mapping[str, str], others: OtherKeys) -> None:
    """Logs which keys have no effect."""
    for row in others:
        if isinstance(row, UnusedKey) and row.name in values:
            text = values[row.name].strip()
            log.warning(
                "%s=%s has no effect: %s",
                escape(row.name),
                escape(text),
                escape(row.why),
                extra=about(key=row.name),
            )


def parsed(cls: Any, values: Mapping[str, str], others: OtherKeys) -> dict[str, Any]:
    """The values by field, as `cls` takes them. ConfigError as above, but not for what `cls` checks
    by itself (see `check_fields`)."""
    kinds = _kinds(cls)
    rows = keys_of(cls)
    other_rows = {row.name: row for row in others}
    chosen: dict[str, Any] = {}
    for name, raw in values.items():
        text = raw.strip()
        if name not in rows or not rows[name][1].secret:
            text = text.replace("${user.home}", str(Path.home()))
        if name in rows:
            field, row = rows[name]
            if not row.secret:
                _check_expanded(name, text, is_path=kinds[field] is Path or row.values == FOLDERS)
            chosen[field] = _parsed(name, text, kinds[field])
            if kinds[field] is int and not row.low <= chosen[field] <= row.high:
                raise ConfigError(f"{name}={text}: must be {row.low} to {row.high}")
            continue
        other = other_rows.get(name)
        if other is None:
            raise unknown(name, [*rows, *other_rows])
        if isinstance(other, RenamedKey):
            raise ConfigError(f"{name} is now called {other.now}")
        if isinstance(other, FixedKey) and text not in other.accepted:
            raise ConfigError(
                f"{name}={text} is not supported by this version: use "
                f"{' or '.join(other.accepted)} ({other.why})"
            )
    return chosen


def _check_expanded(name: str, text: str, *, is_path: bool) -> None:
    found = re.search(r"\$\{[^}]*\}", text) or (is_path and re.search(r"\$[A-Za-z_]\w*", text))
    if found:
        raise ConfigError(
            f"{name}={text}: {found[0]} is not replaced, only ${{user.home}} is: write out what it "
            "stands for"
        )


def unknown(name: str, known: Sequence[str]) -> ConfigError:
    """The error for a key that is none of `known`; it says which one is near."""
    close = difflib.get_close_matches(name[:100], known, 1, 0.7)
    hint = f"; did you mean {close[0]}?" if close else ""
    return ConfigError(f"unknown configuration key {name[:100]!r}{hint}")


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


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """What is to be known of a key. `default`: as a file would have it. `fixed`: whether that is
    its text; False if it depends on the machine. `values`: what values there are."""

    doc: str
    default: str
    fixed: bool
    values: str
    live: bool
    secret: bool


def described(cls: Any) -> dict[str, Described]:
    """All keys of a settings class, by RocketMQ's name."""
    kinds = _kinds(cls)
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    return {
        name: Described(
            row.doc,
            row.default or _shown(defaults[field]),
            not row.default,
            _values(row, kinds[field]),
            row.live,
            row.secret,
        )
        for name, (field, row) in keys_of(cls).items()
    }


def markdown(cls: Any, others: OtherKeys, update: str = "updateBrokerConfig") -> str:
    """The tables of a settings class for docs/configuration.md, a section for each."""
    kinds = _kinds(cls)
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    lines: list[str] = []
    for name, (field, row) in keys_of(cls).items():
        if row.section:
            lines += ["", f"### {row.section}", "", "| Key | Default | Values | Meaning |"]
            lines.append("|---|---|---|---|")
        default = row.default or _shown(defaults[field])
        lines.append(f"| {name} | {default} | {_values(row, kinds[field])} | {row.doc} |")
    live = [name for name, (_, row) in keys_of(cls).items() if row.live]
    if live:
        lines += ["", f"### Keys that {update} changes", ""]
        lines += textwrap.wrap(", ".join(live) + ".", 110)
    lines += [
        "",
        "### Features that are not there",
        "",
        "| Key | Accepted | Why |",
        "|---|---|---|",
    ]
    fixed = [other for other in others if isinstance(other, FixedKey)]
    lines += [f"| {other.name} | {', '.join(other.accepted)} | {other.why} |" for other in fixed]
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


C = TypeVar("C")
Watcher = Callable[[C, C], None]
"""Called with the configuration before a change, and after it."""


class LiveConfig(Generic[C]):
    """`now` is the configuration as it is. Who uses a key that may change reads it from there each
    time; what was made of one is made anew by a watcher."""

    def __init__(self, config: C) -> None:
        self.now = config
        self._watchers: list[Watcher[C]] = []
        self._changed = trio.Event()

    def watch(self, watcher: Watcher[C]) -> None:
        self._watchers.append(watcher)

    def change(self, config: C) -> None:
        """From now on this is the configuration, for all that read it."""
        before, self.now = self.now, config
        for watcher in self._watchers:
            watcher(before, config)
        self._changed.set()
        self._changed = trio.Event()

    async def pause(self, milliseconds: Callable[[C], float]) -> None:
        """Sleeps for as long as the configuration says, also if it says so in the meantime."""
        start = trio.current_time()
        over = False
        while not over:
            changed = self._changed
            with trio.move_on_at(start + milliseconds(self.now) / 1000) as scope:
                await changed.wait()
            over = scope.cancelled_caught
