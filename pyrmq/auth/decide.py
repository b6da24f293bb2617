"""Whether an access list allows what a request needs. [AclAuthorizationHandler]

A request has needs. Each need is a resource and actions; a right to any one of them is enough, and
all needs have to be met. An entry matches a need if its resource, its actions and its source
addresses do. Matching custom entries decide; only where there is none, default ones. The entry with
the most specific resource counts: of a type before `*`, and within a type a literal name before
prefixes (the longest first) before all names. Of equally specific ones a denial counts. Without a
match the need is not met.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from pyrmq.auth.model import (
    Acl,
    Action,
    Decision,
    Pattern,
    PolicyEntry,
    PolicyType,
    Resource,
    ResourceType,
)

IpAddress = IPv4Address | IPv6Address
_PATTERNS = {Pattern.LITERAL: 0, Pattern.PREFIXED: 1, Pattern.ANY: 2}


@dataclass(frozen=True, slots=True)
class Need:
    """A right to any one of `actions` on a literal resource."""

    resource: Resource
    actions: frozenset[Action]

    def __str__(self) -> str:
        actions = "/".join(action.value for action in Action if action in self.actions)
        return f"{actions} on {self.resource}"


def matches(entry: PolicyEntry, need: Need, source: IpAddress | None) -> bool:
    """Whether an entry says something about a need of a request from this address. None: an
    address that is not known, which no source address matches."""
    if not entry.resource.matches(need.resource):
        return False
    if Action.ALL not in entry.actions and not entry.actions & need.actions:
        return False
    if not entry.networks:
        return True
    return source is not None and any(source in network for network in entry.networks)


def rank(entry: PolicyEntry) -> tuple[bool, int, int, bool]:
    """The order of entries that match the same need: the lowest one counts."""
    resource = entry.resource
    return (
        resource.type is ResourceType.ANY,
        _PATTERNS[resource.pattern],
        -len(resource.name),
        entry.decision is not Decision.DENY,
    )


def _deciding(
    entries: Iterable[PolicyEntry], need: Need, source: IpAddress | None
) -> PolicyEntry | None:
    return min((e for e in entries if matches(e, need, source)), key=rank, default=None)


def allows(acl: Acl | None, need: Need, source: IpAddress | None) -> bool:
    """Whether a subject with this list, or without one, has what is needed."""
    if acl is None:
        return False
    entry = _deciding(acl.about(PolicyType.CUSTOM, need.resource), need, source)
    if entry is None:
        entry = _deciding(acl.about(PolicyType.DEFAULT, need.resource), need, source)
    return entry is not None and entry.decision is Decision.ALLOW
