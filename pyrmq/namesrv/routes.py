"""Who is where: the route tables. No I/O, no clock of its own. [RouteInfoManager]"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyrmq.errors import ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.route import MASTER_ID, BrokerData, QueueData, TopicRoute
from pyrmq.model.topic import DataVersion, TopicConfig

DEFAULT_TIMEOUT_MS = 120_000


@dataclass(slots=True)
class Live:
    """A broker address that is heard of; times in seconds of the server's clock."""

    last_update: float
    timeout: float
    version: DataVersion
    ha_address: str
    owner: object | None = None
    """The connection it registered on; its end unregisters the broker."""


@dataclass(slots=True)
class Registration:
    """What REGISTER_BROKER states."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    topics: dict[str, TopicConfig]
    version: DataVersion
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    enable_acting_master: bool = False


@dataclass(slots=True)
class Routes:
    topics: dict[str, dict[str, QueueData]] = field(default_factory=dict)
    brokers: dict[str, BrokerData] = field(default_factory=dict)
    clusters: dict[str, set[str]] = field(default_factory=dict)
    live: dict[tuple[str, str], Live] = field(default_factory=dict)
    """By (cluster, address)."""

    def register(self, r: Registration, now: float, owner: object | None) -> str | None:
        """Takes a registration; returns the master's address for a slave that has one."""
        broker = self.brokers.get(r.broker_name)
        first = broker is None or r.broker_id not in broker.broker_addrs
        if broker is None:
            broker = BrokerData(r.cluster, r.broker_name)
        known = broker.broker_addrs.get(r.broker_id)
        if known is not None and known != r.address:
            other = self.live.get((r.cluster, known))
            if other is not None and other.version.state_version > r.version.state_version:
                return None  # the newcomer is an old incarnation
        if first and len(r.topics) == 1 and r.address not in broker.broker_addrs.values():
            raise ResponseError(
                "a first registration with one topic only is refused", ResponseCode.SYSTEM_ERROR
            )
        self.clusters.setdefault(r.cluster, set()).add(r.broker_name)
        self.brokers[r.broker_name] = broker
        broker.cluster = r.cluster
        broker.enable_acting_master = r.enable_acting_master
        for other_id in [i for i, a in broker.broker_addrs.items() if a == r.address]:
            del broker.broker_addrs[other_id]
        broker.broker_addrs[r.broker_id] = r.address
        last = self.live.get((r.cluster, r.address))
        prime = r.enable_acting_master and r.broker_id == min(broker.broker_addrs)
        if r.broker_id == MASTER_ID or prime:
            changed = first or last is None or last.version != r.version
            for name, topic in r.topics.items():
                if changed or r.broker_name not in self.topics.get(name, {}):
                    self._set_queues(r, name, topic)
        self.live[r.cluster, r.address] = Live(
            now, r.timeout_ms / 1000, r.version, r.ha_address, owner
        )
        return broker.broker_addrs.get(MASTER_ID) if r.broker_id != MASTER_ID else None

    def _set_queues(self, r: Registration, name: str, topic: TopicConfig) -> None:
        self.topics.setdefault(name, {})[r.broker_name] = QueueData(
            r.broker_name,
            topic.read_queue_nums,
            topic.write_queue_nums,
            topic.perm,
            topic.topic_sys_flag,
        )

    def touch(self, cluster: str, address: str, now: float) -> None:
        """A sign of life."""
        live = self.live.get((cluster, address))
        if live is not None:
            live.last_update = now

    def unregister(self, cluster: str, broker_name: str, broker_id: int, address: str) -> None:
        """Takes a broker out, and with its last address everything it had."""
        self.live.pop((cluster, address), None)
        broker = self.brokers.get(broker_name)
        if broker is None:
            return
        if broker.broker_addrs.get(broker_id) == address:
            del broker.broker_addrs[broker_id]
        if broker.broker_addrs:
            return
        del self.brokers[broker_name]
        names = self.clusters.get(cluster, set())
        names.discard(broker_name)
        if not names:
            self.clusters.pop(cluster, None)
        for topic in [t for t, queues in self.topics.items() if broker_name in queues]:
            del self.topics[topic][broker_name]
            if not self.topics[topic]:
                del self.topics[topic]

    def _drop(self, keys: Iterable[tuple[str, str]]) -> list[str]:
        dropped = []
        for cluster, address in keys:
            self.live.pop((cluster, address), None)
            for broker in list(self.brokers.values()):
                for broker_id, at in list(broker.broker_addrs.items()):
                    if at == address and broker.cluster == cluster:
                        self.unregister(cluster, broker.broker_name, broker_id, address)
                        dropped.append(f"{broker.broker_name}:{broker_id} at {address}")
        return dropped

    def expire(self, now: float) -> list[str]:
        """Drops brokers that were silent for too long; says which."""
        return self._drop([k for k, v in self.live.items() if v.last_update + v.timeout < now])

    def owner_gone(self, owner: object) -> list[str]:
        """Drops what was registered on a connection that ended; says which."""
        return self._drop([k for k, v in self.live.items() if v.owner is owner])

    def route(self, topic: str) -> TopicRoute | None:
        """Where a topic is, None if no live broker has it."""
        queues = [q for n, q in self.topics.get(topic, {}).items() if n in self.brokers]
        if not queues:
            return None
        return TopicRoute(queues, [self.brokers[q.broker_name] for q in queues])

    def cluster_info(self) -> dict[str, object]:
        """ClusterInfo for GET_BROKER_CLUSTER_INFO."""
        return {
            "brokerAddrTable": {n: b.to_json() for n, b in sorted(self.brokers.items())},
            "clusterAddrTable": {c: sorted(names) for c, names in sorted(self.clusters.items())},
        }
