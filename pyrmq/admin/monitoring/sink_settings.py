"""What a file says of the places where alarms go; reading a table of TOML strictly."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pyrmq.admin.link import near
from pyrmq.errors import ConfigError

MAX_TEXTS = 1_000


class TomlTable:
    """A table. `end` raises for the keys that were not read."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self._values = values
        self._known: set[str] = set()

    def at(self, key: str) -> str:
        """The key with the name of its table."""
        return f"{self.name}.{key}" if self.name else key

    def has(self, key: str) -> bool:
        self._known.add(key)
        return key in self._values

    def names(self) -> list[str]:
        return list(self._values)

    def end(self) -> None:
        """ConfigError for a key that was not read."""
        for key in self._values:
            if key not in self._known:
                raise ConfigError(f"{self.at(key)}: unknown key{near(key, self._known)}")

    def _get(self, key: str, default: Any) -> Any:
        self._known.add(key)
        return self._values.get(key, default)

    def number(self, key: str, default: float, low: float, high: float) -> float:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{self.at(key)}: a number is wanted, not {_shown(value)}")
        if not (low <= value <= high and math.isfinite(value)):
            limit = "" if math.isinf(high) else f" to {high:g}"
            raise ConfigError(
                f"{self.at(key)}: {low:g}{limit or ' or more'} is wanted, not {value}"
            )
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{self.at(key)}: the number is too large") from None

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{self.at(key)}: a whole number is wanted, not {_shown(value)}")
        if not low <= value <= high:
            raise ConfigError(f"{self.at(key)}: {low} to {high} is wanted, not {value}")
        return value

    def truth(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.at(key)}: true or false is wanted, not {_shown(value)}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if value is None:
            raise ConfigError(f"{self.at(key)} is missing")
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self.at(key)}: a text is wanted, not {_shown(value)}")
        return value

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self._get(key, default)
        if isinstance(value, tuple):
            return value
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise ConfigError(f"{self.at(key)}: a list of texts is wanted, not {_shown(value)}")
        if len(value) > MAX_TEXTS:
            raise ConfigError(f"{self.at(key)} has more than {MAX_TEXTS} texts")
        return tuple(value)

    def table(self, key: str) -> TomlTable:
        """The table of a key; an empty one if it is absent."""
        value = self._get(key, {})
        if not isinstance(value, dict):
            raise ConfigError(f"{self.at(key)}: a table is wanted, not {_shown(value)}")
        return TomlTable(self.at(key), value)

    def tables(self, key: str, most: int) -> list[TomlTable]:
        """The tables of `[[key]]`."""
        value = self._get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise ConfigError(f"{self.at(key)}: write each of them as [[{self.at(key)}]]")
        if len(value) > most:
            raise ConfigError(f"{self.at(key)}: there are more than {most}")
        return [TomlTable(f"{self.at(key)}[{at}]", v) for at, v in enumerate(value, 1)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]{0,8192}")
OWN_HEADERS = {"content-length", "host", "transfer-encoding", "connection"}


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Lines of the log."""

    name: str = "log"


@dataclass(frozen=True, slots=True)
class JsonSettings:
    """Lines of JSON on stdout."""

    name: str = "json"


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """A program that is run for each event, which it gets as JSON on stdin. No shell reads it."""

    argv: tuple[str, ...]
    timeout: float = 10.0
    retries: int = 0
    name: str = "command"


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """An address that gets each event as JSON, with POST."""

    url: str
    timeout: float = 10.0
    retries: int = 3
    headers: Mapping[str, str] = field(default_factory=dict)
    name: str = "webhook"


SinkSettings = LogSettings | JsonSettings | CommandSettings | WebhookSettings
TYPES = ("log", "json", "command", "webhook")


def sink_settings(table: TomlTable) -> SinkSettings:
    """One `[[sinks]]`. ConfigError."""
    kind = table.text("type")
    found: SinkSettings
    if kind == "log":
        found = LogSettings()
    elif kind == "json":
        found = JsonSettings()
    elif kind == "command":
        found = _command(table)
    elif kind == "webhook":
        found = _webhook(table)
    else:
        raise ConfigError(f"{table.at('type')}: {kind!r} is none{near(kind, TYPES)}")
    table.end()
    return found


def _limits(table: TomlTable, retries: int) -> tuple[float, int]:
    return table.number("timeout", 10.0, 0.1, 3600), table.whole("retries", retries, 0, 10)


def _command(table: TomlTable) -> CommandSettings:
    argv = table.texts("command", ())
    if not argv:
        raise ConfigError(
            f'{table.at("command")}: a list is wanted, the program and its arguments: ["notify"]'
        )
    if any("\0" in word for word in argv):
        raise ConfigError(f"{table.at('command')}: it has a NUL character")
    timeout, retries = _limits(table, 0)
    return CommandSettings(argv, timeout, retries, f"command {argv[0]}")


def _webhook(table: TomlTable) -> WebhookSettings:
    url = table.text("url")
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{table.at('url')}: it has to be http://host/path or https://host/path")
    if parts.username or parts.password:
        raise ConfigError(
            f"{table.at('url')}: put credentials into headers: they would be in every log"
        )
    headers = {}
    own = table.table("headers")
    for name in own.names():
        value = own.text(name)
        if not _HEADER_NAME.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise ConfigError(f"{own.at(name)}: such a header cannot be set")
        if not _HEADER_VALUE.fullmatch(value):
            raise ConfigError(f"{own.at(name)}: only printable ASCII can be sent")
        headers[name] = value
    timeout, retries = _limits(table, 3)
    place = f"{parts.scheme}://{parts.netloc}"
    return WebhookSettings(url, timeout, retries, headers, f"webhook {place}")
