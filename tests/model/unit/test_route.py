"""Topic routes and the queues that follow from them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pyrmq.errors import ProtocolError
from pyrmq.model.message import MessageQueue
from pyrmq.model.route import (
    MAX_ROUTE_QUEUES,
    BrokerData,
    QueueData,
    TopicRoute,
    next_queue,
)


def sample() -> TopicRoute:
    return TopicRoute(
        [QueueData("b", 3, 2, 6), QueueData("a", 1, 1, 6, 1), QueueData("slave", 1, 1, 6)],
        [
            BrokerData("C", "b", {1: "h:3", 0: "h:1"}),
            BrokerData("C", "a", {0: "h:2"}),
            BrokerData("C", "slave", {1: "h:4"}),
        ],
    )


def test_json_round_trip() -> None:
    assert TopicRoute.from_json(sample().to_json()) == sample()


def test_json_form() -> None:
    value = sample().to_json()
    assert list(value["brokerDatas"][0]["brokerAddrs"].items()) == [(0, "h:1"), (1, "h:3")]
    assert value["queueDatas"][1] == {
        "brokerName": "a", "perm": 6, "readQueueNums": 1, "topicSysFlag": 1, "writeQueueNums": 1,
    }  # fmt: skip
    assert value["filterServerTable"] == {}


def test_quoted_ids_and_the_old_flag_name() -> None:
    route = TopicRoute.from_json(
        {
            "queueDatas": [{"brokerName": "a", "readQueueNums": "4", "topicSynFlag": 2}],
            "brokerDatas": [{"brokerName": "a", "cluster": "C", "brokerAddrs": {"0": "h:1"}}],
        }
    )
    assert route.queues == [QueueData("a", 4, 0, 0, 2)]
    assert route.master_of("a") == "h:1"


def test_replicas() -> None:
    route = sample()
    assert list(route.replicas_of("b").items()) == [(0, "h:1"), (1, "h:3")]
    assert (route.replicas_of("slave"), route.replicas_of("none")) == ({1: "h:4"}, {})
    assert route.addresses() == ["h:1", "h:2", "h:3", "h:4"]


def test_ids_that_are_none_count_for_nothing() -> None:
    value = {"brokerName": "a", "brokerAddrs": {"x": "h:1", "-3": "h:2", "2": "h:3"}}
    route = TopicRoute.from_json({"brokerDatas": [value]})
    assert route.replicas_of("a") == {2: "h:3"}
    assert (route.addresses(), route.master_of("a")) == (["h:3"], None)


def test_an_order_configuration_says_which_queues_are_sent_to() -> None:
    value = {**sample().to_json(), "orderTopicConf": "b:2;none:1;"}
    route = TopicRoute.from_json(value)
    assert route.to_json() == value
    assert route.publish_queues("T") == [
        MessageQueue("T", "b", 0), MessageQueue("T", "b", 1), MessageQueue("T", "none", 0),
    ]  # fmt: skip
    assert len(route.subscribe_queues("T")) == 5
    assert TopicRoute.from_json({"orderTopicConf": ""}).order_conf is None


@pytest.mark.parametrize("conf", ["a", "a:", ":1", "a:x", "a:-1", "a:1;;b", "a:9999999", 7])
def test_an_order_configuration_that_is_none(conf: Any) -> None:
    with pytest.raises(ProtocolError, match="order configuration"):
        TopicRoute.from_json({"orderTopicConf": conf})


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_no_object(value: Any) -> None:
    with pytest.raises(ProtocolError):
        TopicRoute.from_json(value)


@pytest.mark.parametrize(
    "value",
    [{}, {"queueDatas": {}, "brokerDatas": None}, {"queueDatas": [1, None], "brokerDatas": ["x"]}],
)
def test_parts_of_a_wrong_kind_are_left_out(value: Any) -> None:
    assert TopicRoute.from_json(value) == TopicRoute()


def test_broker_without_addresses() -> None:
    route = TopicRoute.from_json({"brokerDatas": [{"brokerName": "a", "brokerAddrs": [1]}]})
    assert route.master_of("a") is None


def test_queues_to_send_to() -> None:
    """By broker name, and only where there is a master."""
    assert sample().publish_queues("T") == [
        MessageQueue("T", "a", 0), MessageQueue("T", "b", 0), MessageQueue("T", "b", 1),
    ]  # fmt: skip


def test_queues_to_read() -> None:
    """Slaves are read from as well."""
    got = sample().subscribe_queues("T")
    assert [(q.broker_name, q.queue_id) for q in got] == [
        ("b", 0), ("b", 1), ("b", 2), ("a", 0), ("slave", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(("perm", "send", "read"), [(0, 0, 0), (2, 1, 0), (4, 0, 1), (7, 1, 1)])
def test_permission(perm: int, send: int, read: int) -> None:
    route = TopicRoute([QueueData("a", 1, 1, perm)], [BrokerData("C", "a", {0: "h:1"})])
    assert len(route.publish_queues("T")) == send
    assert len(route.subscribe_queues("T")) == read


def test_master_of_an_unknown_broker() -> None:
    assert sample().master_of("none") is None
    assert sample().master_of("slave") is None


@pytest.mark.parametrize(
    ("broker", "master", "any_of_them"),
    [("a", "h:2", "h:2"), ("b", "h:1", "h:1"), ("slave", None, "h:4"), ("none", None, None)],
)
def test_whom_to_ask_of_a_broker_name(
    broker: str, master: str | None, any_of_them: str | None
) -> None:
    route = sample()
    assert route.address_of(broker, master_only=True) == master
    assert route.address_of(broker) == any_of_them
    assert (route.master_of(broker) or "") == (master or "")


def test_masters() -> None:
    assert sample().masters() == ["h:1", "h:2"]


def test_a_broker_id_that_is_none_comes_after_the_master() -> None:
    value = {"brokerDatas": [{"brokerName": "a", "brokerAddrs": {"x": "h:9", "0": "h:1"}}]}
    assert TopicRoute.from_json(value).address_of("a") == "h:1"


QUEUES = [MessageQueue("T", broker, n) for broker in ("a", "b") for n in range(2)]


@pytest.mark.parametrize(
    ("queues", "avoid", "chosen"),
    [
        (QUEUES, None, ["a0", "a1", "b0", "b1", "a0"]),
        (QUEUES, "c", ["a0", "a1", "b0", "b1", "a0"]),
        (QUEUES, "a", ["b0", "b1", "b0"]),
        (QUEUES[:2], "a", ["a0", "a1", "a0"]),
    ],
)
def test_the_next_queue(queues: list[MessageQueue], avoid: str | None, chosen: list[str]) -> None:
    turn = itertools.count()
    found = [next_queue(queues, turn, avoid) for _ in chosen]
    assert [f"{q.broker_name}{q.queue_id}" for q in found] == chosen


@pytest.mark.parametrize("name", ["readQueueNums", "writeQueueNums"])
@pytest.mark.parametrize("counts", [[2**31], [MAX_ROUTE_QUEUES, 1], [-5, MAX_ROUTE_QUEUES + 1]])
def test_more_queues_than_a_route_can_have(name: str, counts: list[int]) -> None:
    """Each would become an object: a name server that says so is not believed."""
    value = {"queueDatas": [{"brokerName": "a", "perm": 6, name: n} for n in counts]}
    with pytest.raises(ProtocolError, match=r"a topic route with \d+ queues"):
        TopicRoute.from_json(value)
    value["queueDatas"][-1][name] = MAX_ROUTE_QUEUES - max(0, *counts[:-1], 0)
    TopicRoute.from_json(value)
