"""The configuration of the tools: credentials, and the brokers that commands expect.

`conf/tools.yml` below ROCKETMQ_HOME, where RocketMQ's mqadmin has its access key and secret key.
`expect` is ours: it names the brokers that should be there, as PYRMQ_EXPECT does; those that
commands have seen before are expected too.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrmq.admin.expected import Expectation, Expected, SeenFile, parse_expected, path_of
from pyrmq.config.secret_file import others_may_read
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.net.address import parse_addresses

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin


log = logging.getLogger(__name__)

FILE = Path("conf/tools.yml")
MAX_SIZE = 1 << 20


def tools_file() -> Path | None:
    """Where it would be; None without ROCKETMQ_HOME."""
    home = os.environ.get("ROCKETMQ_HOME")
    return Path(home) / FILE if home else None


def read(path: Path) -> Mapping[str, Any]:
    """Its values, all numbers as texts; nothing if it is not there. ConfigError if it cannot be
    read, or is no YAML of names and values."""
    import yaml

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror}") from e
    try:  # with texts for all values: a key may look like a number
        found = yaml.load(raw, yaml.BaseLoader) if len(raw) <= MAX_SIZE else None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            f"{path} is not of `name: value` lines: accessKey, secretKey and expect are read"
        )
    return found


def credentials_of_file() -> tuple[str, str]:
    """accessKey and secretKey of `conf/tools.yml` below ROCKETMQ_HOME, where RocketMQ's mqadmin has
    them; empty ones where they are not. Warns if others can read them. ConfigError."""
    path = tools_file()
    if path is None:
        return "", ""
    found = read(path)
    access, secret = (_plain(path, name, found.get(name)) for name in ("accessKey", "secretKey"))
    if secret and others_may_read(path):
        log.warning(
            "%s has a secret key and others may read it: chmod 600",
            escape(path),
            extra=about(path=path),
        )
    return access, secret


def _plain(path: Path, name: str, value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{path}: {name} must be a text")
    return (value or "").strip()


VARIABLE = "PYRMQ_EXPECT"


def wanted() -> list[Expectation]:
    """Those of PYRMQ_EXPECT (separated by blanks, commas or semicolons), or else the list `expect`
    of `conf/tools.yml` below ROCKETMQ_HOME. Raises ConfigError for an invalid value."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return _parsed(VARIABLE, re.split(r"[\s,;]+", named))
    path = tools_file()
    return [] if path is None else _expected_of(path)


def _expected_of(path: Path) -> list[Expectation]:
    listed = read(path).get("expect", [])
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise ConfigError(f"{path}: expect is a list of brokers, such as [broker-a, broker-b:2]")
    return _parsed(str(path), listed)


def _parsed(where: str, texts: list[str]) -> list[Expectation]:
    try:
        return parse_expected(texts)
    except ConfigError as e:
        raise ConfigError(f"{where}: {e}") from None


def seen_file(namesrv: str) -> SeenFile:
    """What was seen through name servers. Raises ConfigError for an invalid list."""
    return SeenFile(path_of(), parse_addresses(namesrv))


def expected(namesrv: str) -> Expected:
    """What there should be behind name servers. ConfigError."""
    return seen_file(namesrv).expected(wanted())


def missed(admin: Admin) -> list[str]:
    """What was missing where a command asked."""
    return [str(error) for error in admin.link.missed.values()]
