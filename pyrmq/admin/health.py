"""Health of a cluster: a word, and a row for each name server and each replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyrmq.admin.expected import Missing
from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.admin.runtime_info import HaStatus, Runtime, first_number
from pyrmq.admin.values import table
from pyrmq.errors import PyrmqError, RequestCodeNotSupportedError
from pyrmq.model.codes import RequestCode
from pyrmq.model.route import MASTER_ID, BrokerData, ClusterInfo
from pyrmq.net import fastjson
from pyrmq.net.address import format_address

DISK_HIGH = 80.0
"""Percent; above diskMaxUsedSpaceRatio, and below the ratio at which files are deleted before they
expire."""
BEHIND_HIGH = 256 << 20
"""Most bytes of a master's log that a slave may lack."""
MOST_NAMED = 8
"""Most names in the text of a problem."""

OK, DEGRADED, DOWN = "ok", "degraded", "down"


@dataclass(slots=True)
class ServerHealth:
    """A name server or a broker."""

    role: str
    """`name server`, `master` or `slave`."""
    address: str
    cluster: str = ""
    broker_name: str = ""
    broker_id: int | None = None
    state: str = OK
    """`ok`, `degraded` (it has problems) or `down` (it is missing, or does not answer)."""
    behind: int | None = None
    """Of a slave: bytes of its master's log that it lacks. Of a master: the most that one of its
    slaves lacks. None if unknown."""
    disk: float | None = None
    """Used percent of the disk of log or queues, whichever is fuller."""
    refuses: bool = False
    """Of a broker: whether it refuses messages now."""
    drain: str | None = None
    """brokerDrain of a broker of pyrmq: `NONE`, or what an operator took it out of. This is no
    problem."""
    problems: list[str] = field(default_factory=list)

    def trouble(self, problem: str, state: str = DEGRADED) -> None:
        self.problems.append(problem)
        if self.state != DOWN:
            self.state = state


@dataclass(slots=True)
class Health:
    """A cluster, or all of them."""

    state: str
    """`ok`; `degraded`: something is wrong or missing; `down`: no name server answers, or no master
    accepts messages."""
    servers: list[ServerHealth]
    """Name servers first, then brokers by cluster, name and id."""

    @property
    def problems(self) -> list[str]:
        """The problems, each with its server."""
        return [
            f"{' '.join(p for p in (s.broker_name, s.address) if p)}: {problem}"
            for s in self.servers
            for problem in s.problems
        ]


def disk_percent(runtime: Mapping[str, str]) -> float | None:
    """Used percent of the fuller of the disks of log and queues; None if the broker does not report
    it."""
    names = ("commitLogDiskRatio", "consumeQueueDiskRatio")
    found = [first_number(runtime, name) for name in names if name in runtime]
    ratios = [ratio for ratio in found if ratio >= 0]
    return round(max(ratios) * 100, 2) if ratios else None


def refusal(runtime: Mapping[str, str]) -> str | None:
    """Why a broker refuses messages now; empty if it accepts them; None if it does not report it,
    as Apache's."""
    return runtime.get("refusesMessages")


async def health(link: AdminLink, cluster: str | None = None) -> Health:
    """The state of the servers. Raises ClientError if there is no such cluster."""
    servers = [format_address(a) for a in link.namesrv]
    infos = await link.on_each(servers, lambda server: _cluster_info(link, server))
    rows = [_name_server(o) for o in infos]
    if not infos.done:
        return Health(DOWN, rows)
    union = _union(infos.values)
    topics = await link.on_each(
        [o.target for o in infos.done], lambda server: _topics(link, server)
    )
    _compare(rows, infos, union, topics)
    link.expected.note(union)
    missing = link.expected.missing(union)
    if cluster is not None and not any(m.cluster == cluster for m in missing):
        link.of_cluster(union, cluster)  # ClientError
    missing = [m for m in missing if cluster is None or m.cluster in ("", cluster)]
    replicas = sorted(
        Replica(b.cluster, b.broker_name, number, address)
        for b in union.brokers.values()
        if cluster is None or b.cluster == cluster
        for number, address in b.broker_addrs.items()
    )
    asked = await link.on_each(replicas, lambda address: _state(link, address))
    brokers = [_broker(r, o) for r, o in zip(replicas, asked, strict=True)]
    _slaves(brokers, [o.value[1] if o.value else None for o in asked])
    brokers += [_missing(m) for m in missing]
    _without_master(brokers)
    brokers.sort(key=lambda s: (s.cluster, s.broker_name, s.broker_id or 0))
    return Health(_word(rows, brokers), rows + brokers)


async def _cluster_info(link: AdminLink, server: str) -> ClusterInfo:
    found = await link.ask_json(server, RequestCode.GET_BROKER_CLUSTER_INFO)
    return ClusterInfo.from_json(found)


async def _topics(link: AdminLink, server: str) -> set[str]:
    answer = await link.ask(server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    listed = fastjson.loads_object(answer.body).get("topicList")
    return {str(t) for t in listed} if isinstance(listed, list) else set()


async def _state(link: AdminLink, address: str) -> tuple[Runtime, HaStatus | None]:
    answer = await link.ask_json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    runtime = {str(k): str(v) for k, v in table(answer, "table").items()}
    try:
        status = await link.ask_json(address, RequestCode.GET_BROKER_HA_STATUS)
    except RequestCodeNotSupportedError:
        return runtime, None
    return runtime, HaStatus.from_json(status)


def _name_server(outcome: Outcome[ClusterInfo]) -> ServerHealth:
    row = ServerHealth("name server", outcome.target)
    if outcome.error is not None:
        row.trouble(_said(outcome.error, outcome.target), DOWN)
    return row


def _said(error: PyrmqError, address: str) -> str:
    return str(error).removeprefix(f"{address}: ")


def _union(infos: Sequence[ClusterInfo]) -> ClusterInfo:
    """The brokers and topics that all name servers know together."""
    union = ClusterInfo()
    for info in infos:
        union.clusters |= info.clusters
        for name, broker in info.brokers.items():
            known = union.brokers.get(name)
            if known is None:
                addresses = dict(broker.broker_addrs)
                union.brokers[name] = BrokerData(broker.cluster, name, addresses)
            else:
                known.broker_addrs = {**broker.broker_addrs, **known.broker_addrs}
    return union


def _compare(
    rows: Sequence[ServerHealth],
    infos: Outcomes[ClusterInfo],
    union: ClusterInfo,
    topics: Outcomes[set[str]],
) -> None:
    """Adds to each name server the problem that it does not know something that another one
    knows."""
    by_address = {row.address: row for row in rows}
    every = {
        (name, number, address)
        for name, broker in union.brokers.items()
        for number, address in broker.broker_addrs.items()
    }
    for outcome in infos.done:
        assert outcome.value is not None
        known = {
            (name, number, address)
            for name, broker in outcome.value.brokers.items()
            for number, address in broker.broker_addrs.items()
        }
        row = by_address[outcome.target]
        if lacks := sorted(f"{n} id {i} at {a}" for n, i, a in every - known):
            row.trouble(f"does not know {_named(lacks)}, which another name server does")
        if more := sorted(f"{n} id {i} at {a}" for n, i, a in known - every):
            row.trouble(f"knows {_named(more)}, where another name server has another address")
    all_topics = set().union(*topics.values)
    for listed in topics:
        row = by_address[listed.target]
        if listed.error is not None:
            row.trouble(_said(listed.error, listed.target))
        elif listed.value is not None and (lacks := sorted(all_topics - listed.value)):
            row.trouble(f"does not know topics {_named(lacks)}, which another name server does")


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _broker(replica: Replica, outcome: Outcome[tuple[Runtime, HaStatus | None]]) -> ServerHealth:
    role = "master" if replica.broker_id == MASTER_ID else "slave"
    row = ServerHealth(
        role, replica.address, replica.cluster, replica.broker_name, replica.broker_id
    )
    if outcome.value is None:
        assert outcome.error is not None
        row.trouble(_said(outcome.error, replica.address), DOWN)
        return row
    runtime, status = outcome.value
    row.disk = disk_percent(runtime)
    if row.disk is not None and row.disk >= DISK_HIGH:
        row.trouble(f"the disk is {row.disk:g} % full")
    row.drain = runtime.get("brokerDrain")
    if why := refusal(runtime):
        row.refuses = True
        row.trouble(f"refuses messages: {why}")
    if status is not None and role == "slave" and not status.master:
        if status.why:
            row.trouble(f"does not follow its master: {status.why}")
        else:
            row.behind = max(status.master_flush_offset - status.max_offset, 0)
    return row


def _slaves(brokers: Sequence[ServerHealth], statuses: Sequence[HaStatus | None]) -> None:
    """The masters' reports of their slaves: how many follow, and how far behind they are."""
    for row, status in zip(brokers, statuses, strict=True):
        if row.role != "master" or status is None:
            continue
        of_name = [b for b in brokers if b.broker_name == row.broker_name and b.role == "slave"]
        row.behind = max((max(s.diff, 0) for s in status.slaves), default=None)
        if len(status.slaves) < len(of_name):
            row.trouble(f"{len(status.slaves)} of {len(of_name)} slaves are connected")
        if row.behind and row.behind >= BEHIND_HIGH:
            row.trouble(f"a slave lacks {row.behind} bytes of the log")


def _missing(one: Missing) -> ServerHealth:
    role = "master" if one.broker_id == MASTER_ID else "slave"
    address = f"was {one.address}" if one.address else ""
    row = ServerHealth(role, address, one.cluster, one.broker_name, one.broker_id)
    row.trouble(one.text.removeprefix(f"{one.label} is "), DOWN)
    return row


def _without_master(brokers: list[ServerHealth]) -> None:
    """Adds to the first slave of a name the problem that there is no master."""
    with_master = {b.broker_name for b in brokers if b.role == "master"}
    for row in brokers:
        if row.broker_name not in with_master:
            row.trouble(f"{row.broker_name} has no master: it takes no messages")
            with_master.add(row.broker_name)


def _word(name_servers: Sequence[ServerHealth], brokers: Sequence[ServerHealth]) -> str:
    masters = [b for b in brokers if b.role == "master"]
    sendable = [b for b in masters if b.state != DOWN and not b.refuses]
    if not sendable:
        return DOWN
    return DEGRADED if any(s.problems for s in (*name_servers, *brokers)) else OK
