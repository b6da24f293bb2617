"""What the pages of configurations show: keys of servers, and where servers differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.link import Replica
from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.config.secret_names import is_secret
from pyrmq.config.table import HIDDEN, OtherKeys, check_value, described
from pyrmq.errors import ClientError, ConfigError, QueryNotFoundError
from pyrmq.namesrv import config as namesrv

OURS = "brokerDrain"
"""A key that only brokers of pyrmq have."""
OURS_OF_NAMESRV = "logLevels"
ITS_OWN = frozenset({
    "brokerName", "brokerId", "brokerRole", "brokerIP1", "brokerIP2", "listenPort",
    "fastListenPort", "haListenPort", "haMasterAddress", "storePathRootDir",
    "storePathCommitLog", "storePathConsumeQueue", "storePathIndex",
    "storePathDLedgerCommitLog", "metricsPromExporterPort", "metricsLabel", "brokerConfigPath",
    "aliveReplicasNum", "dLegerSelfId", "rocketmqHome", "logFile", "logFolder", "kvConfigPath",
    "configStorePath", "bindAddress",
})  # fmt: skip
"""Keys in which brokers always differ."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key of one server. `default`, `doc` and `values` are empty for keys that only Apache's
    servers have. `live`: whether it can be changed while the server runs; None: not known.
    `changed`: whether it is not the default; None: not known."""

    name: str
    value: str
    default: str
    doc: str
    values: str
    live: bool | None
    changed: bool | None
    secret: bool


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The configuration of one server. `ours`: whether it is one of pyrmq."""

    address: str
    label: str
    cluster: str
    ours: bool
    keys: tuple[KeyRow, ...]

    def key(self, name: str) -> KeyRow:
        """Raises ClientError if the server has no such key."""
        for row in self.keys:
            if row.name == name:
                return row
        raise ClientError(f"{self.label} has no key {name}")


@dataclass(frozen=True, slots=True)
class Difference:
    """A key in which servers differ: its values, with the servers that have each; None where
    servers do not have the key."""

    key: str
    doc: str
    values: tuple[tuple[str | None, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of the cluster, and in which keys they differ. `problems`: of those that did not
    answer."""

    clusters: tuple[str, ...]
    replicas: tuple[Replica, ...]
    answered: frozenset[str]
    differences: tuple[Difference, ...]
    problems: tuple[str, ...]


def rows_of(values: Mapping[str, str], cls: Any, *, ours: bool) -> tuple[KeyRow, ...]:
    """The keys of a server's answer, by name."""
    known = described(cls)
    found = []
    for name, value in sorted(values.items(), key=lambda kv: kv[0].lower()):
        row = known.get(name)
        secret = is_secret(name) or (row is not None and row.secret)
        shown = HIDDEN if secret and value else value
        if row is None:
            found.append(KeyRow(name, shown, "", "", "", False if ours else None, None, secret))
            continue
        changed = value != row.default if ours and row.fixed and not secret else None
        live = row.live if ours else None
        found.append(KeyRow(name, shown, row.default, row.doc, row.values, live, changed, secret))
    return tuple(found)


def differences(
    servers: Mapping[str, Mapping[str, str]], cls: Any, *, own: bool = False
) -> tuple[Difference, ...]:
    """The keys in which servers differ, by name. `own`: also those in which they always do. A key
    of which its values are secret is said to differ, without them."""
    known = described(cls)
    names = sorted({name for values in servers.values() for name in values}, key=str.lower)
    found = []
    for name in names:
        if name in ITS_OWN and not own:
            continue
        by_value: dict[str | None, list[str]] = defaultdict(list)
        for server, values in servers.items():
            by_value[values.get(name)].append(server)
        if len(by_value) < 2:
            continue
        secret = is_secret(name)
        parts = sorted(by_value.items(), key=lambda kv: (-len(kv[1]), kv[1]))
        shown = tuple((HIDDEN if secret and v else v, tuple(on)) for v, on in parts)
        found.append(Difference(name, known[name].doc if name in known else "", shown))
    return tuple(found)


async def brokers(admin: Admin, *, own: bool = False) -> Brokers:
    """All brokers, asked for their configuration at once."""
    replicas = await admin.link.replicas(default_all=True)
    outcomes = await admin.link.on_each(replicas, admin.brokers.config_of)
    labels = {r.address: r.label for r in replicas}
    answers = {labels[o.target]: o.value for o in outcomes.done if o.value is not None}
    return Brokers(
        tuple(sorted({r.cluster for r in replicas})),
        tuple(replicas),
        frozenset(o.target for o in outcomes.done),
        differences(answers, BrokerConfig, own=own),
        tuple(o.problem for o in outcomes.failed),
    )


async def replica_at(admin: Admin, address: str) -> Replica:
    """The broker that is registered with an address. ClientError, so that a page asks nobody
    else."""
    for replica in await admin.link.replicas(default_all=True):
        if replica.address == address:
            return replica
    raise ClientError(f"no broker is registered at {address}")


async def broker(admin: Admin, address: str) -> ServerConfig:
    """The configuration of one broker."""
    replica = await replica_at(admin, address)
    values = await admin.brokers.config_of(address)
    ours = OURS in values
    rows = rows_of(values, BrokerConfig, ours=ours)
    return ServerConfig(address, replica.label, replica.cluster, ours, rows)


@dataclass(frozen=True, slots=True)
class NameServers:
    """The configuration of the first name server that answered, and where others differ."""

    server: ServerConfig
    addresses: tuple[str, ...]
    differences: tuple[Difference, ...]
    problems: tuple[str, ...]


async def name_servers(admin: Admin) -> NameServers:
    """The configuration of all name servers. The error of one if none answers."""
    outcomes = (await admin.namesrv.config()).check()
    answers = {o.target: o.value or {} for o in outcomes.done}
    first, values = next(iter(answers.items()))
    ours = OURS_OF_NAMESRV in values
    rows = rows_of(values, namesrv.NamesrvConfig, ours=ours)
    return NameServers(
        ServerConfig(first, "the name servers", "", ours, rows),
        tuple(answers),
        differences(answers, namesrv.NamesrvConfig),
        tuple(o.problem for o in outcomes.failed),
    )


BROKER, MASTERS, ALL = "broker", "masters", "all"
SCOPES = (BROKER, MASTERS, ALL)


@dataclass(frozen=True, slots=True)
class Step:
    """What a change does at one server. `now`: its value, None if it did not answer or has no such
    key. `problem`: why nothing is changed there."""

    label: str
    now: str | None
    problem: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A change of a key that is looked at. `steps`: by server."""

    key: str
    value: str
    steps: tuple[Step, ...]

    @property
    def possible(self) -> bool:
        return any(not step.problem for step in self.steps)


def why_not(row: KeyRow, value: str, cls: Any, others: OtherKeys, *, ours: bool) -> str:
    """Why a server would refuse a value; empty if nothing is known against it."""
    if row.secret:
        return "it is a secret: put it into the file of the server, and restart it"
    if not ours:
        return ""
    if not row.live:
        return "it cannot be changed while the server runs: put it into its file, and restart it"
    try:
        check_value(cls, row.name, value, others)
    except ConfigError as e:
        return str(e)
    return ""


async def targets(admin: Admin, address: str, scope: str) -> Sequence[Replica]:
    """The brokers that a change is for. ClientError."""
    one = await replica_at(admin, address)
    if scope == MASTERS:
        return await admin.link.masters(cluster=one.cluster)
    if scope == ALL:
        return await admin.link.replicas(cluster=one.cluster)
    if scope != BROKER:
        raise ClientError(f"{scope} is none of {', '.join(SCOPES)}")
    return [one]


async def broker_change(admin: Admin, address: str, scope: str, key: str, value: str) -> KeyChange:
    """What a change of a key would do at each broker."""
    replicas = await targets(admin, address, scope)
    outcomes = await admin.link.on_each(replicas, admin.brokers.config_of)
    steps = []
    for replica, outcome in zip(replicas, outcomes, strict=True):
        if outcome.value is None:
            steps.append(Step(replica.label, None, str(outcome.error), replica.address))
            continue
        ours = OURS in outcome.value
        rows = {r.name: r for r in rows_of(outcome.value, BrokerConfig, ours=ours)}
        row = rows.get(key)
        if row is None:
            steps.append(Step(replica.label, None, "it has no such key", replica.address))
            continue
        problem = why_not(row, value, BrokerConfig, OTHER_KEYS, ours=ours)
        steps.append(Step(replica.label, row.value, problem, replica.address))
    return KeyChange(key, value, tuple(steps))


async def namesrv_change(admin: Admin, key: str, value: str) -> KeyChange:
    """What a change of a key would do at each name server."""
    outcomes = await admin.namesrv.config()
    steps = []
    for outcome in outcomes:
        if outcome.value is None:
            steps.append(Step(outcome.target, None, str(outcome.error)))
            continue
        ours = OURS_OF_NAMESRV in outcome.value
        rows = {r.name: r for r in rows_of(outcome.value, namesrv.NamesrvConfig, ours=ours)}
        row = rows.get(key)
        if row is None:
            steps.append(Step(outcome.target, None, "it has no such key"))
            continue
        problem = why_not(row, value, namesrv.NamesrvConfig, namesrv.OTHER_KEYS, ours=ours)
        steps.append(Step(outcome.target, row.value, problem))
    return KeyChange(key, value, tuple(steps))


async def kv(admin: Admin, namespace: str) -> dict[str, str]:
    """The values of a namespace, by key; empty if there is no such namespace."""
    try:
        return await admin.namesrv.all(namespace)
    except QueryNotFoundError:
        return {}
