"""The route tables beside a model that keeps one flat list of facts.

The model knows which address each (broker name, id) has, when an address was last heard of and on
which connection, and the queue count each broker name gave each topic. Everything the name server
answers must follow from that.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyrmq.errors import ResponseError
from pyrmq.model.topic import DataVersion
from pyrmq.namesrv.routes import Registration, Routes
from pyrmq.namesrv.views import cluster_info, route_of
from pyrmq.net import fastjson
from pyrmq.net.server.turns import finish

NAMES = st.sampled_from(["a", "b"])
IDS = st.sampled_from([0, 1])
PORTS = st.sampled_from([1, 2])
TOPICS = st.dictionaries(st.sampled_from("TUV"), st.integers(1, 4))
CONNECTIONS = st.integers(0, 2)
CLUSTER = {"a": "C1", "b": "C2"}
TIMEOUT = 10


@dataclass
class Heard:
    at: float
    connection: object
    version: DataVersion


class RouteMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.routes = Routes()
        self.now = 0.0
        self.owners = [object() for _ in range(3)]
        self.address: dict[tuple[str, int], str] = {}
        self.heard: dict[str, Heard] = {}
        self.queues: dict[tuple[str, str], int] = {}

    @rule(
        name=NAMES,
        broker_id=IDS,
        port=PORTS,
        topics=TOPICS,
        counter=st.integers(1, 2),
        state=st.integers(0, 1),
        connection=CONNECTIONS,
    )
    def register(
        self,
        name: str,
        broker_id: int,
        port: int,
        topics: dict[str, int],
        counter: int,
        state: int,
        connection: int,
    ) -> None:
        address, owner = f"{name}:{port}", self.owners[connection]
        version = DataVersion(0, counter, state)
        queues = {t: (n, n, 6, 0) for t, n in topics.items()}
        stated = Registration(
            CLUSTER[name], name, broker_id, address, "", queues, version, TIMEOUT * 1000
        )
        refused, master = False, None
        try:
            admitted = self.routes.register(stated, self.now, owner)
            if admitted is not None:
                assert finish(self.routes.take(admitted))
                master = admitted.master
        except ResponseError:
            refused = True
        there = self.address.get((name, broker_id))
        other = self.heard.get(there or "")
        if there not in (None, address) and other and other.version.state_version > state:
            assert not refused
            return
        known = address in [a for (n, _), a in self.address.items() if n == name]
        assert refused == (there is None and not known and len(topics) == 1)
        if refused:
            return
        for key in [k for k, a in self.address.items() if k[0] == name and a == address]:
            del self.address[key]
        self.address[name, broker_id] = address
        if broker_id == 0:
            last = self.heard.get(address)
            news = there is None or last is None or last.version != version
            for topic, n in topics.items():
                if news or (name, topic) not in self.queues:
                    self.queues[name, topic] = n
        self.heard[address] = Heard(self.now, owner, version)
        assert master == (self.address.get((name, 0)) if broker_id else None)

    def forget(self, address: str) -> bool:
        """An address is gone, and with the last one of its name the queues; whether it was one."""
        self.heard.pop(address, None)
        gone = [k for k, a in self.address.items() if a == address]
        for key in gone:
            del self.address[key]
        for name in {name for name, _ in gone} - {name for name, _ in self.address}:
            self.queues = {k: n for k, n in self.queues.items() if k[0] != name}
        return bool(gone)

    @rule(name=NAMES, broker_id=IDS, port=PORTS)
    def unregister(self, name: str, broker_id: int, port: int) -> None:
        address = f"{name}:{port}"
        self.routes.unregister(CLUSTER[name], name, broker_id, address)
        if self.address.get((name, broker_id)) == address:
            self.forget(address)

    @rule(name=NAMES, port=PORTS)
    def touch(self, name: str, port: int) -> None:
        address = f"{name}:{port}"
        self.routes.touch(CLUSTER[name], address, self.now)
        if address in self.heard:
            self.heard[address].at = self.now

    @rule()
    def what_is_left_is_removed(self) -> None:
        finish(self.routes.sweep())
        assert {t: set(by_name) for t, by_name in self.routes.topics.items()} == {
            t: {n for n, topic in self.queues if topic == t} for _, t in self.queues
        }

    @rule(seconds=st.integers(1, TIMEOUT))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        dropped = self.routes.expire(self.now)
        silent = [a for a, h in self.heard.items() if h.at + TIMEOUT < self.now]
        assert len(dropped) == sum([self.forget(a) for a in silent])

    @rule(connection=CONNECTIONS)
    def connection_ends(self, connection: int) -> None:
        owner = self.owners[connection]
        dropped = self.routes.owner_gone(owner)
        lost = [a for a, h in self.heard.items() if h.connection is owner]
        assert len(dropped) == sum([self.forget(a) for a in lost])

    @invariant()
    def routes_follow_from_the_facts(self) -> None:
        for topic in "TUV":
            route = route_of(self.routes, topic)
            got = {q.broker_name: q.write_queue_nums for q in route.queues} if route else {}
            assert got == {name: n for (name, t), n in self.queues.items() if t == topic}
            if route:
                assert [b.broker_name for b in route.brokers] == list(got)
                addresses = {
                    (b.broker_name, i): a for b in route.brokers for i, a in b.broker_addrs.items()
                }
                assert addresses == {k: a for k, a in self.address.items() if k[0] in got}

    @invariant()
    def what_is_kept_by_address_and_connection_agrees(self) -> None:
        routes = self.routes
        names: dict[str, set[str]] = {}
        for (name, _), address in self.address.items():
            names.setdefault(address, set()).add(name)
        assert routes._names_at == names
        owned: dict[object, set[tuple[str, str]]] = {}
        for key, live in routes.live.items():
            owned.setdefault(live.owner, set()).add(key)
        assert routes._owned == owned
        assert routes._topics_of_all == sum(map(len, routes.topics_of.values()))

    @invariant()
    def clusters_follow_from_the_facts(self) -> None:
        names = {name for name, _ in self.address}
        info = fastjson.loads_object(finish(cluster_info(self.routes)))
        assert info["clusterAddrTable"] == {CLUSTER[n]: [n] for n in names}
        table = info["brokerAddrTable"]
        assert isinstance(table, dict)
        assert {(n, i): a for n, b in table.items() for i, a in b["brokerAddrs"].items()} == (
            self.address
        )


TestRoutes = RouteMachine.TestCase
