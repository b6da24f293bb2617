"""Which brokers commands expect: those of PYRMQ_EXPECT or of the tools' configuration, and those
that were seen before."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pyrmq.admin.expected import Expectation, Expected, parse_expected
from pyrmq.admin.seen_file import SeenFile, path_of
from pyrmq.cli.tools_file import read, tools_file
from pyrmq.errors import ConfigError
from pyrmq.net.address import parse_addresses

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin

VARIABLE = "PYRMQ_EXPECT"


def wanted() -> list[Expectation]:
    """Those of PYRMQ_EXPECT (separated by blanks, commas or semicolons), or else the list `expect`
    of `conf/tools.yml` below ROCKETMQ_HOME. Raises ConfigError for an invalid value."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return _parsed(VARIABLE, re.split(r"[\s,;]+", named))
    path = tools_file()
    return [] if path is None else _of_file(path)


def _of_file(path: Path) -> list[Expectation]:
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
