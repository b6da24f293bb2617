"""Where a topic's queues are: TopicRouteData and its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrmq.errors import ProtocolError
from pyrmq.model.message import MessageQueue
from pyrmq.model.topic import PERM_READ, PERM_WRITE, as_int

MASTER_ID = 0
DEFAULT_QUEUES = 4
"""defaultTopicQueueNums: queues that a producer asks for when its topic is new."""
MAX_ROUTE_QUEUES = 1 << 20
"""Most queues, to read or to write, of a route that is believed. A broker has up to 65,536 of a
topic; each becomes an object."""


@dataclass(slots=True)
class QueueData:
    """Queue counts of a topic on one broker name."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "brokerName": self.broker_name,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }


@dataclass(slots=True)
class BrokerData:
    """Addresses of one broker name by broker id (0 is the master)."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone: str = ""
    """zoneName: a room or a data centre; clients may ask for brokers of theirs only."""

    def to_json(self) -> dict[str, Any]:
        return {
            "brokerAddrs": dict(sorted(self.broker_addrs.items())),
            "brokerName": self.broker_name,
            "cluster": self.cluster,
            "enableActingMaster": self.enable_acting_master,
            "zoneName": self.zone or None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BrokerData:
        addrs = value.get("brokerAddrs")
        return cls(
            cluster=str(value.get("cluster", "")),
            broker_name=str(value.get("brokerName", "")),
            broker_addrs={as_int(k, -1): str(a) for k, a in addrs.items()}
            if isinstance(addrs, dict)
            else {},
        )


@dataclass(slots=True)
class TopicRoute:
    """What the name server answers for a topic."""

    queues: list[QueueData] = field(default_factory=list)
    brokers: list[BrokerData] = field(default_factory=list)
    order_conf: str | None = None
    """orderTopicConf: which queues are sent to, and in which order, such as `broker-a:8`."""

    def to_json(self) -> dict[str, Any]:
        return {
            "brokerDatas": [b.to_json() for b in self.brokers],
            "filterServerTable": {},
            "orderTopicConf": self.order_conf,
            "queueDatas": [q.to_json() for q in self.queues],
        }

    @classmethod
    def from_json(cls, value: Any) -> TopicRoute:
        """ProtocolError for what is no object, or has more queues than a route can have."""
        if not isinstance(value, dict):
            raise ProtocolError("a topic route is a JSON object")
        route = cls()
        for q in _objects(value.get("queueDatas")):
            route.queues.append(
                QueueData(
                    broker_name=str(q.get("brokerName", "")),
                    read_queue_nums=as_int(q.get("readQueueNums"), 0),
                    write_queue_nums=as_int(q.get("writeQueueNums"), 0),
                    perm=as_int(q.get("perm"), 0),
                    topic_sys_flag=as_int(q.get("topicSysFlag", q.get("topicSynFlag")), 0),
                )
            )
        for what in ("read_queue_nums", "write_queue_nums"):
            many = sum(max(getattr(q, what), 0) for q in route.queues)
            if many > MAX_ROUTE_QUEUES:
                raise ProtocolError(f"a topic route with {many} queues")
        route.brokers += [BrokerData.from_json(b) for b in _objects(value.get("brokerDatas"))]
        conf = value.get("orderTopicConf")
        if conf:
            route.order_conf = str(conf)
            _order(route.order_conf)
        return route

    def master_of(self, broker_name: str) -> str | None:
        """Address of a broker name's master."""
        for b in self.brokers:
            if b.broker_name == broker_name:
                return b.broker_addrs.get(MASTER_ID)
        return None

    def address_of(self, broker_name: str, *, master_only: bool = False) -> str | None:
        """Address of a broker name's master, or, unless `master_only`, of its first replica where
        it has none."""
        for b in self.brokers:
            if b.broker_name == broker_name and b.broker_addrs:
                if MASTER_ID in b.broker_addrs:
                    return b.broker_addrs[MASTER_ID]
                if not master_only:
                    return b.broker_addrs[min(b.broker_addrs)]
        return None

    def masters(self) -> list[str]:
        """Addresses of all masters."""
        return [b.broker_addrs[MASTER_ID] for b in self.brokers if MASTER_ID in b.broker_addrs]

    def replicas_of(self, broker_name: str) -> dict[int, str]:
        """Addresses of a broker name by broker id, the smallest id first."""
        for b in self.brokers:
            if b.broker_name == broker_name:
                return {i: a for i, a in sorted(b.broker_addrs.items()) if i >= MASTER_ID}
        return {}

    def addresses(self) -> list[str]:
        """Addresses of all masters, sorted, and then of all slaves, sorted."""
        masters = set(self.masters())
        every = {a for b in self.brokers for i, a in b.broker_addrs.items() if i >= MASTER_ID}
        return sorted(masters) + sorted(every - masters)

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that may be sent to: writable, on brokers with a master, by broker name. With an
        order configuration those that it names, whatever else is said."""
        if self.order_conf:
            return [
                MessageQueue(topic, name, n)
                for name, many in _order(self.order_conf)
                for n in range(many)
            ]
        return [
            MessageQueue(topic, q.broker_name, n)
            for q in sorted(self.queues, key=lambda q: q.broker_name)
            if q.perm & PERM_WRITE and self.master_of(q.broker_name) is not None
            for n in range(q.write_queue_nums)
        ]

    def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that may be read."""
        return [
            MessageQueue(topic, q.broker_name, n)
            for q in self.queues
            if q.perm & PERM_READ
            for n in range(q.read_queue_nums)
        ]


@dataclass(slots=True)
class ClusterInfo:
    """What the name server answers for all clusters (GET_BROKER_CLUSTER_INFO)."""

    clusters: set[str] = field(default_factory=set)
    """Names of clusters."""
    brokers: dict[str, BrokerData] = field(default_factory=dict)
    """By broker name."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ClusterInfo:
        clusters, brokers = value.get("clusterAddrTable"), value.get("brokerAddrTable")
        return cls(
            {str(k) for k in clusters} if isinstance(clusters, dict) else set(),
            {str(k): BrokerData.from_json(b) for k, b in brokers.items() if isinstance(b, dict)}
            if isinstance(brokers, dict)
            else {},
        )

    def masters(self, cluster: str | None = None) -> list[str]:
        """Addresses of the masters of all clusters, or of one."""
        return [
            b.broker_addrs[MASTER_ID]
            for b in self.brokers.values()
            if MASTER_ID in b.broker_addrs and cluster in (None, b.cluster)
        ]


def auto_create_route(template: TopicRoute) -> TopicRoute:
    """The route of a topic that does not exist yet, from that of TBW102: brokers that create
    topics on demand make at most so many queues as a producer asks for."""
    queues = [
        QueueData(q.broker_name, n, n, q.perm, q.topic_sys_flag)
        for q in template.queues
        for n in [min(DEFAULT_QUEUES, q.write_queue_nums)]
    ]
    return TopicRoute(queues, template.brokers)


def next_queue(
    queues: Sequence[MessageQueue], turn: Iterator[int], avoid: str | None = None
) -> MessageQueue:
    """The next of some queues in turn; not of the broker `avoid`, which has just failed, if there
    is another one."""
    if avoid is not None:
        queues = [q for q in queues if q.broker_name != avoid] or queues
    return queues[next(turn) % len(queues)]


def _order(conf: str) -> list[tuple[str, int]]:
    """Broker names and numbers of queues, from `broker-a:8;broker-b:8`. ProtocolError."""
    found: list[tuple[str, int]] = []
    for part in filter(str.strip, conf.split(";")):
        name, _, many = part.strip().rpartition(":")
        if not name or not many.isdecimal() or len(many) > 7:
            raise ProtocolError(f"an order configuration is NAME:NUMBER;…, not {conf[:64]!r}")
        found.append((name, int(many)))
    if sum(many for _, many in found) > MAX_ROUTE_QUEUES:
        raise ProtocolError("an order configuration with too many queues")
    return found


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
