"""Answers that are made from the route tables. [RouteInfoManager, ZoneRouteRPCHook]"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable

from pyrmq.model.broker_name import MEMBER_TOPIC_PREFIX
from pyrmq.model.route import MASTER_ID, BrokerData, QueueData, TopicRoute
from pyrmq.model.topic import PERM_WRITE
from pyrmq.namesrv.routes import SOME, Routes
from pyrmq.net import fastjson
from pyrmq.net.server.turns import Steps

UNIT = 1
"""Bits of topicSysFlag. [TopicSysFlag]"""
UNIT_SUB = 2
FEW = 8
"""Brokers that are encoded in one step."""


def route_of(routes: Routes, topic: str, *, acting_masters: bool = False) -> TopicRoute | None:
    """Where a topic is, None if no live broker has it. A group with acting masters and without a
    master takes no messages. `acting_masters`: its smallest broker id is shown as the master."""
    route = TopicRoute()
    for name, (read, write, perm, flag) in routes.topics.get(topic, {}).items():
        broker = routes.brokers.get(name)
        if broker is None or topic not in routes.topics_of.get(name, ()):
            continue
        if broker.enable_acting_master and MASTER_ID not in broker.broker_addrs:
            perm &= ~PERM_WRITE
            if acting_masters and not topic.startswith(MEMBER_TOPIC_PREFIX):
                broker = _with_acting_master(broker)
        route.queues.append(QueueData(name, read, write, perm, flag))
        route.brokers.append(broker)
    return route if route.queues else None


def _with_acting_master(broker: BrokerData) -> BrokerData:
    addresses = dict(broker.broker_addrs)
    addresses[MASTER_ID] = addresses.pop(min(addresses))
    return dataclasses.replace(broker, broker_addrs=addresses)


def of_zone(route: TopicRoute, zone: str) -> TopicRoute:
    """The brokers of a zone, and those without a master: their messages are read from anywhere."""
    kept = [
        b
        for b in route.brokers
        if MASTER_ID not in b.broker_addrs or b.zone.lower() == zone.lower()
    ]
    names = {b.broker_name for b in kept}
    return TopicRoute([q for q in route.queues if q.broker_name in names], kept, route.order_conf)


def cluster_info(routes: Routes) -> Steps[bytes]:
    """ClusterInfo, encoded."""
    brokers = sorted(routes.brokers.items())
    clusters = {c: sorted(names) for c, names in sorted(routes.clusters.items())}
    members = []
    for n, (name, broker) in enumerate(brokers, 1):
        members.append(fastjson.member(name, broker.to_json()))
        if n % FEW == 0:
            yield
    tail = fastjson.dumps({"clusterAddrTable": clusters})[1:]
    return b'{"brokerAddrTable":{%b},%b' % (b",".join(members), tail)


def member_group(routes: Routes, cluster: str, broker_name: str) -> dict[str, object]:
    """BrokerMemberGroup; without addresses for a broker name that is unknown."""
    broker = routes.brokers.get(broker_name)
    addresses = broker.broker_addrs if broker is not None and broker.cluster == cluster else {}
    return {
        "brokerAddrs": dict(sorted(addresses.items())),
        "brokerName": broker_name,
        "cluster": cluster,
    }


def topic_list(names: Iterable[str], broker_address: str | None = None) -> Steps[bytes]:
    """TopicList, encoded."""
    wanted = list(names)
    parts = []
    for start in range(0, len(wanted), SOME):
        parts.append(fastjson.dumps(wanted[start : start + SOME])[1:-1])
        yield
    head = fastjson.dumps({"brokerAddr": broker_address})[1:-1]
    return b'{%b"topicList":[%b]}' % (head + b"," if head else b"", b",".join(parts))


def list_of(found: Steps[Collection[str]]) -> Steps[bytes]:
    """The same of what is to be found first."""
    names = yield from found
    return (yield from topic_list(names))


def topics_with(routes: Routes, fits: Callable[[int], object]) -> Steps[list[str]]:
    """Topics whose topicSysFlag fits; that of the first broker counts."""
    found = []
    for n, (topic, queues) in enumerate(list(routes.topics.items()), 1):
        first = next(iter(queues.values()), None)
        if first is not None and fits(first[3]):
            found.append(topic)
        if n % SOME == 0:
            yield
    return found


def topics_of_cluster(routes: Routes, cluster: str) -> Steps[set[str]]:
    """Topics of all brokers of a cluster; none for one that is unknown."""
    found: set[str] = set()
    for name in sorted(routes.clusters.get(cluster, ())):
        found |= routes.topics_of.get(name, set())
        yield
    return found


def system_topics(routes: Routes) -> tuple[list[str], str | None]:
    """Topics that clusters and brokers are named after, and a broker to ask for the others."""
    names = [*sorted(routes.clusters), *sorted(routes.brokers)]
    for _, broker in sorted(routes.brokers.items()):
        if broker.broker_addrs:
            return names, broker.broker_addrs[min(broker.broker_addrs)]
    return names, None
