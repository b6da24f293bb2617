"""The route tables, case by case."""

from __future__ import annotations

import pytest

from pyrmq.errors import InvalidParameterError, ResponseError
from pyrmq.model.route import QueueData
from pyrmq.model.topic import PERM_WRITE
from pyrmq.namesrv import routes as module
from pyrmq.namesrv.routes import MAX_BROKERS, Registration
from pyrmq.namesrv.views import (
    cluster_info,
)
from pyrmq.net import fastjson
from pyrmq.net.server.turns import finish
from tests.namesrv.unit.tables import Tables, names, registration


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
