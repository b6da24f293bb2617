"""All access files together: accounts by key, and the global white list."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyrmq.auth.plain.accounts import AccessFile, Account
from pyrmq.auth.plain.addresses import Address, Pattern
from pyrmq.auth.plain.files import Folder, load
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.logs.about import about

log = logging.getLogger(__name__)

MAX_TOTAL = 4 << 20
"""Most bytes of all access files."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts at one time."""

    files: tuple[AccessFile, ...]
    accounts: Mapping[str, Account]
    """By access key."""
    path_of: Mapping[str, str]
    """By access key: the file that the account is in."""
    white: tuple[Pattern, ...]

    def is_white(self, address: Address | None) -> bool:
        """Whether requests from there need no account."""
        return any(pattern.matches(address) for pattern in self.white)


def combined(files: Iterable[AccessFile]) -> Rules:
    """Of an access key that stands twice the first account counts; the log names it."""
    files = tuple(files)
    accounts: dict[str, Account] = {}
    path_of: dict[str, str] = {}
    for file in files:
        for account in file.accounts:
            if account.access_key in accounts:
                log.warning(
                    "access key %s of %s is ignored: an account of %s has it",
                    escape(account.access_key),
                    escape(file.path),
                    escape(path_of[account.access_key]),
                    extra=about(user=account.access_key, path=file.path),
                )
            else:
                accounts[account.access_key] = account
                path_of[account.access_key] = file.path
    white = tuple(pattern for file in files for pattern in file.white)
    return Rules(files, MappingProxyType(accounts), MappingProxyType(path_of), white)


def load_rules(folder: Folder) -> Rules:
    """Reads all files. ConfigError if one cannot be used, or if there is none."""
    paths = folder.paths()
    if not paths:
        raise ConfigError(
            f"there is no access file: aclEnable=true needs {folder.default}, or files in "
            f"{folder.folder}"
        )
    total = sum(path.stat().st_size for path in paths if path.exists())
    if total > MAX_TOTAL:
        raise ConfigError(f"the access files below {folder.home} have more than {MAX_TOTAL} bytes")
    return combined(load(path) for path in paths)
