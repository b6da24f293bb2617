"""Groups of brokers with acting masters, and zones."""

from __future__ import annotations

from typing import Any

from pyrmq.namesrv.brokers import members_to_tell
from pyrmq.namesrv.routes import NewMinimum, Registration
from pyrmq.namesrv.views import (
    member_group,
    of_zone,
)
from tests.namesrv.unit.tables import Tables, registration


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
