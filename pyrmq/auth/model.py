"""Users and access lists, and their forms in bodies and files. [User, Acl, UserInfo, AclInfo]

What a request or a file states is checked here: each name and each list has a bound. Names of
types, statuses, actions and decisions are read in any case and written as RocketMQ writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, TypeVar

from pyrmq.errors import InvalidParameterError

MAX_NAME = 128
"""Characters of the name of a user."""
MAX_PASSWORD = 256
"""Characters of a password."""
MAX_RESOURCE = 255
"""Characters of the name in a resource."""
MAX_ENTRIES = 1024
"""Entries of the access list of one subject."""
MAX_SOURCE_IPS = 256
"""Addresses and networks of one entry."""
ANY_NAME = "*"
_PREFIX = re.compile(r"[0-9]{1,3}")

Network = IPv4Network | IPv6Network


class UserType(Enum):
    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(Enum):
    ENABLE = "enable"
    DISABLE = "disable"


class ResourceType(Enum):
    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(Enum):
    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"
    ANY = "ANY"


class Action(Enum):
    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Decision(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    CUSTOM = "Custom"
    DEFAULT = "Default"


E = TypeVar("E", bound=Enum)


def member(kind: type[E], text: object, what: str) -> E:
    """The member of an enumeration with this value, in any case. InvalidParameterError."""
    if isinstance(text, str):
        for one in kind:
            if one.value.lower() == text.lower():
                return one
    known = ", ".join(one.value for one in kind)
    raise InvalidParameterError(f"{what} {str(text)[:32]!r} is unknown: use one of {known}")


def check_user_name(name: str) -> None:
    """InvalidParameterError unless a user may have this name."""
    if not 0 < len(name) <= MAX_NAME or not name.isprintable() or any(c.isspace() for c in name):
        raise InvalidParameterError(
            f"the username is illegal: 1 to {MAX_NAME} printable characters without blanks"
        )


def check_password(password: str) -> None:
    """InvalidParameterError unless this may be a password."""
    if not password.strip() or len(password) > MAX_PASSWORD or not password.isprintable():
        raise InvalidParameterError(
            f"the password is illegal: 1 to {MAX_PASSWORD} printable characters"
        )


@dataclass(frozen=True, slots=True)
class User:
    """A user. Its name is the access key of its requests, its password signs them."""

    name: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        return self.status is UserStatus.ENABLE

    @property
    def subject(self) -> str:
        return subject_of(self.name)

    def to_json(self, *, with_password: bool) -> dict[str, str]:
        """UserInfo, its members in RocketMQ's order."""
        shown = {"password": self.password} if with_password else {}
        kind = {"userStatus": self.status.value, "userType": self.type.value}
        return {**shown, **kind, "username": self.name}


@dataclass(frozen=True, slots=True)
class UserChange:
    """What a request states of a user. None is what it does not state."""

    password: str | None = field(default=None, repr=False)
    type: UserType | None = None
    status: UserStatus | None = None

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> UserChange:
        """UserInfo. InvalidParameterError."""
        password = row.get("password")
        if password is not None and not isinstance(password, str):
            raise InvalidParameterError("the password is a text")
        if password is not None and not password.strip():
            password = None
        if password is not None:
            check_password(password)
        return cls(
            password,
            _optional(UserType, row, "userType"),
            _optional(UserStatus, row, "userStatus"),
        )

    def of(self, user: User) -> User:
        """The user with these changes."""
        return replace(
            user,
            password=self.password or user.password,
            type=self.type or user.type,
            status=self.status or user.status,
        )


def _optional(kind: type[E], row: Mapping[Any, Any], name: str) -> E | None:
    value = row.get(name)
    return None if value is None or value == "" else member(kind, value, name)


USER = "User"
"""The only type of subject."""


def subject_of(name: str) -> str:
    """The subject that is a user."""
    return f"{USER}:{name}"


def user_of(subject: str) -> str:
    """The name of the user that is this subject. InvalidParameterError."""
    kind, colon, name = subject.partition(":")
    if kind.lower() != USER.lower() or not colon:
        raise InvalidParameterError(
            f"the subject {subject[:64]!r} is illegal: it is {USER}: and the name of a user"
        )
    check_user_name(name)
    return name


@dataclass(frozen=True, slots=True)
class Resource:
    """What an entry is about, or what a request needs (then it is literal)."""

    type: ResourceType
    name: str = ""
    pattern: Pattern = Pattern.LITERAL

    @classmethod
    def parse(cls, text: str) -> Resource:
        """`Topic:orders`, `Topic:ord*`, `Topic:*` or `*`. InvalidParameterError."""
        if text == ANY_NAME:
            return cls(ResourceType.ANY, "", Pattern.ANY)
        kind, colon, name = text.partition(":")
        found = member(ResourceType, kind, "the type of the resource")
        if found is ResourceType.ANY:
            if name == ANY_NAME:  # as RocketMQ takes it
                return cls(found, "", Pattern.ANY)
            raise InvalidParameterError("the resource that is anything is written *")
        if not colon or not 0 < len(name) <= MAX_RESOURCE or not name.isprintable():
            raise InvalidParameterError(
                f"the resource {text[:64]!r} is illegal: {found.value}: and a name of 1 to "
                f"{MAX_RESOURCE} characters"
            )
        if name == ANY_NAME:
            return cls(found, "", Pattern.ANY)
        if ANY_NAME in name[:-1]:
            raise InvalidParameterError(
                f"the resource {text[:64]!r} is illegal: * is only allowed at the end"
            )
        if name.endswith(ANY_NAME):
            return cls(found, name[:-1], Pattern.PREFIXED)
        return cls(found, name)

    def __str__(self) -> str:
        if self.type is ResourceType.ANY:
            return ANY_NAME
        star = "" if self.pattern is Pattern.LITERAL else ANY_NAME
        return f"{self.type.value}:{self.name}{star}"

    def matches(self, wanted: Resource) -> bool:
        """Whether an entry with this resource is about a literal one."""
        if self.type is ResourceType.ANY:
            return True
        if self.type is not wanted.type:
            return False
        if self.pattern is Pattern.LITERAL:
            return self.name == wanted.name
        return self.pattern is Pattern.ANY or wanted.name.startswith(self.name)


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def group(name: str) -> Resource:
    return Resource(ResourceType.GROUP, name)


def cluster(name: str) -> Resource:
    return Resource(ResourceType.CLUSTER, name)


def parse_network(text: object) -> Network:
    """An address or a network in CIDR notation. Bits behind the prefix do not count, as in
    RocketMQ. InvalidParameterError."""
    if isinstance(text, str) and 0 < len(text) <= 64 and "%" not in text:
        _, slash, prefix = text.partition("/")
        if not slash or _PREFIX.fullmatch(prefix):
            try:
                return ip_network(text, strict=False)
            except ValueError:
                pass
    raise InvalidParameterError(
        f"the source ip {str(text)[:64]!r} is no address or network such as 10.0.0.5 or 10.0.0.0/8"
    )


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """Actions that are allowed on a resource, or denied."""

    resource: Resource
    actions: frozenset[Action]
    decision: Decision
    source_ips: tuple[str, ...] = ()
    """As they were given; empty: from everywhere."""
    networks: tuple[Network, ...] = field(default=(), compare=False)
    """The same, to compare with."""

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> PolicyEntry:
        """PolicyEntryInfo. InvalidParameterError."""
        resource = row.get("resource")
        if not isinstance(resource, str):
            raise InvalidParameterError("The resource is null.")
        actions = _texts(row, "actions", len(Action))
        if not actions:
            raise InvalidParameterError("The actions is empty.")
        if any(text.lower() == "any" for text in actions):
            raise InvalidParameterError("The actions can not be Any.")
        source_ips = _texts(row, "sourceIps", MAX_SOURCE_IPS)
        return cls(
            Resource.parse(resource),
            frozenset(member(Action, text, "the action") for text in actions),
            member(Decision, row.get("decision"), "the decision"),
            source_ips,
            tuple(map(parse_network, source_ips)),
        )

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "actions": [action.value for action in Action if action in self.actions],
            "decision": self.decision.value,
            "resource": str(self.resource),
        }
        return {**shown, "sourceIps": list(self.source_ips)} if self.source_ips else shown


def _texts(row: Mapping[Any, Any], name: str, most: int) -> tuple[str, ...]:
    """A list of texts, which may be missing. InvalidParameterError."""
    found = row.get(name)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidParameterError(f"{name} is a list of texts")
    if len(found) > most:
        raise InvalidParameterError(f"{name} has {len(found)} texts: at most {most}")
    return tuple(found)


class _Index:
    """Entries by what they may match: a request may have thousands of names, a list of entries a
    thousand prefixes."""

    def __init__(self, entries: tuple[PolicyEntry, ...]) -> None:
        self._literal: dict[tuple[ResourceType, str], list[PolicyEntry]] = {}
        self._prefixed: dict[tuple[ResourceType, str], list[PolicyEntry]] = {}
        self._any: list[PolicyEntry] = []
        for entry in entries:
            resource = entry.resource
            key = resource.type, resource.name
            if resource.pattern is Pattern.LITERAL:
                self._literal.setdefault(key, []).append(entry)
            elif resource.pattern is Pattern.PREFIXED:
                self._prefixed.setdefault(key, []).append(entry)
            else:
                self._any.append(entry)
        self._lengths = sorted({len(name) for _, name in self._prefixed})

    def about(self, wanted: Resource) -> Iterator[PolicyEntry]:
        kind, name = wanted.type, wanted.name
        yield from self._literal.get((kind, name), ())
        for length in self._lengths:
            if length > len(name):
                break
            yield from self._prefixed.get((kind, name[:length]), ())
        yield from self._any


@dataclass(frozen=True, slots=True)
class Acl:
    """The access list of a subject: custom entries, and default ones for what these leave open."""

    subject: str
    custom: tuple[PolicyEntry, ...] = ()
    default: tuple[PolicyEntry, ...] = ()
    _indexes: dict[PolicyType, _Index] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        indexes = {kind: _Index(self.entries(kind)) for kind in PolicyType}
        object.__setattr__(self, "_indexes", indexes)

    def about(self, policy: PolicyType, wanted: Resource) -> Iterator[PolicyEntry]:
        """The entries of a policy that may match a literal resource."""
        return self._indexes[policy].about(wanted)

    def entries(self, policy: PolicyType) -> tuple[PolicyEntry, ...]:
        return self.custom if policy is PolicyType.CUSTOM else self.default

    @property
    def is_empty(self) -> bool:
        return not self.custom and not self.default

    @classmethod
    def from_json(cls, subject: str, row: Mapping[Any, Any]) -> Acl:
        """AclInfo. A policy without a type is a custom one. InvalidParameterError."""
        stated: dict[PolicyType, list[PolicyEntry]] = {kind: [] for kind in PolicyType}
        for policy in _objects(row, "policies"):
            text = policy.get("policyType")
            kind = member(PolicyType, text, "policyType") if text else PolicyType.CUSTOM
            entries = [PolicyEntry.from_json(entry) for entry in _objects(policy, "entries")]
            if not entries:
                raise InvalidParameterError("The policy entries is empty.")
            stated[kind] += entries
        found = cls(subject)
        for kind, entries in stated.items():
            found = found._with(kind, tuple(entries))
        if found.is_empty:
            raise InvalidParameterError("The policies is empty.")
        return found

    def to_json(self, keep: Callable[[PolicyEntry], bool] = lambda entry: True) -> dict[str, Any]:
        """AclInfo, of the entries that are to be shown."""
        policies = []
        for kind in PolicyType:
            entries = [entry.to_json() for entry in self.entries(kind) if keep(entry)]
            if entries:
                policies.append({"entries": entries, "policyType": kind.value})
        return {"policies": policies, "subject": self.subject}

    def updated(self, other: Acl) -> Acl:
        """With the entries of another list, which replace those for the same resources."""
        found = self
        for kind in PolicyType:
            named = {entry.resource for entry in other.entries(kind)}
            kept = tuple(e for e in self.entries(kind) if e.resource not in named)
            found = found._with(kind, kept + other.entries(kind))
        return found

    def without(self, policy: PolicyType, resource: Resource) -> Acl:
        kept = tuple(e for e in self.entries(policy) if e.resource != resource)
        return self._with(policy, kept)

    def _with(self, policy: PolicyType, entries: tuple[PolicyEntry, ...]) -> Acl:
        made = (
            replace(self, custom=entries)
            if policy is PolicyType.CUSTOM
            else replace(self, default=entries)
        )
        if len(made.custom) + len(made.default) > MAX_ENTRIES:
            raise InvalidParameterError(f"a subject has at most {MAX_ENTRIES} entries")
        return made


def _objects(row: Mapping[Any, Any], name: str) -> list[dict[Any, Any]]:
    """A list of objects, which may be missing. InvalidParameterError."""
    found = row.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidParameterError(f"{name} is a list of objects")
    if len(found) > MAX_ENTRIES:
        raise InvalidParameterError(f"{name} has {len(found)} objects: at most {MAX_ENTRIES}")
    return found
