"""What the pages of access show: users, access lists and accounts, over all masters of a cluster.

A secret is in none of these values: brokers of Apache tell passwords and secret keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyrmq.admin.accounts import PlainAccount
from pyrmq.admin.api import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.errors import ClientError

T = TypeVar("T")
V = TypeVar("V")
ACTIONS = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
DECISIONS = ("Allow", "Deny")
MOST_NAMES = 8
"""Brokers that a text about several names."""
MAX_ENTRIES = 64
"""Resources, and addresses, of one form."""


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """One thing as masters have it. `forms`: its forms, with the masters that have each, that of
    the first master first. `without`: those that have none."""

    forms: tuple[tuple[T, tuple[str, ...]], ...]
    without: tuple[str, ...] = ()

    @property
    def one(self) -> T:
        return self.forms[0][0]

    @property
    def others(self) -> tuple[str, ...]:
        """The masters that have another form than `one`."""
        return tuple(master for _, masters in self.forms[1:] for master in masters)

    @property
    def same(self) -> bool:
        return len(self.forms) == 1 and not self.without


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What the masters of a cluster have. `problems`: of those that did not answer, or refused."""

    cluster: str
    clusters: tuple[str, ...]
    masters: tuple[str, ...]
    rows: tuple[Row[T], ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    type: str
    status: str


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry of an access list."""

    subject: str
    policy: str
    resource: str
    actions: tuple[str, ...]
    source_ips: tuple[str, ...]
    decision: str


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account of ACL 1.0."""

    access_key: str
    admin: bool
    white_remote_address: str
    default_topic_perm: str
    default_group_perm: str
    topic_perms: tuple[str, ...]
    group_perms: tuple[str, ...]


async def clusters(admin: Admin) -> tuple[str, ...]:
    """The names of the clusters with a broker."""
    info = await admin.link.cluster_info()
    return tuple(sorted({b.cluster for b in info.brokers.values()}))


async def cluster_of(admin: Admin, asked: str) -> tuple[str, tuple[str, ...]]:
    """The cluster that is asked for, or the first one; and all. ClientError if there is none."""
    known = await clusters(admin)
    if not known:
        raise ClientError("no broker is registered at the name servers")
    if asked and asked not in known:
        raise ClientError(f"there is no cluster {asked}")
    return asked or known[0], known


def merged(answers: Mapping[str, Iterable[T]], key: Callable[[T], Hashable]) -> tuple[Row[T], ...]:
    """The rows of several masters, by key."""
    by_key: dict[Hashable, list[tuple[T, list[str]]]] = {}
    for master, rows in answers.items():
        for row in rows:
            forms = by_key.setdefault(key(row), [])
            on = next((on for form, on in forms if form == row), None)
            if on is None:
                forms.append((row, [master]))
            else:
                on.append(master)
    found = []
    for forms in by_key.values():
        there = {master for _, on in forms for master in on}
        without = tuple(m for m in answers if m not in there) if len(there) < len(answers) else ()
        found.append(Row(tuple((form, tuple(on)) for form, on in forms), without))
    return tuple(found)


def _found(
    outcomes: Outcomes[V],
    cluster: tuple[str, tuple[str, ...]],
    rows: Callable[[V], Iterable[T]],
    key: Callable[[T], Hashable],
) -> Found[T]:
    answers = {o.name or o.target: rows(o.value) for o in outcomes.done if o.value is not None}
    problems = problems_of(outcomes.failed)
    return Found(cluster[0], cluster[1], tuple(answers), merged(answers, key), problems)


def problems_of(failed: Iterable[Outcome[V]]) -> tuple[str, ...]:
    """One text for each reason, with the brokers that gave it."""
    by_reason: dict[str, list[Outcome[V]]] = {}
    for outcome in failed:
        by_reason.setdefault(str(outcome.error), []).append(outcome)
    texts = []
    for reason, of in by_reason.items():
        if len(of) == 1:
            texts.append(of[0].problem)
            continue
        names = ", ".join(o.name or o.target for o in of[:MOST_NAMES])
        more = f" and {len(of) - MOST_NAMES} more" if len(of) > MOST_NAMES else ""
        texts.append(f"{names}{more}: {reason}")
    return tuple(texts)


async def users(admin: Admin, asked: str = "") -> Found[UserRow]:
    cluster = await cluster_of(admin, asked)
    outcomes = await admin.users.list(cluster=cluster[0])

    def rows(found: Sequence[User]) -> list[UserRow]:
        return [UserRow(u.name, u.type or "", u.status or "") for u in found]

    return _found(outcomes, cluster, rows, lambda row: row.name)


async def entries(admin: Admin, asked: str = "") -> Found[EntryRow]:
    cluster = await cluster_of(admin, asked)
    outcomes = await admin.acls.list(cluster=cluster[0])

    def rows(found: Sequence[Acl]) -> list[EntryRow]:
        return [_entry(acl.subject, entry) for acl in found for entry in acl.entries]

    return _found(outcomes, cluster, rows, lambda row: (row.subject, row.policy, row.resource))


def _entry(subject: str, entry: Entry) -> EntryRow:
    return EntryRow(
        subject, entry.policy, entry.resource, tuple(sorted(entry.actions)),
        tuple(sorted(entry.source_ips)), entry.decision,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accounts:
    """`white`: the addresses from which requests need no account, by master."""

    found: Found[AccountRow]
    white: tuple[tuple[str, tuple[str, ...]], ...]


async def accounts(admin: Admin, asked: str = "") -> Accounts:
    cluster = await cluster_of(admin, asked)
    outcomes = await admin.accounts.list(cluster=cluster[0])

    def row(one: PlainAccount) -> AccountRow:
        return AccountRow(
            one.access_key, one.admin, one.white_remote_address or "",
            one.default_topic_perm or "", one.default_group_perm or "", one.topic_perms or (),
            one.group_perms or (),
        )  # fmt: skip

    found = _found(
        outcomes, cluster, lambda all_of: map(row, all_of.accounts), lambda one: one.access_key
    )
    white = tuple(
        (o.name or o.target, o.value.global_white_addresses)
        for o in outcomes.done
        if o.value is not None and o.value.global_white_addresses
    )
    return Accounts(found, white)


def parts_of(text: str, what: str) -> tuple[str, ...]:
    """Texts that are separated by commas or blanks. ClientError for too many."""
    found = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if len(found) > MAX_ENTRIES:
        raise ClientError(f"at most {MAX_ENTRIES} {what} at once")
    return found


def acl_of(
    subject: str, resources: str, actions: Sequence[str], source_ips: str, decision: str
) -> Acl:
    """The access list of a form. ClientError."""
    subject = subject.strip()
    kind, _, name = subject.partition(":")
    if kind != "User" or not name:
        raise ClientError("a subject is User:NAME")
    if not actions or not set(actions) <= set(ACTIONS):
        raise ClientError(f"choose actions among {', '.join(ACTIONS)}")
    if decision not in DECISIONS:
        raise ClientError(f"a decision is {' or '.join(DECISIONS)}")
    found = parts_of(resources, "resources")
    if not found:
        raise ClientError("name a resource, such as Topic:orders or Group:*")
    addresses = parts_of(source_ips, "addresses")
    return Acl(subject, tuple(Entry(one, tuple(actions), addresses, decision) for one in found))


@dataclass(frozen=True, slots=True)
class AclStep:
    """What becomes of one resource of a subject. `now`: the entry of the masters, None if there is
    none."""

    now: Row[EntryRow] | None
    new: EntryRow


def steps_of(acl: Acl, found: Found[EntryRow]) -> tuple[AclStep, ...]:
    """What a change of an access list would do: entries of the same resources are replaced."""
    known = {(r.one.subject, r.one.resource): r for r in found.rows if r.one.policy != "Default"}
    return tuple(
        AclStep(known.get((acl.subject, entry.resource)), _entry(acl.subject, entry))
        for entry in acl.entries
    )
