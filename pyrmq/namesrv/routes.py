"""The route tables: which broker is where, with which topics. No I/O, no clock.
[RouteInfoManager]

What concerns all topics of a broker is done in steps (`pyrmq.net.server.turns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.route import MASTER_ID, BrokerData
from pyrmq.model.topic import DataVersion
from pyrmq.namesrv.register_body import Queues
from pyrmq.net.server.turns import Steps

DEFAULT_TIMEOUT_MS = 120_000
MAX_BROKERS = 64
"""Most brokers that register on one connection."""
MAX_BROKERS_OF_ALL = 1 << 14
"""Most broker addresses."""
MAX_TOPICS = 1 << 17
"""Most topics of a broker name."""
MAX_TOPICS_OF_ALL = 1 << 22
"""Most topics of all broker names, each counted for itself."""
SOME = 64
"""Topics that are changed in one step."""


@dataclass(slots=True)
class Live:
    """A broker address that is heard of; times in seconds of the server's clock."""

    last_update: float
    timeout: float
    version: DataVersion
    ha_address: str
    owner: object | None = None
    """The connection it registered on; its end unregisters the broker."""
    finished: bool = False
    """Whether all topics of its last registration were taken."""
    taken: bytes = b""
    """The digest of a body all of whose topics are in the table; empty: none is known to be."""


@dataclass(slots=True)
class Registration:
    """The fields of a REGISTER_BROKER."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    topics: dict[str, Queues]
    version: DataVersion
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    enable_acting_master: bool | None = None
    """None: a broker before 5.0, which knows of no acting masters."""
    zone: str = ""
    static: bool = False
    """Whether it has static topics."""
    digest: bytes = b""
    """Of its body; empty: unknown."""


@dataclass(slots=True)
class Admitted:
    """A broker whose topics are to be taken."""

    broker_name: str
    key: tuple[str, str]
    live: Live
    master: str | None = None
    """The master's address, for a slave."""
    changes: Iterable[tuple[str, Queues | None]] = ()
    """None: the topic is gone."""
    digest: bytes = b""
    """Of the body that they are from; empty: its topics are not taken."""


@dataclass(frozen=True, slots=True)
class NewMinimum:
    """The smallest broker id of a group has changed. [NotifyMinBrokerIdChangeRequestHeader]"""

    addresses: dict[int, str]
    """The addresses that are left, by broker id."""
    offline: str | None = None
    """The address that was the smallest and has gone."""
    ha_address: str | None = None
    """Of the new one."""


@dataclass(slots=True)
class Routes:
    topics: dict[str, dict[str, Queues]] = field(default_factory=dict)
    """By topic and broker name."""
    topics_of: dict[str, set[str]] = field(default_factory=dict)
    """By broker name."""
    brokers: dict[str, BrokerData] = field(default_factory=dict)
    clusters: dict[str, set[str]] = field(default_factory=dict)
    live: dict[tuple[str, str], Live] = field(default_factory=dict)
    """By (cluster, address)."""
    new_minima: list[NewMinimum] = field(default_factory=list)
    """Of groups with acting masters, for the one who tells their members."""
    changes: int = field(default=0, compare=False)
    """Grows with every change of brokers and their addresses."""
    _gone: list[tuple[str, set[str]]] = field(default_factory=list)
    """Topics of broker names that are gone: they are in no route any more. See `sweep`."""
    _names_at: dict[str, set[str]] = field(default_factory=dict)
    """Broker names by address."""
    _owned: dict[object, set[tuple[str, str]]] = field(default_factory=dict)
    """Keys of `live`, by the connection that they registered on."""
    _topics_of_all: int = 0
    """How many topics the broker names have, each counted for itself."""

    @property
    def rows(self) -> int:
        """How many rows there are: of topics at brokers, and of brokers."""
        return self._topics_of_all + len(self.live)

    def register(
        self, r: Registration, now: float, owner: object | None, *, delete_others: bool = False
    ) -> Admitted | None:
        """Takes a broker, and says what else to `take`; None for an old incarnation, which is
        ignored. `delete_others`: topics that are not in the registration are deleted."""
        broker = self.brokers.get(r.broker_name)
        known = broker.broker_addrs.get(r.broker_id) if broker is not None else None
        if known is not None and known != r.address:
            other = self.live.get((r.cluster, known))
            if other is not None and other.version.state_version > r.version.state_version:
                return None
        self._check(r, broker, owner)
        self._take_address(r)
        broker = self.brokers.setdefault(r.broker_name, BrokerData(r.cluster, r.broker_name))
        addresses = broker.broker_addrs
        self.clusters.setdefault(r.cluster, set()).add(r.broker_name)
        acting = bool(r.enable_acting_master)
        if (broker.zone, broker.enable_acting_master) != (r.zone, acting):
            broker.zone, broker.enable_acting_master = r.zone, acting
            self.changes += 1
        smallest = min(addresses, default=MASTER_ID)
        self._set_address(broker, r.broker_id, r.address)
        if r.broker_id < smallest:
            self._note_minimum(broker, NewMinimum(dict(addresses), None, r.ha_address))
        key = (r.cluster, r.address)
        last = self._forget_live(key)
        live = self.live[key] = Live(now, r.timeout_ms / 1000, r.version, r.ha_address, owner)
        if owner is not None:
            self._owned.setdefault(owner, set()).add(key)
        admitted = Admitted(r.broker_name, key, live)
        if r.broker_id != MASTER_ID:
            admitted.master = addresses.get(MASTER_ID)
        is_prime = r.enable_acting_master is not None and r.broker_id == min(addresses)
        if r.broker_id == MASTER_ID or is_prime:
            changed = (
                known is None or last is None or last.version != r.version or not last.finished
            )
            admitted.changes = self._changes(r, changed, delete_others)
            admitted.digest = r.digest
        return admitted

    def again(self, r: Registration) -> Registration | None:
        """The same registration without its topics, which were not read, if it says what is known:
        its body has the digest of the one that was taken last, and no topic was deleted since."""
        live = self.live.get((r.cluster, r.address))
        broker = self.brokers.get(r.broker_name)
        if (
            live is None
            or not live.taken
            or live.taken != r.digest
            or broker is None
            or broker.broker_addrs.get(r.broker_id) != r.address
        ):
            return None
        return replace(r, topics={}, version=live.version)

    def _check(self, r: Registration, broker: BrokerData | None, owner: object | None) -> None:
        """ResponseError for what may not register."""
        addresses = broker.broker_addrs if broker is not None else {}
        known = r.broker_id in addresses or r.address in addresses.values()
        if not known and len(r.topics) == 1:
            raise ResponseError(
                "a first registration with one topic only is refused", ResponseCode.SYSTEM_ERROR
            )
        if (
            broker is not None
            and broker.cluster != r.cluster
            and {*addresses.values()} - {r.address}
        ):
            raise InvalidParameterError(
                f"broker {r.broker_name} is in cluster {broker.cluster}: give this one another name"
            )
        key = (r.cluster, r.address)
        if owner is not None and len(self._owned.get(owner, set()) - {key}) >= MAX_BROKERS:
            raise InvalidParameterError(f"more than {MAX_BROKERS} brokers on one connection")
        if key not in self.live and len(self.live) >= MAX_BROKERS_OF_ALL:
            raise InvalidParameterError(f"there are {MAX_BROKERS_OF_ALL} brokers already")
        self._check_room(r.broker_name, r.topics.keys())

    def _check_room(self, broker_name: str, topics: Set[str]) -> None:
        had = self.topics_of.get(broker_name, set())
        others = self._topics_of_all - len(had)
        limit = min(MAX_TOPICS, MAX_TOPICS_OF_ALL - others)
        if len(had) + len(topics) > limit and len(had | topics) > limit:
            raise InvalidParameterError(
                f"broker {broker_name} would have more topics than there is room for: at most "
                f"{MAX_TOPICS}, and {MAX_TOPICS_OF_ALL} of all brokers together"
            )

    def _take_address(self, r: Registration) -> None:
        """No two brokers have one address: who had it under another name or cluster has gone."""
        for name in list(self._names_at.get(r.address, ())):
            broker = self.brokers[name]
            if (broker.broker_name, broker.cluster) == (r.broker_name, r.cluster):
                continue
            for broker_id, address in list(broker.broker_addrs.items()):
                if address == r.address:
                    self.unregister(broker.cluster, broker.broker_name, broker_id, address)

    def _set_address(self, broker: BrokerData, broker_id: int, address: str) -> None:
        """Under this id, and under no other of the same broker name."""
        addresses = broker.broker_addrs
        if addresses.get(broker_id) == address:
            return
        for other_id in [i for i, a in addresses.items() if a == address or i == broker_id]:
            self._del_address(broker, other_id)
        addresses[broker_id] = address
        self._names_at.setdefault(address, set()).add(broker.broker_name)
        self.changes += 1

    def _del_address(self, broker: BrokerData, broker_id: int) -> None:
        address = broker.broker_addrs.pop(broker_id)
        names = self._names_at[address]
        names.discard(broker.broker_name)
        if not names:
            del self._names_at[address]
        self.changes += 1

    def _forget_live(self, key: tuple[str, str]) -> Live | None:
        live = self.live.pop(key, None)
        if live is not None and live.owner is not None:
            owned = self._owned[live.owner]
            owned.discard(key)
            if not owned:
                del self._owned[live.owner]
        return live

    def _changes(
        self, r: Registration, changed: bool, delete_others: bool
    ) -> Iterable[tuple[str, Queues | None]]:
        had = self.topics_of.get(r.broker_name, set())
        gone = had - r.topics.keys() if delete_others and not r.static else ()
        names = r.topics if changed else r.topics.keys() - had
        return chain(((name, None) for name in gone), ((name, r.topics[name]) for name in names))

    def take(self, admitted: Admitted) -> Steps[bool]:
        """Takes the topics of a broker; False if it has registered anew or gone meanwhile."""
        for n, (topic, queues) in enumerate(admitted.changes):
            if n % SOME == 0:
                yield
                if self.live.get(admitted.key) is not admitted.live:
                    return False
            if queues is None:
                self.delete_queues(topic, admitted.broker_name)
            else:
                self._set(topic, admitted.broker_name, queues)
        admitted.live.finished, admitted.live.taken = True, admitted.digest
        return True

    def add_topic(self, topic: str, queues: dict[str, Queues]) -> None:
        """A topic of one or several brokers, which are known. [registerTopic]"""
        for name in queues:
            if name not in self.brokers:
                raise InvalidParameterError(f"topic {topic}: broker {name} is not registered")
            self._check_room(name, {topic})
        for name, numbers in queues.items():
            self._set(topic, name, numbers)

    def _set(self, topic: str, broker_name: str, queues: Queues) -> None:
        self.topics.setdefault(topic, {})[broker_name] = queues
        had = self.topics_of.setdefault(broker_name, set())
        self._topics_of_all += topic not in had
        had.add(topic)

    def delete_queues(self, topic: str, broker_name: str) -> None:
        had = self.topics_of.get(broker_name, set())
        self._topics_of_all -= topic in had
        had.discard(topic)
        self._forget(topic, broker_name)
        broker = self.brokers.get(broker_name)
        for address in broker.broker_addrs.values() if broker is not None else ():
            live = self.live.get((broker.cluster, address)) if broker is not None else None
            if live is not None:
                live.taken = b""

    def _forget(self, topic: str, broker_name: str) -> None:
        queues = self.topics.get(topic)
        if queues is not None and queues.pop(broker_name, None) is not None and not queues:
            del self.topics[topic]

    def change_perm(self, broker_name: str, keep: int, add: int = 0) -> Steps[int]:
        """Clears and sets bits of the permissions of a broker name's topics; returns how many it
        has. [operateWritePermOfBroker]"""
        many = 0
        for topic in list(self.topics_of.get(broker_name, ())):
            queues = self.topics.get(topic, {})
            if broker_name in queues:
                read, write, perm, flag = queues[broker_name]
                queues[broker_name] = read, write, perm & keep | add, flag
                many += 1
            if many % SOME == 0:
                yield
        return many

    def clusters_met(self, broker_name: str, address: str) -> set[str]:
        """Clusters in which a registration under this name, at this address, changes something."""
        names = {broker_name, *self._names_at.get(address, ())}
        return {self.brokers[name].cluster for name in names if name in self.brokers}

    def touch(self, cluster: str, address: str, now: float) -> Live | None:
        """A sign of life."""
        live = self.live.get((cluster, address))
        if live is not None:
            live.last_update = now
        return live

    def unregister(self, cluster: str, broker_name: str, broker_id: int, address: str) -> None:
        """Takes a broker out, and with its last address everything it had."""
        broker = self.brokers.get(broker_name)
        if (
            broker is None
            or broker.cluster != cluster
            or broker.broker_addrs.get(broker_id) != address
        ):
            return
        self._forget_live((cluster, address))
        was_smallest = broker_id == min(broker.broker_addrs)
        self._del_address(broker, broker_id)
        if broker.broker_addrs:
            if was_smallest:
                self._note_minimum(broker, NewMinimum(dict(broker.broker_addrs), address))
            return
        del self.brokers[broker_name]
        names = self.clusters.get(cluster, set())
        names.discard(broker_name)
        if not names:
            self.clusters.pop(cluster, None)
        topics = self.topics_of.pop(broker_name, set())
        self._topics_of_all -= len(topics)
        self._gone.append((broker_name, topics))

    def _note_minimum(self, broker: BrokerData, change: NewMinimum) -> None:
        if broker.enable_acting_master:
            self.new_minima.append(change)

    def sweep(self) -> Steps[None]:
        """Removes topics of broker names that are gone; several may do that together."""
        while self._gone:
            name, topics = self._gone[-1]
            for topic in [topics.pop() for _ in range(min(SOME, len(topics)))]:
                # The broker may have come back with it.
                if topic not in self.topics_of.get(name, ()):
                    self._forget(topic, name)
            if topics:
                yield
            else:
                self._gone.pop()

    def _drop(self, keys: Iterable[tuple[str, str]]) -> list[str]:
        return [text for key in keys for text in self._drop_one(*key)]

    def _drop_one(self, cluster: str, address: str) -> Iterator[str]:
        self._forget_live((cluster, address))
        for name in list(self._names_at.get(address, ())):
            broker = self.brokers[name]
            for broker_id, at in list(broker.broker_addrs.items()):
                if at == address and broker.cluster == cluster:
                    self.unregister(cluster, broker.broker_name, broker_id, address)
                    yield f"{broker.broker_name}:{broker_id} at {address}"

    def expire(self, now: float) -> list[str]:
        """Drops brokers that were silent for too long; says which."""
        return self._drop([k for k, v in self.live.items() if v.last_update + v.timeout < now])

    def owner_gone(self, owner: object) -> list[str]:
        """Drops what was registered on a connection that ended; says which."""
        return self._drop(list(self._owned.get(owner, ())))
