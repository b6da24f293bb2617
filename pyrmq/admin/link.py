"""Requests to name servers and brokers, and their addresses: the base of all of Admin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import trio

from pyrmq.admin.channels import AdminChannels
from pyrmq.admin.expected import Expected, Missing
from pyrmq.admin.near import near as near
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.engine import Command
from pyrmq.errors import (
    BrokerMissingError,
    ClientError,
    ProtocolError,
    PyrmqError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.model.codes import ResponseCode, request_text
from pyrmq.model.route import MASTER_ID, BrokerData, ClusterInfo, TopicRoute
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address, parse_address
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.name_servers import NameServers
from pyrmq.net.client.protocol import Ext
from pyrmq.net.client.tls import Tls

FRESH = 5.0
"""Seconds for which the list of known brokers is reused to find missing ones."""
TIMEOUT = 5.0
"""Seconds for a request to a server. [DefaultMQAdminExt: 5000 ms]"""
AT_ONCE = 8
"""Most servers that are asked at the same time."""
MAX_TOPICS = 4 << 20
"""Most values in a list of topics that is accepted from a name server."""
Progress = Callable[[str, int, int], None]
"""Called with a description, the number done, and the total (0: unknown)."""
R = TypeVar("R")
S = TypeVar("S")


@dataclass(frozen=True, slots=True, order=True)
class Replica:
    """One broker process: a master (id 0) or a slave."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    """`host:port`. For a missing broker a label; requests to it fail."""
    was: str = ""
    """The last known address of a missing broker."""

    @property
    def label(self) -> str:
        """What people call it: `broker-a`, of a slave `broker-a (slave 1)`; its address if no name
        is known."""
        if not self.broker_name:
            return self.address
        slave = f" (slave {self.broker_id})" if self.broker_id != MASTER_ID else ""
        return self.broker_name + slave

    @classmethod
    def missing(cls, one: Missing) -> Replica:
        """A broker that should exist and is missing."""
        return cls(one.cluster, one.broker_name, one.broker_id, one.label, one.address)

    @classmethod
    def at(cls, address: str) -> Replica:
        """A broker of which only the address is known."""
        return cls("", "", MASTER_ID, address)


class AdminLink:
    """Connections to the servers of a cluster. An async context manager.

    `namesrv`: the name servers. `timeout`: seconds for a request, by default TIMEOUT.
    `credentials`, `tls`: sign requests, connect with TLS. `expected`: the brokers that should
    exist, by default those that were seen through this link. Missing brokers come last in lists of
    brokers. Each request to one is a BrokerMissingError, so that calls to all brokers report the
    missing ones. A ResponseError from a server has its address in `server`.
    """

    def __init__(
        self,
        namesrv: Sequence[Address],
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        expected: Expected | None = None,
    ) -> None:
        self.expected = Expected() if expected is None else expected
        self.missed: dict[str, BrokerMissingError] = {}
        """Brokers that were missing where something was asked, by what they are called."""
        self._info: tuple[float, ClusterInfo] | None = None
        self.progress = progress or no_progress
        self.namesrv = tuple(namesrv)
        self._said = timeout
        self.timeout = TIMEOUT if timeout is None else timeout
        self.name_servers = NameServers(namesrv, timeout=self.timeout)
        self.credentials, self.tls = credentials, tls
        """For producers that send messages as well."""
        self._channels = AdminChannels(credentials, tls)

    async def __aenter__(self) -> Self:
        await self._channels.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._channels.__aexit__(*error)

    @property
    def channels(self) -> Channels:
        """The connections, for procedures that use them directly."""
        return self._channels

    def patience(self, usual: float) -> float:
        """Seconds for a request that takes longer: `usual`, unless the user has set the timeout."""
        return usual if self._said is None else self._said

    # Requests

    async def call(
        self,
        server: str | Address,
        code: int,
        ext: Ext | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
    ) -> Command:
        """A server's answer with any code. Raises ConnectError and RequestTimeoutError."""
        if isinstance(server, str) and server in self.missed:
            raise self.missed[server]
        address = parse_address(server, "address") if isinstance(server, str) else server
        channel = await self._channels.get(address)
        return await channel.call(code, ext, body, timeout=timeout or self.timeout)

    async def ask(
        self,
        server: str | Address,
        code: int,
        ext: Ext | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
    ) -> Command:
        """A server's answer with success. Raises ResponseError if it refused."""
        answer = await self.call(server, code, ext, body, timeout=timeout)
        if answer.code != ResponseCode.SUCCESS:
            error = ResponseError.of(answer.code, answer.remark or "")
            error.server = server if isinstance(server, str) else format_address(server)
            raise error
        return answer

    async def ask_json(
        self,
        server: str | Address,
        code: int,
        ext: Ext | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
    ) -> dict[Any, Any]:
        """The JSON object of a server's answer; an empty body is an empty object."""
        answer = await self.ask(server, code, ext, body, timeout=timeout)
        try:
            return fastjson.loads_object(answer.body) if answer.body else {}
        except ProtocolError as e:
            where = server if isinstance(server, str) else format_address(server)
            raise ProtocolError(f"{where}: {e} (request {request_text(code)})") from e

    async def ask_name_server(self, code: int, ext: Ext | None = None) -> Command:
        """The answer of one name server; if it does not answer, the next one is asked."""
        return await self._channels.perform(self.name_servers.request(code, ext or {}))

    async def ask_name_servers(
        self, code: int, ext: Ext | None = None, body: bytes = b""
    ) -> Outcomes[Command]:
        """The answer of every name server."""
        return await self.on_each(
            [format_address(a) for a in self.namesrv],
            lambda server: self.ask(server, code, ext, body),
        )

    async def on_each(
        self,
        targets: Iterable[str | Replica],
        work: Callable[[str], Awaitable[R]],
        *,
        at_once: int = AT_ONCE,
    ) -> Outcomes[R]:
        """The result of `work` for the address of each target, or the PyrmqError that it raised;
        `at_once` of them run at the same time."""
        replicas = [Replica.at(t) if isinstance(t, str) else t for t in targets]
        found: list[Outcome[R] | None] = [None] * len(replicas)
        limit = trio.CapacityLimiter(at_once)

        async def one(at: int, replica: Replica) -> None:
            async with limit:
                try:
                    value = await work(replica.address)
                except PyrmqError as e:
                    found[at] = Outcome(replica.address, error=e, name=replica.broker_name)
                else:
                    found[at] = Outcome(replica.address, value, name=replica.broker_name)

        async with _children() as nursery:
            for at, replica in enumerate(replicas):
                nursery.start_soon(one, at, replica)
        return Outcomes(o for o in found if o is not None)

    # Where things are

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic. Raises TopicNotExistError, which says what is missing."""
        try:
            found = await self._channels.perform(self.name_servers.route(topic))
        except TopicNotExistError as e:
            missing = await self.missing_names()
            if missing:
                e.hint = "; ".join(str(self.missed[m.label]) for m in missing)
            raise
        await self.missing_names(found)
        return found

    async def cluster_info(self) -> ClusterInfo:
        info = await self._channels.perform(self.name_servers.cluster_info())
        self._info = trio.current_time(), info
        self.expected.note(info)
        return info

    async def missing_names(self, route: TopicRoute | None = None) -> list[Missing]:
        """The broker names of which no broker is there. `route`: those that may have its topic,
        because they are in one of its clusters, or in one with no broker left."""
        info = await self._lately()
        missing = self.expected.missing_names(info) if info is not None else []
        if route is not None and info is not None:
            left = {b.cluster for b in info.brokers.values()}
            clusters = {b.cluster for b in route.brokers}
            missing = [m for m in missing if m.cluster in clusters or m.cluster not in left]
            known = {*info.brokers, *(m.broker_name for m in missing)}
            why = "the topic's order configuration names it"
            no_more = "put the order configuration without it: pyrmq admin topic order put"
            missing += (
                [
                    Missing("", name, MASTER_ID, why=why, no_more=no_more)
                    for name in sorted({e.partition(":")[0] for e in route.order_conf.split(";")})
                    if name and name not in known
                ]
                if route.order_conf
                else []
            )
        return self._miss(missing)

    async def _lately(self) -> ClusterInfo | None:
        """Which brokers there are, as of a short time ago; None if no name server can tell."""
        if self._info is None or trio.current_time() - self._info[0] > FRESH:
            try:
                await self.cluster_info()
            except PyrmqError:
                return None
        return self._info[1] if self._info else None

    def _miss(self, missing: list[Missing]) -> list[Missing]:
        for one in missing:
            self.missed[one.label] = one.error
        return missing

    async def topics(self) -> set[str]:
        """The names of all topics, including retry and system topics, as far as brokers are
        there."""
        found = await self._channels.perform(self.name_servers.topics())
        await self.missing_names()
        return found

    async def replicas(
        self,
        *,
        broker: str | None = None,
        cluster: str | None = None,
        slaves: bool = True,
        default_all: bool = False,
    ) -> list[Replica]:
        """The selected brokers, by cluster, name and id: the one at the address `broker`, or those
        of `cluster`, with `slaves` or only masters; then the missing ones. `default_all`: all
        clusters if neither is given, which otherwise is an error. Raises ClientError if there is no
        such cluster."""
        if broker is not None:
            if cluster is not None:
                raise ClientError("name a broker or a cluster, not both")
            return [Replica.at(format_address(parse_address(broker, "broker address")))]
        if cluster is None and not default_all:
            raise ClientError("say which broker (host:port), or which cluster")
        info = await self.cluster_info()
        find = self.expected.missing if slaves else self.expected.without_master
        missing = [m for m in find(info) if cluster is None or m.cluster in ("", cluster)]
        brokers: Iterable[BrokerData] = info.brokers.values()
        if cluster is not None and not any(m.cluster == cluster for m in missing):
            brokers = self.of_cluster(info, cluster)
        elif cluster is not None:
            brokers = [b for b in brokers if b.cluster == cluster]
        found = sorted(
            Replica(b.cluster, b.broker_name, number, address)
            for b in brokers
            for number, address in b.broker_addrs.items()
            if slaves or number == MASTER_ID
        )
        return found + [Replica.missing(m) for m in self._miss(missing)]

    async def one_of_each(self) -> list[Replica]:
        """One broker of each name, the master or its first slave; then missing names."""
        info = await self.cluster_info()
        found = [
            Replica(b.cluster, b.broker_name, number, b.broker_addrs[number])
            for _, b in sorted(info.brokers.items())
            if b.broker_addrs
            for number in [min(b.broker_addrs)]
        ]
        return found + [Replica.missing(m) for m in await self.missing_names()]

    async def masters(
        self, *, broker: str | None = None, cluster: str | None = None, default_all: bool = False
    ) -> list[Replica]:
        """As `replicas`, only masters. Raises ClientError if there are none."""
        found = await self.replicas(
            broker=broker, cluster=cluster, slaves=False, default_all=default_all
        )
        if not found:
            where = f"cluster {cluster}" if cluster else "the name server"
            raise ClientError(f"{where} has no broker that is a master")
        return found

    @staticmethod
    def of_cluster(info: ClusterInfo, cluster: str) -> list[BrokerData]:
        """The brokers of a cluster. Raises ClientError if there is no such cluster."""
        found = [b for b in info.brokers.values() if b.cluster == cluster]
        names = info.clusters | {b.cluster for b in info.brokers.values()}
        if not found and cluster not in names:
            raise ClientError(f"there is no cluster {cluster}{near(cluster, names)}")
        return found

    async def broker_named(self, name: str) -> BrokerData:
        """The addresses of a broker name. Raises ClientError if no name server knows it."""
        brokers = (await self.cluster_info()).brokers
        if name not in brokers:
            for one in await self.missing_names():
                if one.broker_name == name:
                    raise self.missed[one.label]
            raise ClientError(f"there is no broker {name}{near(name, brokers)}")
        return brokers[name]

    async def master_of(self, name: str) -> str:
        """The address of the master of a broker name. Raises ClientError."""
        broker = await self.broker_named(name)
        if MASTER_ID not in broker.broker_addrs:
            raise ClientError(f"broker {name} has no master now")
        return broker.broker_addrs[MASTER_ID]

    async def brokers_of(self, topic: str) -> list[Replica]:
        """One broker for each broker name of a topic's route, by name: its master, or its first
        replica without one; then the missing names that may have the topic. Raises
        TopicNotExistError."""
        route = await self.route(topic)
        found = []
        for b in route.brokers:
            address = route.address_of(b.broker_name)
            if address is not None:
                number = next(n for n, a in b.broker_addrs.items() if a == address)
                found.append(Replica(b.cluster, b.broker_name, number, address))
        missing = await self.missing_names(route)
        return sorted(found) + [Replica.missing(m) for m in missing]


def no_progress(what: str, done: int, total: int) -> None:
    """Ignores progress."""


class Part:
    """A part of Admin: requests of one kind."""

    def __init__(self, link: AdminLink) -> None:
        self._link = link


@asynccontextmanager
async def _children() -> AsyncIterator[trio.Nursery]:
    """A nursery that raises a single error as it is, not in a group."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
