"""Accounts of ACL 1.0, and what an access file says. [PlainAccessConfig, PlainAccessData]

Refusals name the file, the account by its place, and the key. They never contain a secret key.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from types import MappingProxyType

from pyrmq.auth.plain.addresses import NOBODY, Pattern, parse_pattern
from pyrmq.auth.plain.document import Listed, Mapped, Node, Scalar
from pyrmq.errors import ConfigError
from pyrmq.model.topic import DataVersion

SHORTEST = 7
"""Fewest characters of an access key and of a secret key. [AclConstants]"""
LONGEST = 1024
MAX_ACCOUNTS = 10_000
MAX_PERMISSIONS = 10_000
"""Most topics, and most groups, of one account."""
MAX_PATTERNS = 1024
"""Most patterns of a global white list."""


class Permission(IntFlag):
    """Bits of a permission. [Permission]"""

    DENY = 1
    ANY = 2
    """Either of the others. Only a need has it."""
    PUB = 4
    SUB = 8


PERMISSIONS: Mapping[str, Permission] = MappingProxyType(
    {
        "DENY": Permission.DENY,
        "PUB": Permission.PUB,
        "SUB": Permission.SUB,
        "PUB|SUB": Permission.PUB | Permission.SUB,
        "SUB|PUB": Permission.PUB | Permission.SUB,
    }
)
"""By the text that an access file has."""
Permissions = Mapping[str, Permission]
"""By name of a topic or a group."""


@dataclass(frozen=True, slots=True)
class Account:
    """One account. `topics` and `groups`: permissions by name, `default_…` for all others."""

    access_key: str
    secret_key: str = field(repr=False)
    white: Pattern = NOBODY
    """Where its requests need no signature."""
    admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    topics: Permissions = field(default_factory=dict)
    groups: Permissions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AccessFile:
    """What one file says."""

    path: str
    white: tuple[Pattern, ...]
    accounts: tuple[Account, ...]
    version: DataVersion


_TOP = ("globalWhiteRemoteAddresses", "accounts", "dataVersion")
KEYS = (
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)
"""The keys of an account."""
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


def access_file(path: str, root: Mapped) -> AccessFile:
    """The content of a file. ConfigError names what is wrong."""
    _check_keys(path, root, _TOP)
    white = _items(path, root, "globalWhiteRemoteAddresses", MAX_PATTERNS)
    accounts = _items(path, root, "accounts", MAX_ACCOUNTS)
    return AccessFile(
        path,
        tuple(
            _pattern(f"{path}: globalWhiteRemoteAddresses, number {number}", _text_of(node) or "")
            for number, node in enumerate(white, 1)
        ),
        tuple(
            account_of(f"{path}: account {number}", node) for number, node in enumerate(accounts, 1)
        ),
        _version(path, root),
    )


def account_of(where: str, node: Node) -> Account:
    """The account of a mapping. ConfigError; `where` begins its text."""
    if not isinstance(node, Mapped):
        raise ConfigError(f"{where} is no mapping of keys such as accessKey and secretKey")
    _check_keys(where, node, KEYS)
    values = {key: _text(where, node, key) for key in KEYS if not key.endswith("Perms")}
    lists = {
        key: [_text_of(item) or "" for item in _items(where, node, key, MAX_PERMISSIONS)]
        for key in ("topicPerms", "groupPerms")
    }
    return account(where, values, lists)


def account(
    where: str, values: Mapping[str, str | None], lists: Mapping[str, Iterable[str]]
) -> Account:
    """The account of texts by key: `lists` has topicPerms and groupPerms. ConfigError."""
    return Account(
        access_key=_key(where, "accessKey", values.get("accessKey")),
        secret_key=_key(where, "secretKey", values.get("secretKey")),
        white=_pattern(f"{where}: whiteRemoteAddress", values.get("whiteRemoteAddress") or ""),
        admin=_flag(where, values.get("admin")),
        default_topic=_default(where, "defaultTopicPerm", values.get("defaultTopicPerm")),
        default_group=_default(where, "defaultGroupPerm", values.get("defaultGroupPerm")),
        topics=_permissions(where, "topicPerms", lists.get("topicPerms", ())),
        groups=_permissions(where, "groupPerms", lists.get("groupPerms", ())),
    )


def _check_keys(where: str, node: Mapped, known: Iterable[str]) -> None:
    for key in node.pairs:
        if key not in known:
            near = difflib.get_close_matches(key, list(known), 1, 0.6)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key {key[:64]!r}; {hint}")


def _items(where: str, node: Mapped, key: str, most: int) -> list[Node]:
    value = node.get(key)
    if value is None:
        return []
    if not isinstance(value, Listed):
        raise ConfigError(f"{where}: {key} is a list, each line of it begins with '- '")
    if len(value.items) > most:
        raise ConfigError(f"{where}: {key} has more than {most} entries")
    return value.items


def _text_of(node: Node) -> str | None:
    return node.text if isinstance(node, Scalar) else None


def _text(where: str, node: Mapped, key: str) -> str | None:
    value = node.get(key)
    if value is not None and not isinstance(value, Scalar):
        raise ConfigError(f"{where}: {key} is a text")
    return _text_of(value) if value is not None else None


def _key(where: str, name: str, value: str | None) -> str:
    if value is None or not SHORTEST <= len(value) <= LONGEST or not value.isprintable():
        raise ConfigError(f"{where}: {name} has {SHORTEST} to {LONGEST} printable characters")
    return value


def _pattern(where: str, text: str) -> Pattern:
    try:
        return parse_pattern(text)
    except ValueError as e:
        raise ConfigError(f"{where}: {e}") from None


def _flag(where: str, value: str | None) -> bool:
    word = (value or "false").strip().lower()
    if word not in _TRUE + _FALSE:
        raise ConfigError(f"{where}: admin is true or false")
    return word in _TRUE


def _default(where: str, key: str, value: str | None) -> Permission:
    return _permission(where, key, value) if value and value.strip() else Permission.DENY


def _permission(where: str, key: str, text: str) -> Permission:
    found = PERMISSIONS.get(text.strip())
    if found is None:
        raise ConfigError(f"{where}: {key}: {text[:64]!r} is none of {', '.join(PERMISSIONS)}")
    return found


def _permissions(where: str, key: str, texts: Iterable[str]) -> Mapping[str, Permission]:
    found: dict[str, Permission] = {}
    for text in texts:
        name, sign, permission = text.partition("=")
        name = name.strip()
        if not sign or not name:
            raise ConfigError(f"{where}: {key}: {text[:64]!r} is not as name=PUB|SUB")
        if name in found:
            raise ConfigError(f"{where}: {key} has {name[:64]!r} twice")
        found[name] = _permission(where, key, permission)
    return MappingProxyType(found)


def _version(where: str, root: Mapped) -> DataVersion:
    """dataVersion is a list with one mapping: counter and timestamp. [DataVersion]"""
    items = _items(where, root, "dataVersion", 16)
    first = items[0] if items else None
    if not isinstance(first, Mapped):
        return DataVersion()
    numbers = {}
    for key in ("timestamp", "counter"):
        text = _text(f"{where}: dataVersion", first, key) or "0"
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise ConfigError(f"{where}: dataVersion: {key} is a number")
        numbers[key] = int(text)
    return DataVersion(numbers["timestamp"], numbers["counter"])
