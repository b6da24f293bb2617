"""Name servers and brokers as the rooms of servers show them: their health, and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyrmq.admin.api import Admin
from pyrmq.admin.clusters import ReplicaState
from pyrmq.admin.draining import NO_DRAIN
from pyrmq.admin.health import DEGRADED, DOWN, OK, Health, ServerHealth
from pyrmq.admin.runtime_info import Runtime, Traffic, first_number, whole
from pyrmq.console.not_there import NotThereError
from pyrmq.console.views.asking import together
from pyrmq.console.views.cache import kept
from pyrmq.errors import ClientError, NoPermissionError, PyrmqError
from pyrmq.model.route import MASTER_ID

FRESH, MOST = 3.0, 15.0
"""Seconds for which an answer is shown again, the latter of one that took long: several tabs ask
for the same."""
ORDER = {DOWN: 0, DEGRADED: 1, OK: 2}
"""What is wrong comes first."""
KINDS = {DOWN: "bad", DEGRADED: "warn", OK: "good"}
"""Of badges."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker: its health, and what it says of itself. runtime: empty if it did not answer."""

    health: ServerHealth
    runtime: Runtime = field(default_factory=dict)
    was: str = ""
    """The last known address of one that is missing."""
    is_denied: bool = False
    """It does not tell this user."""

    @property
    def name(self) -> str:
        return self.health.broker_name

    @property
    def number(self) -> int:
        return self.health.broker_id or 0

    @property
    def is_master(self) -> bool:
        return self.number == MASTER_ID

    @property
    def is_up(self) -> bool:
        return bool(self.runtime)

    @property
    def role(self) -> str:
        return "master" if self.is_master else f"slave {self.number}"

    @property
    def kind(self) -> str:
        """Of the badge of its state."""
        return KINDS[self.health.state]

    @property
    def is_pyrmq(self) -> bool:
        return "refusesMessages" in self.runtime

    @property
    def version(self) -> str:
        """`5.3.3`; empty if it is unknown."""
        text = self.runtime.get("brokerVersionDesc", "")
        return text.removeprefix("V").replace("_", ".")

    @property
    def product(self) -> str:
        if not self.is_up:
            return ""
        return "pyrmq" if self.is_pyrmq else "Apache"

    @property
    def messages_in(self) -> float | None:
        return first_number(self.runtime, "putTps") if self.is_up else None

    @property
    def messages_out(self) -> float | None:
        return first_number(self.runtime, "getTransferredTps") if self.is_up else None

    @property
    def traffic(self) -> Traffic:
        return Traffic.of(self.runtime)

    @property
    def connections(self) -> int | None:
        return whole(self.runtime, "connections") if "connections" in self.runtime else None

    @property
    def boot(self) -> int:
        return whole(self.runtime, "bootTimestamp")

    @property
    def earliest(self) -> int:
        """The store time of its first message, ms since 1970; 0 without any."""
        return max(whole(self.runtime, "earliestMessageTimeStamp"), 0)

    @property
    def log_bytes(self) -> int | None:
        if "commitLogMaxOffset" not in self.runtime:
            return None
        begin = max(whole(self.runtime, "commitLogMinOffset"), 0)
        return max(whole(self.runtime, "commitLogMaxOffset") - begin, 0)

    @property
    def drain(self) -> str:
        """What an operator took it out of; empty if nothing."""
        found = self.health.drain
        return "" if found in (None, NO_DRAIN) else found


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a server. broker: None for a name server."""

    server: ServerHealth
    text: str
    broker: Broker | None

    @property
    def kind(self) -> str:
        return KINDS[self.server.state]


@dataclass(frozen=True, slots=True)
class Servers:
    """state: `ok`, `degraded` or `down`. problem: why the brokers are not known at all. is_denied:
    because name servers do not tell this user."""

    state: str
    name_servers: Sequence[ServerHealth]
    brokers: Sequence[Broker]
    problem: str = ""
    is_denied: bool = False

    @property
    def kind(self) -> str:
        return KINDS[self.state]

    @property
    def clusters(self) -> list[str]:
        return sorted({b.health.cluster for b in self.brokers if b.health.cluster})

    @property
    def problems(self) -> list[Problem]:
        """What is wrong, the worst first."""
        found = [Problem(s, text, None) for s in self.name_servers for text in s.problems]
        found += [Problem(b.health, text, b) for b in self.brokers for text in b.health.problems]
        return sorted(found, key=lambda p: ORDER[p.server.state])

    @property
    def up(self) -> int:
        return sum(b.is_up for b in self.brokers)

    @property
    def fullest(self) -> Broker | None:
        """The broker with the fullest disk."""
        known = [b for b in self.brokers if b.health.disk is not None]
        return max(known, key=lambda b: b.health.disk or 0.0, default=None)

    @property
    def may_look(self) -> bool:
        """Whether no server refused to tell this user. What was sampled with other rights is shown
        only then."""
        return not self.is_denied and not any(b.is_denied for b in self.brokers)

    def of(self, name: str, number: int) -> Broker:
        """Raises NotThereError if there is no such broker."""
        for broker in self.brokers:
            if (broker.name, broker.number) == (name, number):
                return broker
        raise NotThereError(f"there is no broker {name} with id {number}")


async def servers(admin: Admin, cluster: str | None = None) -> Servers:
    """The servers of a cluster, or of all, as a short time ago. Raises NotThereError if there is no
    such cluster."""
    name = "servers" if cluster is None else f"servers of {cluster}"
    return await kept(admin, name, partial(_ask, admin, cluster), seconds=FRESH, longest=MOST)


async def _ask(admin: Admin, cluster: str | None) -> Servers:
    states: list[ReplicaState] = []
    problem: PyrmqError | None = None
    unknown: ClientError | None = None
    health = Health(DOWN, [])

    async def figures() -> None:
        nonlocal states, problem
        try:
            states = await admin.clusters.list(cluster)
        except PyrmqError as e:
            problem = e

    async def healthy() -> None:
        nonlocal health, unknown
        try:
            health = await admin.clusters.health(cluster)
        except ClientError as e:
            unknown = e

    await together(figures, healthy)
    if unknown is not None:
        raise NotThereError(str(unknown))
    return joined(health, states, problem)


def joined(
    health: Health, states: Sequence[ReplicaState], problem: PyrmqError | None = None
) -> Servers:
    """Health and figures of the same brokers; by cluster, name and id. problem: why there are no
    figures."""
    by_place: Mapping[tuple[str, int], ReplicaState] = {
        (s.replica.broker_name, s.replica.broker_id): s for s in states
    }
    name_servers = [s for s in health.servers if s.role == "name server"]
    brokers = []
    for server in health.servers:
        if server.role == "name server":
            continue
        state = by_place.get((server.broker_name, server.broker_id or 0))
        if state is None:
            brokers.append(Broker(server))
            continue
        denied = isinstance(state.error, NoPermissionError)
        brokers.append(Broker(server, state.runtime, state.replica.was, denied))
    _tell_slaves(health.servers)
    text = "" if problem is None else str(problem)
    denied = isinstance(problem, NoPermissionError)
    return Servers(health.state, name_servers, brokers, text, denied)


def _tell_slaves(servers: Sequence[ServerHealth]) -> None:
    """A slave knows only what its master has sent. Where a name has one slave, what its master says
    of it counts too."""
    for master in servers:
        if master.role != "master" or master.behind is None:
            continue
        slaves = [s for s in servers if s.role == "slave" and s.broker_name == master.broker_name]
        if len(slaves) == 1 and slaves[0].behind is not None:
            slaves[0].behind = max(slaves[0].behind, master.behind)
