"""What a file says of the places where alarms go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pyrmq.admin.link import near
from pyrmq.admin.monitoring.toml_table import TomlTable
from pyrmq.errors import ConfigError

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
