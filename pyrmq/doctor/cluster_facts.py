"""Asks resolvers, name servers and brokers. Each question has a time limit, and a failure is a
fact as well."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import trio

from pyrmq.admin import values
from pyrmq.admin.api import Admin
from pyrmq.admin.outcome import Outcomes
from pyrmq.doctor.facts import Cluster, Lookup, NameServer, Peer, Server
from pyrmq.errors import PyrmqError, QueryNotFoundError, TopicNotExistError
from pyrmq.model.codes import RequestCode
from pyrmq.model.route import ClusterInfo, TopicRoute
from pyrmq.net import fastjson
from pyrmq.net.address import unreachable

RESOLVE_SECONDS = 10.0
MOST_ROUTES = 64
"""Topics whose routes are compared."""
MOST_PEERS = 64
"""Brokers that are asked."""
MOST_CLIENTS = 20
"""Kinds of clients of a broker that are kept."""
AT_ONCE = 4
ORDERS = "ORDER_TOPIC_CONFIG"
_RUNTIME = re.compile(
    r"\[? *([0-9]{1,6}) days, ([0-9]{1,2}) hours, ([0-9]{1,2}) minutes, ([0-9]{1,2}) seconds *\]?"
)


async def lookups(server: Server) -> tuple[Lookup, ...]:
    """What the resolver says of the hosts of a configuration."""
    keys: dict[str, list[str]] = {}
    for host, key in server.hosts:
        if key not in keys.setdefault(host, []):
            keys[host].append(key)
    found: dict[str, Lookup] = {}

    async def one(host: str) -> None:
        found[host] = await _lookup(host, tuple(keys[host]))

    async with trio.open_nursery() as nursery:
        for host in keys:
            nursery.start_soon(one, host)
    return tuple(found[host] for host in keys)


async def _lookup(host: str, keys: tuple[str, ...]) -> Lookup:
    begun = time.monotonic()

    def ask() -> list[str]:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in infos))

    with trio.move_on_after(RESOLVE_SECONDS):
        try:
            addresses = await trio.to_thread.run_sync(ask, abandon_on_cancel=True)
        except (OSError, UnicodeError) as e:
            return Lookup(host, keys, problem=unreachable(host, e))
        return Lookup(host, keys, tuple(addresses), time.monotonic() - begun)
    return Lookup(host, keys, problem=f"no answer in {RESOLVE_SECONDS:g} s")


async def cluster_of(
    server: Server,
    admin: Admin | None,
    *,
    now: Callable[[], float] = time.time,
) -> Cluster:
    """What name servers and brokers answer. `admin`: None without name servers."""
    resolved = await lookups(server)
    if admin is None:
        return Cluster(lookups=resolved)
    name_servers = await _name_servers(server.name_servers, admin)
    known = sorted({broker for one in name_servers for broker in one.brokers})
    cluster = server.values.get("brokerClusterName") if server.is_broker else None
    asked = [b for b in known if cluster in (None, b[0])][:MOST_PEERS]
    peers: list[Peer] = []
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(name: str, number: int, address: str) -> None:
        async with limit:
            peers.append(await _peer(admin, name, number, address, now))

    async with trio.open_nursery() as nursery:
        for _, name, number, address in asked:
            nursery.start_soon(one, name, number, address)
    peers.sort(key=lambda peer: (peer.name, peer.number))
    return Cluster(name_servers, tuple(peers), resolved)


async def _name_servers(addresses: Sequence[str], admin: Admin) -> tuple[NameServer, ...]:
    first: Outcomes[NameServer] = await admin.link.on_each(
        addresses, lambda address: _name_server(admin, address)
    )
    there = [one.value for one in first if one.value is not None]
    if len(there) > 1:
        shared = sorted(frozenset.intersection(*(one.topics for one in there)))[:MOST_ROUTES]
    else:
        shared = []
    found = []
    for one in first:
        if one.value is None:
            problem = str(one.error).removeprefix(f"{one.target}: ")
            found.append(NameServer(one.target, problem))
            continue
        routes = await _routes(admin, one.target, shared)
        value = one.value
        found.append(NameServer(one.target, "", value.brokers, value.topics, routes, value.orders))
    return tuple(found)


async def _name_server(admin: Admin, address: str) -> NameServer:
    info = ClusterInfo.from_json(
        await admin.link.ask_json(address, RequestCode.GET_BROKER_CLUSTER_INFO)
    )
    brokers = frozenset(
        (b.cluster, b.broker_name, number, at)
        for b in info.brokers.values()
        for number, at in b.broker_addrs.items()
    )
    answer = await admin.link.ask(address, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    listed = fastjson.loads_object(answer.body).get("topicList") if answer.body else None
    topics = frozenset(str(t) for t in listed) if isinstance(listed, list) else frozenset[str]()
    return NameServer(address, "", brokers, topics, {}, await _orders(admin, address))


async def _orders(admin: Admin, address: str) -> Mapping[str, str] | None:
    try:
        found = await admin.link.ask_json(
            address, RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": ORDERS}
        )
    except QueryNotFoundError:
        return {}
    except PyrmqError:
        return None
    return {str(k): str(v) for k, v in values.table(found, "table").items()}


async def _routes(
    admin: Admin, address: str, topics: Sequence[str]
) -> dict[str, frozenset[tuple[str, int, int, int]]]:
    found = {}
    for topic in topics:
        try:
            answer = await admin.link.ask_json(
                address, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}
            )
            route = TopicRoute.from_json(answer)
        except TopicNotExistError:
            route = TopicRoute()
        except PyrmqError:
            continue
        found[topic] = frozenset(
            (q.broker_name, q.read_queue_nums, q.write_queue_nums, q.perm) for q in route.queues
        )
    return found


async def _peer(
    admin: Admin, name: str, number: int, address: str, now: Callable[[], float]
) -> Peer:
    try:
        answer = await admin.link.ask_json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    except PyrmqError as e:
        return Peer(name, number, address, str(e).removeprefix(f"{address}: "))
    runtime = {str(k): str(v) for k, v in values.table(answer, "table").items()}
    clients: Counter[str] = Counter()
    try:
        for group in (await admin.producers.all(address)).values():
            clients.update(f"{p.language} {p.version_name}" for p in group)
    except PyrmqError:
        pass
    version = runtime.get("brokerVersionDesc", "")
    return Peer(
        name, number, address, "", version, ahead_of(runtime, now()),
        dict(clients.most_common(MOST_CLIENTS)),
    )  # fmt: skip


def ahead_of(runtime: Mapping[str, str], now: float) -> float | None:
    """How far a broker's clock is ahead, in seconds: it says when it started, and for how many
    whole seconds it has run since. None if it does not say so."""
    boot, ran = runtime.get("bootTimestamp", ""), _RUNTIME.search(runtime.get("runtime", ""))
    if not boot.isdecimal() or len(boot) > 15 or ran is None:
        return None
    days, hours, minutes, seconds = map(int, ran.groups())
    there = int(boot) / 1000 + ((days * 24 + hours) * 60 + minutes) * 60 + seconds + 0.5
    return there - now
