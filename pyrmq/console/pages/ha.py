"""Replication: masters and slaves, whether they are in sync, and how far slaves are behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.api import Admin
from pyrmq.admin.controllers import ControllerMetadata, SyncState
from pyrmq.admin.health import BEHIND_HIGH
from pyrmq.admin.outcome import Outcome
from pyrmq.admin.runtime_info import HaStatus, Slave
from pyrmq.console.charts import MOST_LINES, Line, chart
from pyrmq.console.history import History, history_of
from pyrmq.console.link import admin_of
from pyrmq.console.rendering import fragment, page
from pyrmq.console.room import Room
from pyrmq.console.views.servers import Broker, Servers, servers
from pyrmq.errors import PyrmqError, RequestCodeNotSupportedError
from pyrmq.net.clock import now_ms

ROOM = Room("ha", "HA", "/ha", 100)
MAX_CONTROLLERS = 16
"""Addresses of controllers that are asked."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A broker and what it says of replication. status: None if it does not say. problem: why."""

    broker: Broker
    status: HaStatus | None
    problem: str = ""
    lacks: int = 0
    """Of a slave: what its master says that it lacks."""

    @property
    def behind(self) -> int | None:
        """Of a slave: bytes of its master's log that it lacks. A slave knows only what its master
        has sent: where the master says more, that counts."""
        if self.status is None or self.status.master:
            return None
        return max(self.status.master_flush_offset - self.status.max_offset, self.lacks, 0)

    @property
    def state(self) -> tuple[str, str]:
        """In a word, and the kind of its badge."""
        status = self.status
        if not self.broker.is_up and status is None:
            return "no answer", "bad"
        if status is None:
            return "unknown", ""
        if status.master:
            if not self.broker.is_master:
                return "says it is master", "warn"
            return "master", "good"
        if self.broker.is_master:
            return "says it is a slave", "warn"
        if status.why or (status.state and status.state != "FOLLOWING"):
            return "does not follow", "bad"
        if not status.master_address:
            return "no master", "bad"
        return ("follows", "good") if (self.behind or 0) < BEHIND_HIGH else ("behind", "warn")


@dataclass(frozen=True, slots=True)
class Pair:
    """The brokers of one name: its master, its slaves."""

    name: str
    cluster: str
    replicas: Sequence[Replica]

    @property
    def master(self) -> Replica | None:
        return next((r for r in self.replicas if r.broker.is_master), None)

    @property
    def connected(self) -> Sequence[Slave]:
        """Slaves, as the master has them, the farthest behind first."""
        master = self.master
        found = master.status.slaves if master is not None and master.status is not None else []
        return sorted(found, key=lambda s: -s.diff)

    @property
    def in_sync(self) -> int:
        return sum(slave.in_sync for slave in self.connected)

    @property
    def slaves(self) -> int:
        return sum(not r.broker.is_master for r in self.replicas)

    @property
    def word(self) -> tuple[str, str]:
        """How the name stands, and the kind of its badge."""
        master = self.master
        if master is None or not master.broker.is_up:
            return "no master", "bad"
        if not self.slaves and not self.connected:
            return "no slave", ""
        if any(r.state[1] == "bad" for r in self.replicas):
            return "a slave does not follow", "bad"
        if len(self.connected) < self.slaves:
            return f"{len(self.connected)} of {self.slaves} slaves connected", "bad"
        if self.in_sync < len(self.connected):
            return f"{self.in_sync} of {len(self.connected)} in sync", "warn"
        return "in sync", "good"


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller of Apache's, and what it says. problem: why it does not."""

    address: str
    cluster: str
    metadata: ControllerMetadata | None
    states: Sequence[SyncState] = ()
    problem: str = ""


async def pairs(admin: Admin, found: Servers) -> list[Pair]:
    """How replication stands, by broker name; what is wrong first."""
    said: dict[str, Outcome[HaStatus]] = {}
    for cluster in found.clusters:
        for outcome in await admin.brokers.ha(cluster=cluster, slaves=True):
            said[outcome.target] = outcome
    return joined(found.brokers, said)


def joined(brokers: Iterable[Broker], said: dict[str, Outcome[HaStatus]]) -> list[Pair]:
    by_name: dict[tuple[str, str], list[Replica]] = {}
    for broker in brokers:
        outcome = said.get(broker.health.address)
        replica = Replica(broker, None)
        if outcome is not None and outcome.value is not None:
            replica = Replica(broker, outcome.value)
        elif outcome is not None and isinstance(outcome.error, RequestCodeNotSupportedError):
            replica = Replica(broker, None, "its version does not say how replication stands")
        elif outcome is not None:
            replica = Replica(broker, None, outcome.problem)
        by_name.setdefault((broker.health.cluster, broker.name), []).append(replica)
    order = {"bad": 0, "warn": 1, "": 2, "good": 2}
    rows = [Pair(name, cluster, _told(replicas)) for (cluster, name), replicas in by_name.items()]
    return sorted(rows, key=lambda pair: (order[pair.word[1]], pair.cluster, pair.name))


def _told(replicas: list[Replica]) -> list[Replica]:
    """Slaves with what their master knows of them: of a single one that is connected what the
    master says. Of several nobody knows which connection is whose. One that does not follow lacks
    what its log is shorter."""
    masters = [r.status for r in replicas if r.broker.is_master and r.status is not None]
    if len(masters) != 1:
        return replicas
    master = masters[0]
    alone = len(replicas) == 2 and len(master.slaves) == 1
    found = []
    for replica in replicas:
        status = replica.status
        if status is not None and not replica.broker.is_master:
            lacks = master.slaves[0].diff if alone else 0
            if replica.state[1] == "bad":
                lacks = master.max_offset - status.max_offset
            replica = replace(replica, lacks=lacks)
        found.append(replica)
    return found


async def controllers(admin: Admin, found: Servers) -> list[Controller]:
    """The controllers that Apache's brokers name in their configuration; none of pyrmq's."""
    rows: list[Controller] = []
    for cluster in found.clusters:
        asked = next(
            (b for b in found.brokers
             if b.health.cluster == cluster and b.is_up and not b.is_pyrmq),
            None,
        )  # fmt: skip
        if asked is None:
            continue
        try:
            config = await admin.brokers.config_of(asked.health.address)
        except PyrmqError:
            continue
        if config.get("enableControllerMode", "").lower() != "true":
            continue
        addresses = [a.strip() for a in config.get("controllerAddr", "").split(";") if a.strip()]
        for address in addresses[:MAX_CONTROLLERS]:
            rows.append(await _controller(admin, cluster, address))
    return rows


async def _controller(admin: Admin, cluster: str, address: str) -> Controller:
    try:
        metadata = await admin.controllers.metadata(address)
        states: Sequence[SyncState] = ()
        if metadata.is_leader:
            states = await admin.controllers.sync_states(address, cluster=cluster)
    except PyrmqError as e:
        return Controller(address, cluster, None, problem=str(e))
    return Controller(address, cluster, metadata, states)


def charts(history: History, rows: Iterable[Pair], now: int) -> list[Markup]:
    """How far slaves were behind in an hour, by broker name: those that were farthest."""
    lines = []
    for pair in rows:
        hours = [history.of_broker(r.broker.name, r.broker.number) for r in pair.replicas]
        known = [Line.of(pair.name, hour, "slave_behind") for hour in hours]
        best = max(known, key=_most, default=None)
        if pair.slaves and best is not None and best.points:
            lines.append(best)
    lines.sort(key=_most, reverse=True)
    if not lines:
        return []
    return [chart("Bytes behind", lines[:MOST_LINES], unit="bytes", now=now)]


def _most(line: Line) -> float:
    return max((value for _, value in line.points if value == value), default=-1.0)


async def shown(request: Request) -> Response:
    values = await _values(request)
    found = await controllers(await admin_of(request), values["found"])
    return page(request, "ha/list.html", **values, controllers=found)


async def now(request: Request) -> Response:
    """What refreshes itself."""
    return fragment(request, "ha/now.html", **await _values(request))


async def _values(request: Request) -> dict[str, Any]:
    admin = await admin_of(request)
    found = await servers(admin)
    rows = await pairs(admin, found)
    history = await history_of(request)
    return {
        "found": found,
        "pairs": rows,
        "charts": charts(history, rows, now_ms()) if found.may_look else [],
        "slaves": sum(pair.slaves for pair in rows),
    }


ROUTES = [Route("/ha", shown), Route("/ha/now", now)]
