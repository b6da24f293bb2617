"""What operators ask of a name server: permissions, lists, topics, its configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.command import Serving
from tests.support.namesrv import (
    GET_ALL_TOPIC_LIST,
    clusters,
    name_server,
    place,
    register,
    registering,
    route,
    routed,
    unregister,
)
from tests.support.waiting import eventually

WIPE, ADD = 205, 327
DELETE_TOPIC, REGISTER_TOPIC = 216, 217
BY_CLUSTER, SYSTEM, UNIT, UNIT_SUB, UNIT_SUB_UNUNIT = 224, 304, 311, 312, 313
UPDATE_CONFIG, GET_CONFIG = 318, 319
NO_PERMISSION, INVALID = 16, 29


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with name_server(tmp_path_factory.mktemp("admin")) as running:
        yield running


@pytest.fixture
def client(server: Serving) -> Iterator[Client]:
    with registering(server) as client:
        yield client


def perms(client: Client, *topics: str) -> list[dict[str, int]]:
    return [
        {q["brokerName"]: q["perm"] for q in routed(client, topic)["queueDatas"]}
        for topic in topics
    ]


def test_write_permission(client: Client) -> None:
    register(client, place("b1", 5001))
    register(client, place("b2", 5002), topics=("Beta", "Gamma"))
    assert client.call(WIPE, brokerName="b1").ext == {"wipeTopicCount": "2"}
    assert perms(client, "Alpha", "Beta", "Gamma") == [{"b1": 4}, {"b1": 4, "b2": 6}, {"b2": 6}]
    register(client, place("b1", 5001))
    assert perms(client, "Alpha") == [{"b1": 4}], "a broker whose topics did not change"
    assert client.call(ADD, brokerName="b1").ext == {"addTopicCount": "2"}
    assert perms(client, "Alpha", "Beta") == [{"b1": 6}, {"b1": 6, "b2": 6}]
    assert client.call(WIPE, brokerName="none").ext == {"wipeTopicCount": "0"}


def topics(client: Client, code: int, **ext: str) -> set[str]:
    answer = client.call(code, **ext)
    assert answer.code == 0, answer.remark
    found = json.loads(answer.body)["topicList"]
    assert len(found) == len(set(found))
    return set(found)


def test_lists(client: Client) -> None:
    flags = {"Unit": 1, "Sub": 2, "Both": 3}
    register(client, place("b1", 5001), topics=("Unit", "Sub", "Plain"), flags=flags)
    register(client, place("b2", 5002, cluster="C2"), topics=("Both", "Plain"), flags=flags)
    assert topics(client, GET_ALL_TOPIC_LIST) == {"Unit", "Sub", "Plain", "Both"}
    assert topics(client, BY_CLUSTER, cluster="C1") == {"Unit", "Sub", "Plain"}
    assert topics(client, BY_CLUSTER, cluster="C2") == {"Both", "Plain"}
    assert topics(client, BY_CLUSTER, cluster="none") == set()
    assert topics(client, UNIT) == {"Unit", "Both"}
    assert topics(client, UNIT_SUB) == {"Sub", "Both"}
    assert topics(client, UNIT_SUB_UNUNIT) == {"Sub"}
    system = json.loads(client.call(SYSTEM).body)
    assert set(system["topicList"]) == {"C1", "C2", "b1", "b2"}
    assert system["brokerAddr"] == "127.0.0.1:5001"
    unregister(client, place("b1", 5001), place("b2", 5002, cluster="C2"))
    assert client.call(SYSTEM).body == b'{"topicList":[]}'
    assert client.call(GET_ALL_TOPIC_LIST).body == b'{"topicList":[]}'


def test_lists_that_are_switched_off(client: Client) -> None:
    with_switch = {
        "enableTopicList": (BY_CLUSTER, UNIT, UNIT_SUB, UNIT_SUB_UNUNIT),
        "enableAllTopicList": (GET_ALL_TOPIC_LIST,),
    }
    for key, codes in with_switch.items():
        assert client.call(UPDATE_CONFIG, f"{key}=false".encode()).code == 0
        for code in codes:
            answer = client.call(code, cluster="C1")
            assert (answer.code, answer.remark) == (1, "disable")
        assert client.call(SYSTEM).code == 0
        assert client.call(UPDATE_CONFIG, f"{key}=true".encode()).code == 0
        assert {client.call(code, cluster="C1").code for code in codes} == {0}


def brokers(client: Client, topic: str) -> set[str]:
    answer = route(client, topic)
    if answer.code == 17:
        return set()
    return {q["brokerName"] for q in json.loads(answer.body)["queueDatas"]}


def test_deleting_a_topic(client: Client) -> None:
    register(client, place("b1", 5001))
    register(client, place("b2", 5002))
    register(client, place("b3", 5003, cluster="C2"))
    assert client.call(DELETE_TOPIC, topic="Alpha", clusterName="C1").code == 0
    assert brokers(client, "Alpha") == {"b3"}
    assert client.call(DELETE_TOPIC, topic="Beta", clusterName="none").code == 0
    assert brokers(client, "Beta") == {"b1", "b2", "b3"}
    assert client.call(DELETE_TOPIC, topic="Beta").code == 0
    assert brokers(client, "Beta") == set()
    assert topics(client, GET_ALL_TOPIC_LIST) == {"Alpha"}
    register(client, place("b1", 5001))
    assert brokers(client, "Beta") == {"b1"}, "who has it still registers it again"


def test_one_topic(client: Client) -> None:
    register(client, place("b1", 5001))
    row = {"brokerName": "b1", "readQueueNums": 3, "writeQueueNums": 2, "perm": 4}
    body = json.dumps({"queueDatas": [row], "brokerDatas": []}).encode()
    assert client.call(REGISTER_TOPIC, body, topic="New").code == 0
    (queues,) = routed(client, "New")["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 2, 4)
    refused = client.call(REGISTER_TOPIC, body.replace(b"b1", b"b9"), topic="Newer")
    assert refused.code == INVALID
    assert "b9 is not registered" in (refused.remark or "")


def test_topics_that_a_registration_lacks(client: Client) -> None:
    register(client, place("b1", 5001))
    register(client, place("b1", 5001), topics=("Alpha",), version=2)
    assert brokers(client, "Beta") == {"b1"}
    assert client.call(UPDATE_CONFIG, b"deleteTopicWithBrokerRegistration=true").code == 0
    register(client, place("b1", 5001), topics=("Alpha",), version=3)
    assert (brokers(client, "Alpha"), brokers(client, "Beta")) == ({"b1"}, set())
    assert client.call(UPDATE_CONFIG, b"deleteTopicWithBrokerRegistration=false").code == 0


def test_a_broker_whose_name_server_deletes_topics(tmp_path: Path) -> None:
    """With enableSingleTopicRegister new topics come beside those that are there."""
    conf = tmp_path / "broker.conf"
    with name_server(tmp_path, "deleteTopicWithBrokerRegistration=true\n") as server:
        conf.write_text(
            "brokerName=b1\nbrokerIP1=127.0.0.1\nlistenPort=0\nbindAddress=127.0.0.1\n"
            f"namesrvAddr={server.facts['namesrv']}\nstorePathRootDir={tmp_path / 'store'}\n"
            "enableSingleTopicRegister=true\n"
        )
        with (
            Serving(tmp_path / "broker.log", "broker", "-c", str(conf)) as broker,
            Client(server.address("namesrv")) as client,
        ):
            before = topics(client, GET_ALL_TOPIC_LIST)
            assert "TBW102" in before
            with Client(broker.address("broker")) as sender:
                for topic in ("New1", "New2"):
                    assert sender.send(topic).code == 0
            assert topics(client, GET_ALL_TOPIC_LIST) == before | {"New1", "New2"}
            assert broker.stop() == 0
            assert clusters(client) == {}


# -- configuration ------------------------------------------------------------------------------


def config(client: Client) -> dict[str, str]:
    answer = client.call(GET_CONFIG)
    assert answer.code == 0
    lines = answer.body.decode().splitlines()
    assert lines == sorted(lines)
    return dict(line.split("=", 1) for line in lines)


def test_the_configuration_is_shown_and_changed(client: Client) -> None:
    before = config(client)
    assert before["listenPort"] == "0"
    assert before["kvConfigPath"].endswith("kvConfig.json")
    changes = {"scanNotActiveBrokerInterval": "777", "enableTopicList": "false"}
    body = "\n".join(f"{key}={value}" for key, value in changes.items()).encode()
    assert client.call(UPDATE_CONFIG, body).code == 0
    assert config(client) == {**before, **changes}
    for key in changes:
        assert client.call(UPDATE_CONFIG, f"{key}={before[key]}".encode()).code == 0
    assert config(client) == before


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("kvConfigPath=/tmp/x", NO_PERMISSION, "kvConfigPath cannot be changed"),
        ("configStorePath=/tmp/x", NO_PERMISSION, "configStorePath cannot be changed"),
        ("enableTopicList=\\ud800", INVALID, "enableTopicList=?: true or false"),
        ("rocketmqHome=/tmp/x", NO_PERMISSION, "rocketmqHome cannot be changed"),
        ("configBlackList=", NO_PERMISSION, "configBlackList cannot be changed"),
        ("listenPort=1", NO_PERMISSION, "listenPort cannot be changed"),
        ("bindAddress=0.0.0.0", NO_PERMISSION, "bindAddress cannot be changed"),
        ("notifyMinBrokerIdChanged=true", NO_PERMISSION, "cannot be changed"),
        ("clusterTest=false", NO_PERMISSION, "clusterTest cannot be changed"),
        ("nonsense=1", INVALID, "unknown configuration key 'nonsense'"),
        ("scanNotActiveBrokerInterval=5", INVALID, "must be 10 to 86400000"),
        ("scanNotActiveBrokerInterval=x", INVALID, "a number expected"),
        ("orderMessageEnable=yes", INVALID, "true or false expected"),
        ("", INVALID, "no key=value"),
    ],
)
def test_changes_that_are_refused_whole(client: Client, line: str, code: int, words: str) -> None:
    before = config(client)
    good = "enableTopicList=false\n" if line else ""
    answer = client.call(UPDATE_CONFIG, f"{good}{line}".encode())
    assert answer.code == code
    assert words in (answer.remark or "")
    assert config(client) == before


def test_a_black_list_of_ones_own(tmp_path: Path) -> None:
    conf = "configBlackList=enableTopicList; orderMessageEnable\n"
    with name_server(tmp_path, conf) as server, Client(server.address("namesrv")) as client:
        for key in ("enableTopicList", "orderMessageEnable", "kvConfigPath"):
            assert client.call(UPDATE_CONFIG, f"{key}=false".encode()).code == NO_PERMISSION
        assert client.call(UPDATE_CONFIG, b"enableAllTopicList=false").code == 0


def test_the_interval_of_looks_counts_at_once(tmp_path: Path) -> None:
    """A broker that is silent for long is dropped although the next look was an hour away."""
    conf = "scanNotActiveBrokerInterval=3600000\n"
    with name_server(tmp_path, conf) as server, Client(server.address("namesrv")) as client:
        register(client, place("b1", 5001), heartbeatTimeoutMillis="1")
        assert clusters(client) == {"C1": ["b1"]}
        assert client.call(UPDATE_CONFIG, b"scanNotActiveBrokerInterval=10").code == 0
        eventually(lambda: clusters(client) == {}, "the broker is dropped")


def test_a_name_server_that_waits_for_brokers(tmp_path: Path) -> None:
    conf = "needWaitForService=true\nwaitSecondsForService=3600\n"
    with name_server(tmp_path, conf) as server, Client(server.address("namesrv")) as client:
        register(client, place("b1", 5001))
        answer = route(client, "Alpha")
        assert (answer.code, answer.remark) == (1, "name server not ready")
        assert client.call(UPDATE_CONFIG, b"waitSecondsForService=0").code == 0
        assert route(client, "Alpha").code == 0
