"""Where a topic's queues are: TopicRouteData and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrmq.errors import ProtocolError
from pyrmq.model.message import MessageQueue
from pyrmq.model.topic import PERM_READ, PERM_WRITE, as_int

MASTER_ID = 0


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

    def to_json(self) -> dict[str, Any]:
        return {
            "brokerAddrs": dict(sorted(self.broker_addrs.items())),
            "brokerName": self.broker_name,
            "cluster": self.cluster,
            "enableActingMaster": self.enable_acting_master,
        }


@dataclass(slots=True)
class TopicRoute:
    """What the name server answers for a topic."""

    queues: list[QueueData] = field(default_factory=list)
    brokers: list[BrokerData] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "brokerDatas": [b.to_json() for b in self.brokers],
            "filterServerTable": {},
            "queueDatas": [q.to_json() for q in self.queues],
        }

    @classmethod
    def from_json(cls, value: Any) -> TopicRoute:
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
        for b in _objects(value.get("brokerDatas")):
            addrs = b.get("brokerAddrs")
            route.brokers.append(
                BrokerData(
                    cluster=str(b.get("cluster", "")),
                    broker_name=str(b.get("brokerName", "")),
                    broker_addrs={as_int(k, -1): str(a) for k, a in addrs.items()}
                    if isinstance(addrs, dict)
                    else {},
                )
            )
        return route

    def master_of(self, broker_name: str) -> str | None:
        """Address of a broker name's master."""
        for b in self.brokers:
            if b.broker_name == broker_name:
                return b.broker_addrs.get(MASTER_ID)
        return None

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that may be sent to: writable, on brokers with a master, by broker name."""
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


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
