"""The route tables, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.route import QueueData, TopicRoute
from pyrmq.model.topic import PERM_WRITE, DataVersion
from pyrmq.namesrv import routes as module
from pyrmq.namesrv.notify import members_to_tell
from pyrmq.namesrv.routes import MAX_BROKERS, NewMinimum, Registration, Routes
from pyrmq.namesrv.views import (
    cluster_info,
    encoded_route,
    member_group,
    of_zone,
    route_of,
)
from pyrmq.net import fastjson
from pyrmq.net.server.turns import finish

TWO = {"T": 4, "U": 8}


def registration(
    name: str = "a",
    broker_id: int = 0,
    address: str = "h:1",
    topics: dict[str, int] | None = None,
    *,
    counter: int = 1,
    state: int = 0,
    **more: Any,
) -> Registration:
    """`topics`: queue counts by name."""
    queues = {t: (n, n, 6, 0) for t, n in (TWO if topics is None else topics).items()}
    version = DataVersion(0, counter, state)
    cluster = more.pop("cluster", "C")
    return Registration(cluster, name, broker_id, address, "ha:1", queues, version, **more)


class Tables(Routes):
    """Does at once what the name server does in turns."""

    def add(self, r: Registration, now: float, owner: object | None, **more: Any) -> str | None:
        admitted = self.register(r, now, owner, **more)
        if admitted is None:
            return None
        assert finish(self.take(admitted))
        return admitted.master

    def leave(self, cluster: str, name: str, broker_id: int, address: str) -> None:
        self.unregister(cluster, name, broker_id, address)
        finish(self.sweep())

    def route(self, topic: str, **more: Any) -> TopicRoute | None:
        return route_of(self, topic, **more)


@pytest.fixture
def routes() -> Tables:
    return Tables()


def names(routes: Tables, topic: str = "T") -> list[str]:
    route = routes.route(topic)
    return [q.broker_name for q in route.queues] if route else []


def test_register(routes: Tables) -> None:
    assert routes.add(registration(), 0, None) is None
    route = routes.route("T")
    assert route is not None
    assert route.queues == [QueueData("a", 4, 4, 6)]
    assert route.brokers[0].broker_addrs == {0: "h:1"}
    assert routes.route("none") is None


def test_several_brokers(routes: Tables) -> None:
    routes.add(registration("b", address="h:2"), 0, None)
    routes.add(registration("a"), 0, None)
    assert sorted(names(routes)) == ["a", "b"]
    routes.leave("C", "b", 0, "h:2")
    assert names(routes) == ["a"]


def test_a_slave_gets_its_master(routes: Tables) -> None:
    slave = registration(broker_id=1, address="h:2")
    assert routes.add(slave, 0, None) is None
    assert routes.route("T") is None  # slaves make no topics
    routes.add(registration(), 0, None)
    assert routes.add(slave, 0, None) == "h:1"
    assert routes.brokers["a"].broker_addrs == {0: "h:1", 1: "h:2"}


def test_an_acting_master_makes_topics(routes: Tables) -> None:
    acting = registration(broker_id=1, address="h:2", enable_acting_master=True)
    routes.add(acting, 0, None)
    assert names(routes) == ["a"]
    third = registration(
        broker_id=2, address="h:3", topics={"V": 1, "W": 1}, enable_acting_master=True
    )
    routes.add(third, 0, None)
    assert routes.route("V") is None  # not the smallest id


def test_a_first_registration_with_one_topic_is_refused(routes: Tables) -> None:
    with pytest.raises(ResponseError) as caught:
        routes.add(registration(topics={"T": 4}), 0, None)
    assert caught.value.code == 1
    assert routes == Tables()
    routes.add(registration(), 0, None)
    routes.add(registration(topics={"V": 4}, counter=2), 0, None)
    assert names(routes, "V") == ["a"]


@pytest.mark.parametrize("topics", [{}, {"T": 1, "U": 1}])
def test_other_first_registrations(routes: Tables, topics: dict[str, int]) -> None:
    routes.add(registration(topics=topics), 0, None)
    assert "a" in routes.brokers


def test_topics_change_with_the_version(routes: Tables) -> None:
    routes.add(registration(), 0, None)
    routes.add(registration(topics={"T": 16, "V": 1}), 1, None)
    route = routes.route("T")
    assert route is not None
    assert route.queues[0].write_queue_nums == 4  # same version: nothing changed
    assert names(routes, "V") == ["a"]  # but a topic that is new here is taken
    routes.add(registration(topics={"T": 16}, counter=2), 2, None)
    route = routes.route("T")
    assert route is not None
    assert route.queues[0].write_queue_nums == 16


def test_an_old_incarnation_is_ignored(routes: Tables) -> None:
    routes.add(registration(address="h:2", state=2), 0, None)
    assert routes.add(registration(address="h:1", state=1, counter=9), 1, None) is None
    assert routes.brokers["a"].broker_addrs == {0: "h:2"}
    assert ("C", "h:1") not in routes.live
    routes.add(registration(address="h:1", state=2), 2, None)
    assert routes.brokers["a"].broker_addrs == {0: "h:1"}


def test_the_state_version_counts_between_addresses_only(routes: Tables) -> None:
    routes.add(registration(state=2), 0, None)
    routes.add(registration(topics={"T": 9}, state=1), 1, None)
    route = routes.route("T")
    assert route is not None
    assert route.queues[0].write_queue_nums == 9


def test_a_slave_that_becomes_master(routes: Tables) -> None:
    routes.add(registration(broker_id=1), 0, None)
    routes.add(registration(broker_id=0), 0, None)
    assert routes.brokers["a"].broker_addrs == {0: "h:1"}


def test_unregister_takes_everything(routes: Tables) -> None:
    routes.add(registration(), 0, None)
    routes.leave("C", "a", 0, "h:1")
    assert routes == Tables()
    routes.leave("C", "a", 0, "h:1")
    routes.leave("X", "none", 7, "nowhere")
    assert routes == Tables()


def test_unregister_of_somebody_else(routes: Tables) -> None:
    routes.add(registration(), 0, None)
    routes.leave("C", "a", 1, "h:1")
    routes.leave("C", "a", 0, "h:2")
    assert names(routes) == ["a"]


def test_the_slave_keeps_the_topics(routes: Tables) -> None:
    routes.add(registration(), 0, None)
    routes.add(registration(broker_id=1, address="h:2"), 0, None)
    routes.leave("C", "a", 0, "h:1")
    route = routes.route("T")
    assert route is not None
    assert route.master_of("a") is None
    assert route.publish_queues("T") == []
    assert len(route.subscribe_queues("T")) == 4


def test_expiry(routes: Tables) -> None:
    routes.add(registration("a", timeout_ms=10_000), 100, None)
    routes.add(registration("b", address="h:2"), 100, None)
    assert routes.expire(110) == []
    assert routes.expire(110.1) == ["a:0 at h:1"]
    assert names(routes) == ["b"]
    routes.touch("C", "h:2", 200)
    routes.touch("C", "none", 200)
    assert routes.expire(320) == []
    assert routes.expire(321) == ["b:0 at h:2"]
    finish(routes.sweep())
    assert routes == Tables()


def test_registering_again_is_a_sign_of_life(routes: Tables) -> None:
    routes.add(registration(), 0, None)
    routes.add(registration(), 100, None)
    assert routes.expire(220) == []
    assert len(routes.expire(221)) == 1


def test_owner_gone(routes: Tables) -> None:
    first, second = object(), object()
    routes.add(registration("a"), 0, first)
    routes.add(registration("b", address="h:2"), 0, second)
    assert routes.owner_gone(object()) == []
    assert routes.owner_gone(first) == ["a:0 at h:1"]
    assert names(routes) == ["b"]


def test_a_broker_that_registered_anew_survives_its_old_connection(routes: Tables) -> None:
    first, second = object(), object()
    routes.add(registration(), 0, first)
    routes.add(registration(), 1, second)
    assert routes.owner_gone(first) == []
    assert names(routes) == ["a"]


@pytest.mark.parametrize("brokers", [1, 7, 8, 9, 100])
@pytest.mark.parametrize("order", [None, "b0:8"])
def test_a_route_is_encoded_in_steps(routes: Tables, brokers: int, order: str | None) -> None:
    """As it is all at once, in both dialects."""
    for n in range(brokers):
        routes.add(registration(f"b{n}", address=f"h:{n}", zone="z" * (n % 2)), 0, None)
    route = routes.route("T")
    assert route is not None
    route.order_conf = order
    assert finish(encoded_route(route, strict=True)) == fastjson.dumps_strict(route.to_json())
    assert finish(encoded_route(route, strict=False)) == fastjson.dumps(route.to_json())
    assert len(list(encoded_route(route, strict=True))) >= brokers // 4


class Unwalked(dict[Any, Any]):
    """A table that is only looked up in."""

    def _walked(self) -> Any:
        raise AssertionError("all brokers are looked at for one of them")

    values = items = __iter__ = _walked


def test_nobody_looks_at_all_brokers_for_one(routes: Tables) -> None:
    """Thousands may come and go at once: each takes as long as if it were alone."""
    for n in range(4):
        routes.add(registration(f"b{n}", address=f"h:{n}"), 0, "owner")
    routes.brokers, routes.live = Unwalked(routes.brokers), Unwalked(routes.live)
    routes.topics_of = Unwalked(routes.topics_of)
    routes.add(registration("b1", address="h:1"), 1, "owner")
    routes.add(registration("c", address="h:0"), 1, "other")
    routes.leave("C", "b1", 0, "h:1")
    assert sorted(routes.owner_gone("owner")) == ["b2:0 at h:2", "b3:0 at h:3"]
    assert dict.keys(routes.brokers) == {"c"}


def test_cluster_info(routes: Tables) -> None:
    routes.add(registration("b", address="h:2"), 0, None)
    routes.add(registration("a"), 0, None)
    info = fastjson.loads_object(finish(cluster_info(routes)))
    assert info["clusterAddrTable"] == {"C": ["a", "b"]}
    table = info["brokerAddrTable"]
    assert isinstance(table, dict)
    assert list(table) == ["a", "b"]
    assert table["a"]["brokerAddrs"] == {0: "h:1"}


def test_topics_that_a_registration_lacks(routes: Tables) -> None:
    routes.add(registration(topics={"T": 1, "U": 1, "V": 1}), 0, None)
    routes.add(registration("b", address="h:2", topics={"U": 1, "W": 1}), 0, None)
    routes.add(registration(topics={"T": 1}, counter=2), 0, None)
    assert names(routes, "U") == ["a", "b"], "they stay, as it may be about some topics only"
    routes.add(registration(topics={"T": 1}, counter=3, static=True), 0, None, delete_others=True)
    assert names(routes, "V") == ["a"], "static topics are not told from others"
    routes.add(registration(topics={"T": 1}, counter=4), 0, None, delete_others=True)
    assert (names(routes, "T"), names(routes, "U"), names(routes, "V")) == (["a"], ["b"], [])
    assert "V" not in routes.topics


def test_a_broker_that_comes_back_before_its_topics_are_removed(routes: Tables) -> None:
    routes.add(registration(), 0, None)
    routes.unregister("C", "a", 0, "h:1")
    assert names(routes, "T") == []
    routes.add(registration(topics={"T": 9, "V": 9}), 0, None)
    assert (names(routes, "T"), names(routes, "U")) == (["a"], [])
    finish(routes.sweep())
    assert (names(routes, "T"), names(routes, "U")) == (["a"], [])
    assert set(routes.topics) == {"T", "V"}


def many(version: int, queues: int) -> Registration:
    return registration(topics={f"T{n}": queues for n in range(300)}, counter=version)


def test_a_registration_gives_way_to_the_next_one(routes: Tables) -> None:
    first = routes.register(many(1, 1), 0, None)
    assert first is not None
    steps = routes.take(first)
    next(steps)
    next(steps)
    routes.add(many(2, 2), 0, None)
    assert finish(steps) is False
    assert all(queues["a"][0] == 2 for queues in routes.topics.values())


def test_a_registration_gives_way_to_the_end_of_its_broker(routes: Tables) -> None:
    first = routes.register(many(1, 1), 0, None)
    assert first is not None
    steps = routes.take(first)
    next(steps)
    next(steps)
    routes.leave("C", "a", 0, "h:1")
    assert finish(steps) is False
    assert routes == Tables()


def test_an_address_is_one_brokers(routes: Tables) -> None:
    routes.add(registration("a"), 0, None)
    routes.add(registration("b"), 0, None)
    assert names(routes) == ["b"]
    assert routes.expire(121) == ["b:0 at h:1"]
    finish(routes.sweep())
    assert routes == Tables()


def test_a_broker_name_is_in_one_cluster(routes: Tables) -> None:
    routes.add(registration("a"), 0, None)
    with pytest.raises(InvalidParameterError, match="is in cluster C"):
        routes.add(registration("a", address="h:2", cluster="D"), 0, None)
    routes.add(registration("a", cluster="D"), 0, None)
    finish(routes.sweep())
    assert fastjson.loads_object(finish(cluster_info(routes)))["clusterAddrTable"] == {"D": ["a"]}
    assert names(routes) == ["a"]
    routes.leave("C", "a", 0, "h:1")
    assert names(routes) == ["a"]
    routes.leave("D", "a", 0, "h:1")
    assert routes == Tables()


def test_bounds_of_one_connection(routes: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = object()
    for n in range(MAX_BROKERS):
        routes.add(registration(f"b{n}", address=f"h:{n + 1}", topics={}), 0, owner)
    more = registration("more", address="h:999", topics={})
    with pytest.raises(InvalidParameterError, match="on one connection"):
        routes.add(more, 0, owner)
    routes.add(registration("b1", address="h:2", topics={}), 0, owner)
    routes.add(more, 0, object())
    monkeypatch.setattr(module, "MAX_BROKERS_OF_ALL", MAX_BROKERS + 1)
    with pytest.raises(InvalidParameterError, match="brokers already"):
        routes.add(registration("most", address="h:1000", topics={}), 0, object())
    monkeypatch.setattr(module, "MAX_TOPICS", 3)
    routes.add(registration("b1", address="h:2", topics={"T": 1, "U": 1}, counter=2), 0, owner)
    routes.add(registration("b1", address="h:2", topics={"U": 1, "V": 1}, counter=3), 0, owner)
    with pytest.raises(InvalidParameterError, match="more topics than there is room for"):
        routes.add(registration("b1", address="h:2", topics={"W": 1}, counter=4), 0, owner)
    with pytest.raises(InvalidParameterError, match="more topics than there is room for"):
        routes.add_topic("W", {"b1": (1, 1, 6, 0)})
    monkeypatch.setattr(module, "MAX_TOPICS_OF_ALL", 4)
    routes.add_topic("W", {"b2": (1, 1, 6, 0)})
    with pytest.raises(InvalidParameterError, match="more topics than there is room for"):
        routes.add_topic("W", {"b3": (1, 1, 6, 0)})


def test_one_topic_is_added(routes: Tables) -> None:
    routes.add(registration(), 0, None)
    routes.add_topic("V", {"a": (1, 2, 4, 3)})
    route = routes.route("V")
    assert route is not None
    assert route.queues == [QueueData("a", 1, 2, 4, 3)]
    with pytest.raises(InvalidParameterError, match="broker x is not registered"):
        routes.add_topic("W", {"a": (1, 1, 6, 0), "x": (1, 1, 6, 0)})
    assert names(routes, "W") == []


def perms(routes: Tables) -> dict[str, int]:
    found = [routes.route(topic) for topic in "TUV"]
    return {q.broker_name: q.perm for route in found if route for q in route.queues}


def test_permissions(routes: Tables) -> None:
    routes.add(registration("a"), 0, None)
    routes.add(registration("b", address="h:2", topics={"U": 1, "V": 1}), 0, None)
    assert finish(routes.change_perm("a", ~PERM_WRITE)) == 2
    assert perms(routes) == {"a": 4, "b": 6}
    routes.add(registration("a"), 0, None)
    assert perms(routes) == {"a": 4, "b": 6}, "until its topics change"
    assert finish(routes.change_perm("a", 0, 6)) == 2
    assert finish(routes.change_perm("none", 0, 6)) == 0
    assert perms(routes) == {"a": 6, "b": 6}
    finish(routes.change_perm("a", ~PERM_WRITE))
    routes.add(registration("a", counter=2), 0, None)
    assert perms(routes) == {"a": 6, "b": 6}


def member(broker_id: int, **more: Any) -> Registration:
    return registration(
        broker_id=broker_id, address=f"h:{broker_id}", enable_acting_master=True, **more
    )


def shown(routes: Tables, topic: str = "T") -> tuple[dict[int, str], int]:
    route = routes.route(topic, acting_masters=True)
    assert route is not None
    return route.brokers[0].broker_addrs, route.queues[0].perm


def test_an_acting_master_is_shown_as_the_master(routes: Tables) -> None:
    routes.add(member(2), 0, None)
    assert shown(routes) == ({0: "h:2"}, 4)
    routes.add(member(1), 0, None)
    assert shown(routes) == ({0: "h:1", 2: "h:2"}, 4)
    routes.add(member(0, topics={"T": 4, "rmq_sys_SYNC_BROKER_MEMBER_a": 1}), 0, None)
    assert shown(routes) == ({0: "h:0", 1: "h:1", 2: "h:2"}, 6)
    routes.leave("C", "a", 0, "h:0")
    assert shown(routes) == ({0: "h:1", 2: "h:2"}, 4)
    assert shown(routes, "rmq_sys_SYNC_BROKER_MEMBER_a") == ({1: "h:1", 2: "h:2"}, 4)
    route = routes.route("T")
    assert route is not None
    assert route.brokers[0].broker_addrs == {1: "h:1", 2: "h:2"}, "the table itself is as it was"
    routes.add(member(0), 0, None)
    assert shown(routes) == ({0: "h:0", 1: "h:1", 2: "h:2"}, 6)


def test_groups_without_acting_masters_show_none(routes: Tables) -> None:
    for acting in (None, False):
        slave = registration(broker_id=1, enable_acting_master=acting, counter=acting or 7)
        routes.add(registration(), 0, None)
        routes.add(slave, 0, None)
        assert shown(routes) == ({1: "h:1"}, 6)


def test_who_is_told_of_a_new_smallest_id(routes: Tables) -> None:
    for broker_id in (2, 1, 3, 0, 0):
        routes.add(member(broker_id), 0, None)
    everyone = {0: "h:0", 1: "h:1", 2: "h:2", 3: "h:3"}
    assert routes.new_minima == [
        NewMinimum({2: "h:2", 1: "h:1"}, None, "ha:1"),
        NewMinimum(everyone, None, "ha:1"),
    ]
    assert sorted(members_to_tell(routes.new_minima[0])) == ["h:2"]
    assert sorted(members_to_tell(routes.new_minima[1])) == ["h:1", "h:2", "h:3"]
    routes.new_minima.clear()
    routes.leave("C", "a", 3, "h:3")
    routes.leave("C", "a", 0, "h:0")
    routes.leave("C", "a", 2, "h:2")
    assert routes.new_minima == [NewMinimum({1: "h:1", 2: "h:2"}, "h:0")]
    assert sorted(members_to_tell(routes.new_minima[0])) == ["h:1", "h:2"]
    routes.new_minima.clear()
    routes.add(registration(broker_id=0, address="h:1", enable_acting_master=True), 0, None)
    assert routes.new_minima == [NewMinimum({0: "h:1"}, None, "ha:1")], "the slave is master now"
    assert members_to_tell(routes.new_minima[0]) == ["h:1"]


def test_groups_without_acting_masters_are_not_told(routes: Tables) -> None:
    routes.add(registration(broker_id=1), 0, None)
    routes.add(registration(address="h:2"), 0, None)
    routes.leave("C", "a", 0, "h:2")
    assert routes.new_minima == []


def test_zones(routes: Tables) -> None:
    routes.add(registration("a", zone="East"), 0, None)
    routes.add(registration("b", address="h:2", zone="west"), 0, None)
    routes.add(registration("c", address="h:3"), 0, None)
    routes.add(registration("d", address="h:4", broker_id=0, zone="west"), 0, None)
    routes.add(registration("d", address="h:5", broker_id=1, zone="west"), 0, None)
    routes.leave("C", "d", 0, "h:4")
    route = routes.route("T")
    assert route is not None
    east = of_zone(route, "EAST")
    assert [q.broker_name for q in east.queues] == ["a", "d"], "who has no master stays"
    assert [b.broker_name for b in east.brokers] == ["a", "d"]
    assert east.brokers[0].to_json()["zoneName"] == "East"
    assert [q.broker_name for q in of_zone(route, "none").queues] == ["d"]


def test_members_of_a_group(routes: Tables) -> None:
    routes.add(registration(), 0, None)
    routes.add(registration(broker_id=1, address="h:2"), 0, None)
    assert member_group(routes, "C", "a") == {
        "brokerAddrs": {0: "h:1", 1: "h:2"}, "brokerName": "a", "cluster": "C",
    }  # fmt: skip
    for cluster, name in (("C", "x"), ("X", "a")):
        assert member_group(routes, cluster, name)["brokerAddrs"] == {}
