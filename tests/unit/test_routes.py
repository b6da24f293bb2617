"""The route tables, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.errors import ResponseError
from pyrmq.model.route import QueueData
from pyrmq.model.topic import DataVersion, TopicConfig
from pyrmq.namesrv.routes import Registration, Routes

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
    configs = {t: TopicConfig(t, n, n) for t, n in (TWO if topics is None else topics).items()}
    version = DataVersion(0, counter, state)
    return Registration("C", name, broker_id, address, "ha:1", configs, version, **more)


@pytest.fixture
def routes() -> Routes:
    return Routes()


def names(routes: Routes, topic: str = "T") -> list[str]:
    route = routes.route(topic)
    return [q.broker_name for q in route.queues] if route else []


def test_register(routes: Routes) -> None:
    assert routes.register(registration(), 0, None) is None
    route = routes.route("T")
    assert route is not None
    assert route.queues == [QueueData("a", 4, 4, 6)]
    assert route.brokers[0].broker_addrs == {0: "h:1"}
    assert routes.route("none") is None


def test_several_brokers(routes: Routes) -> None:
    routes.register(registration("b", address="h:2"), 0, None)
    routes.register(registration("a"), 0, None)
    assert sorted(names(routes)) == ["a", "b"]
    routes.unregister("C", "b", 0, "h:2")
    assert names(routes) == ["a"]


def test_a_slave_gets_its_master(routes: Routes) -> None:
    slave = registration(broker_id=1, address="h:2")
    assert routes.register(slave, 0, None) is None
    assert routes.route("T") is None  # slaves make no topics
    routes.register(registration(), 0, None)
    assert routes.register(slave, 0, None) == "h:1"
    assert routes.brokers["a"].broker_addrs == {0: "h:1", 1: "h:2"}


def test_an_acting_master_makes_topics(routes: Routes) -> None:
    acting = registration(broker_id=1, address="h:2", enable_acting_master=True)
    routes.register(acting, 0, None)
    assert names(routes) == ["a"]
    third = registration(
        broker_id=2, address="h:3", topics={"V": 1, "W": 1}, enable_acting_master=True
    )
    routes.register(third, 0, None)
    assert routes.route("V") is None  # not the smallest id


def test_a_first_registration_with_one_topic_is_refused(routes: Routes) -> None:
    with pytest.raises(ResponseError) as caught:
        routes.register(registration(topics={"T": 4}), 0, None)
    assert caught.value.code == 1
    assert routes == Routes()
    routes.register(registration(), 0, None)
    routes.register(registration(topics={"V": 4}, counter=2), 0, None)
    assert names(routes, "V") == ["a"]


@pytest.mark.parametrize("topics", [{}, {"T": 1, "U": 1}])
def test_other_first_registrations(routes: Routes, topics: dict[str, int]) -> None:
    routes.register(registration(topics=topics), 0, None)
    assert "a" in routes.brokers


def test_topics_change_with_the_version(routes: Routes) -> None:
    routes.register(registration(), 0, None)
    routes.register(registration(topics={"T": 16, "V": 1}), 1, None)
    route = routes.route("T")
    assert route is not None
    assert route.queues[0].write_queue_nums == 4  # same version: nothing changed
    assert names(routes, "V") == ["a"]  # but a topic that is new here is taken
    routes.register(registration(topics={"T": 16}, counter=2), 2, None)
    route = routes.route("T")
    assert route is not None
    assert route.queues[0].write_queue_nums == 16


def test_an_old_incarnation_is_ignored(routes: Routes) -> None:
    routes.register(registration(address="h:2", state=2), 0, None)
    assert routes.register(registration(address="h:1", state=1, counter=9), 1, None) is None
    assert routes.brokers["a"].broker_addrs == {0: "h:2"}
    assert ("C", "h:1") not in routes.live
    routes.register(registration(address="h:1", state=2), 2, None)
    assert routes.brokers["a"].broker_addrs == {0: "h:1"}


def test_the_state_version_counts_between_addresses_only(routes: Routes) -> None:
    routes.register(registration(state=2), 0, None)
    routes.register(registration(topics={"T": 9}, state=1), 1, None)
    route = routes.route("T")
    assert route is not None
    assert route.queues[0].write_queue_nums == 9


def test_a_slave_that_becomes_master(routes: Routes) -> None:
    routes.register(registration(broker_id=1), 0, None)
    routes.register(registration(broker_id=0), 0, None)
    assert routes.brokers["a"].broker_addrs == {0: "h:1"}


def test_unregister_takes_everything(routes: Routes) -> None:
    routes.register(registration(), 0, None)
    routes.unregister("C", "a", 0, "h:1")
    assert routes == Routes()
    routes.unregister("C", "a", 0, "h:1")
    routes.unregister("X", "none", 7, "nowhere")
    assert routes == Routes()


def test_unregister_of_somebody_else(routes: Routes) -> None:
    routes.register(registration(), 0, None)
    routes.unregister("C", "a", 1, "h:1")
    routes.unregister("C", "a", 0, "h:2")
    assert names(routes) == ["a"]


def test_the_slave_keeps_the_topics(routes: Routes) -> None:
    routes.register(registration(), 0, None)
    routes.register(registration(broker_id=1, address="h:2"), 0, None)
    routes.unregister("C", "a", 0, "h:1")
    route = routes.route("T")
    assert route is not None
    assert route.master_of("a") is None
    assert route.publish_queues("T") == []
    assert len(route.subscribe_queues("T")) == 4


def test_expiry(routes: Routes) -> None:
    routes.register(registration("a", timeout_ms=10_000), 100, None)
    routes.register(registration("b", address="h:2"), 100, None)
    assert routes.expire(110) == []
    assert routes.expire(110.1) == ["a:0 at h:1"]
    assert names(routes) == ["b"]
    routes.touch("C", "h:2", 200)
    routes.touch("C", "none", 200)
    assert routes.expire(320) == []
    assert routes.expire(321) == ["b:0 at h:2"]
    assert routes == Routes()


def test_registering_again_is_a_sign_of_life(routes: Routes) -> None:
    routes.register(registration(), 0, None)
    routes.register(registration(), 100, None)
    assert routes.expire(220) == []
    assert len(routes.expire(221)) == 1


def test_owner_gone(routes: Routes) -> None:
    first, second = object(), object()
    routes.register(registration("a"), 0, first)
    routes.register(registration("b", address="h:2"), 0, second)
    assert routes.owner_gone(object()) == []
    assert routes.owner_gone(first) == ["a:0 at h:1"]
    assert names(routes) == ["b"]


def test_a_broker_that_registered_anew_survives_its_old_connection(routes: Routes) -> None:
    first, second = object(), object()
    routes.register(registration(), 0, first)
    routes.register(registration(), 1, second)
    assert routes.owner_gone(first) == []
    assert names(routes) == ["a"]


def test_cluster_info(routes: Routes) -> None:
    routes.register(registration("b", address="h:2"), 0, None)
    routes.register(registration("a"), 0, None)
    info = routes.cluster_info()
    assert info["clusterAddrTable"] == {"C": ["a", "b"]}
    table = info["brokerAddrTable"]
    assert isinstance(table, dict)
    assert list(table) == ["a", "b"]
    assert table["a"]["brokerAddrs"] == {0: "h:1"}
