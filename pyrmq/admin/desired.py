"""A cluster as it should be, in a file: configuration, topics, groups, users and access lists.

Topics and groups have the members of RocketMQ's JSON. A member that is left out is not compared; a
new topic or group has its default. A part that is left out (`topics`, …) is not compared at all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import trio

from pyrmq.admin import plain_yaml
from pyrmq.admin.desired_access import POLICIES, acl_members, check_user
from pyrmq.admin.groups import GroupConfig
from pyrmq.admin.topic_file import topics_of
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.config.table import keys_of
from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.model.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    check_consumer_group,
    check_topic,
    is_system_group,
    is_system_topic,
)

FORMAT = "pyrmq-cluster/1"
MAX_BYTES = 64 << 20
"""The largest file that is read."""
MAX_NAME = 255
MAX_BROKERS = 1024
MAX_CONFIG_VALUE = 4096
BROKERS = "brokers"
"""In a topic or group: the brokers that have it, each with what differs there."""
_TOP = (
    "format", "cluster", BROKERS, "config", "brokerConfig", "topics", "groups", "users", "acls",
)  # fmt: skip
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9._]{0,127}")
_BROKER = re.compile(r"[%|a-zA-Z0-9._-]{1,255}")
PARTS = ("topics", "groups", "users", "acls")
STATES = frozenset({"brokerDrain", "brokerPermission"})
"""Keys that change with the state of a broker: an export leaves them out."""

Members = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic or group: its members, and, by broker, those that differ there. `on` None: all
    masters have it alike."""

    members: Members
    on: Mapping[str, Members] | None = None

    def at(self, broker: str) -> Members | None:
        """Its members on a broker; None if that broker should not have it."""
        if self.on is None:
            return self.members
        own = self.on.get(broker)
        return None if own is None else self.members | own

    def to_plain(self) -> Members:
        if self.on is None:
            return self.members
        return {**self.members, BROKERS: dict(self.on)}


@dataclass(frozen=True, slots=True)
class Desired:
    """The content of a file. A part is None if the file does not have it."""

    cluster: str
    brokers: tuple[str, ...] = ()
    """Names of its brokers; empty: not said."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Of all masters."""
    broker_config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of single ones; it goes before `config`."""
    topics: Mapping[str, Wanted] | None = None
    groups: Mapping[str, Wanted] | None = None
    users: Mapping[str, Wanted] | None = None
    """By name; their passwords are not here."""
    acls: Mapping[str, Wanted] | None = None
    """By subject."""

    @property
    def parts(self) -> tuple[Mapping[str, Wanted] | None, ...]:
        """In the order of PARTS."""
        return self.topics, self.groups, self.users, self.acls

    def config_of(self, broker: str) -> dict[str, str]:
        return {**self.config, **self.broker_config.get(broker, {})}

    def to_plain(self) -> dict[str, Any]:
        """As a file has it."""
        found: dict[str, Any] = {"format": FORMAT, "cluster": self.cluster}
        if self.brokers:
            found[BROKERS] = list(self.brokers)
        if self.config:
            found["config"] = _readable(self.config)
        if self.broker_config:
            found["brokerConfig"] = {k: _readable(v) for k, v in self.broker_config.items()}
        for name, rows in zip(PARTS, self.parts, strict=True):
            if rows is not None:
                found[name] = {k: row.to_plain() for k, row in rows.items()}
        return found

    def to_text(self) -> str:
        return plain_yaml.write(self.to_plain())


def _readable(config: Mapping[str, str]) -> plain_yaml.Lines:
    """Numbers and truth values without quotes, where a file then says the same."""
    found = plain_yaml.Lines()
    for key, text in config.items():
        value = plain_yaml.plain(text)
        found[key] = value if isinstance(value, int) else text
    return found


async def read(path: str | Path) -> Desired:
    """Reads a file. ConfigError for one that is none, or too large."""
    return await trio.to_thread.run_sync(_read, Path(path))


def _read(path: Path) -> Desired:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path} has more than {MAX_BYTES >> 20} MiB")
    try:
        return parse(raw)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e}") from None


def parse(raw: bytes) -> Desired:
    """What a file says. ConfigError for what is no such file, or names what cannot be."""
    found = plain_yaml.read(raw)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ConfigError(
            f"it does not begin with `format: {FORMAT}`: `pyrmq admin export cluster` writes such "
            "a file"
        )
    _known("the file", found, _TOP)
    cluster = found.get("cluster")
    if not isinstance(cluster, str) or not _BROKER.fullmatch(cluster):
        raise ConfigError("cluster: the name of the cluster is missing")
    checks = (_topic, _group, _user, _acl)
    parts = [
        None if (part := found.get(name)) is None
        else {key: check(key, row) for key, row in _table(name, part).items()}
        for name, check in zip(PARTS, checks, strict=True)
    ]  # fmt: skip
    return Desired(
        cluster,
        _names(found.get(BROKERS)),
        _config("config", found.get("config")),
        {
            _broker(name): _config(f"brokerConfig of {name}", row)
            for name, row in _table("brokerConfig", found.get("brokerConfig")).items()
        },
        *parts,
    )


def _known(what: str, row: Mapping[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for key in row:
        if key not in names:
            near = difflib.get_close_matches(str(key)[:64], names, 1)
            hint = f": did you mean {near[0]}?" if near else f": {', '.join(names)}"
            raise ConfigError(f"{what} has an unknown key {str(key)[:64]!r}{hint}")


def _table(what: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
        raise ConfigError(f"{what} is a mapping by name")
    return value


def _broker(name: Any) -> str:
    if not isinstance(name, str) or not _BROKER.fullmatch(name):
        raise ConfigError(f"{str(name)[:64]!r} is no name of a broker")
    return name


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_BROKERS:
        raise ConfigError(f"{BROKERS} is a list of at most {MAX_BROKERS} names")
    return tuple(dict.fromkeys(map(_broker, value)))


def _config(what: str, value: Any) -> dict[str, str]:
    found = {}
    for key, item in _table(what, value).items():
        if not _KEY.fullmatch(key):
            raise ConfigError(f"{what}: {key[:64]!r} is no configuration key")
        if key in _secret_keys():
            raise ConfigError(f"{what}: {key} is a secret, which brokers do not show: leave it out")
        if isinstance(item, bool):
            text = str(item).lower()
        elif isinstance(item, str | int):
            text = str(item)
        else:
            raise ConfigError(f"{what}: the value of {key} is a text, a number, true or false")
        if len(text) > MAX_CONFIG_VALUE or "\n" in text or "\r" in text:
            raise ConfigError(f"{what}: the value of {key} has one line of {MAX_CONFIG_VALUE}")
        found[key] = text
    return found


@cache
def _secret_keys() -> frozenset[str]:
    return frozenset(name for name, (_, row) in keys_of(BrokerConfig).items() if row.secret)


@cache
def exported_keys() -> frozenset[str]:
    """Keys of brokers that can be changed while they run, but for states."""
    live = {name for name, (_, row) in keys_of(BrokerConfig).items() if row.live}
    return frozenset(live - STATES - _secret_keys())


def _topic(name: str, value: Any) -> Wanted:
    try:
        check_topic(name)
    except InvalidParameterError as e:
        raise ConfigError(str(e)) from None
    if is_system_topic(name) or name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise ConfigError(f"topic {name} belongs to the broker: leave it out")

    def check(row: Members) -> None:
        if "topicName" in row:
            raise ConfigError(f"topic {name}: its name is the key")
        (change,) = topics_of([{"topicName": name, **row}])
        if any(not key.startswith("+") for key in change.attributes):
            raise ConfigError(f"topic {name}: attributes have no signs here")
        if any(key[:1] in ("+", "-") for key in row.get("attributes") or ()):
            raise ConfigError(f"topic {name}: attributes have no signs here")

    return _wanted(f"topic {name}", value, check)


def _group(name: str, value: Any) -> Wanted:
    try:
        check_consumer_group(name)
    except InvalidParameterError as e:
        raise ConfigError(str(e)) from None
    if is_system_group(name):
        raise ConfigError(f"group {name} belongs to the broker: leave it out")
    known = [key for key in GroupConfig(name).members() if key != "groupName"]

    def check(row: Members) -> None:
        _known(f"group {name}", row, known)
        GroupConfig.from_json({"groupName": name, **row})
        attributes = row.get("attributes") or {}
        if not all(isinstance(v, str) and k[:1] not in ("+", "-") for k, v in attributes.items()):
            raise ConfigError(f"group {name}: attributes are texts by name, without signs")

    return _wanted(f"group {name}", value, check)


def _user(name: str, value: Any) -> Wanted:
    return _wanted(f"user {name[:64]}", value, lambda row: check_user(name, row))


def _acl(subject: str, value: Any) -> Wanted:
    found = _wanted(f"access list of {subject[:64]}", value, lambda row: acl_members(subject, row))
    own = {name: acl_members(subject, row) for name, row in (found.on or {}).items()}
    if not found.members and not (own and all(own.values())):
        raise ConfigError(f"access list of {subject[:64]!r}: {POLICIES} is missing")
    return Wanted(acl_members(subject, found.members), None if found.on is None else own)


def _wanted(what: str, value: Any, check: Callable[[Members], object]) -> Wanted:
    row = dict(_table(what, value))
    on = row.pop(BROKERS, None)
    if any(item is None for item in row.values()):
        raise ConfigError(f"{what}: a member without a value; leave it out")
    check(row)
    if on is None:
        return Wanted(row)
    brokers = {}
    for name, own in _table(f"{what}: {BROKERS}", on).items():
        members = dict(_table(f"{what} on {name}", own))
        check({**row, **members})
        brokers[_broker(name)] = members
    return Wanted(row, brokers)


def combined(rows: Mapping[str, Members], brokers: Iterable[str]) -> Wanted:
    """What some brokers have under one name, as a file has it."""
    first = next(iter(rows.values()))
    common = {k: v for k, v in first.items() if all(r.get(k) == v for r in rows.values())}
    own = {name: {k: v for k, v in row.items() if k not in common} for name, row in rows.items()}
    if set(rows) == set(brokers) and not any(own.values()):
        return Wanted(common)
    return Wanted(common, own)
