"""What operators ask of a name server: permissions, lists, its configuration; zones, groups with
acting masters, and brokers with very many topics."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.command import Serving
from tests.e2e.namesrv import (
    GET_ALL_TOPIC_LIST,
    clusters,
    loose,
    name_server,
    place,
    register,
    route,
    routed,
    unregister,
)
from tests.support.client import REGISTER_BROKER, Client
from tests.support.waiting import eventually
from tests.support.wire import Command, FrameReader

WIPE, ADD = 205, 327
DELETE_TOPIC, REGISTER_TOPIC = 216, 217
BY_CLUSTER, SYSTEM, UNIT, UNIT_SUB, UNIT_SUB_UNUNIT = 224, 304, 311, 312, 313
UPDATE_CONFIG, GET_CONFIG = 318, 319
DATA_VERSION, MEMBERS, NEW_MINIMUM = 322, 901, 905
NO_PERMISSION, INVALID = 16, 29


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with name_server(tmp_path_factory.mktemp("admin")) as running:
        yield running


@pytest.fixture
def client(server: Serving) -> Iterator[Client]:
    with Client(server.address("namesrv")) as client:
        yield client
    with Client(server.address("namesrv")) as other:
        eventually(lambda: clusters(other) == {}, "what was registered is gone")


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


def test_data_version(client: Client) -> None:
    where = place("b1", 5001)
    same = b'{"counter":1,"timestamp":1,"stateVersion":0}'
    unknown = client.call(DATA_VERSION, same, **where)
    assert (unknown.ext, unknown.body) == ({"changed": "true"}, b"")
    register(client, where)
    known = client.call(DATA_VERSION, same, **where)
    assert known.ext == {"changed": "false"}
    assert json.loads(known.body) == json.loads(same)
    for other in (same.replace(b"1", b"2", 1), same.replace(b"0", b"1"), b""):
        assert client.call(DATA_VERSION, other, **where).ext == {"changed": "true"}


def test_members_of_a_group(client: Client) -> None:
    register(client, place("b1", 5001))
    register(client, place("b1", 5002, broker_id=1))
    found = loose(client.call(MEMBERS, clusterName="C1", brokerName="b1").body)
    assert found == {
        "brokerMemberGroup": {
            "brokerAddrs": {"0": "127.0.0.1:5001", "1": "127.0.0.1:5002"},
            "brokerName": "b1",
            "cluster": "C1",
        }
    }
    none = loose(client.call(MEMBERS, clusterName="C1", brokerName="none").body)
    assert none["brokerMemberGroup"]["brokerAddrs"] == {}


def test_zones(client: Client) -> None:
    register(client, place("b1", 5001), __ZONE_NAME="east")
    register(client, place("b2", 5002), __ZONE_NAME="west")
    register(client, place("b3", 5003))
    assert [b.get("zoneName") for b in routed(client, "Alpha")["brokerDatas"]] == [
        "east", "west", None,
    ]  # fmt: skip

    def seen(mode: str, zone: str) -> set[str]:
        found = routed(client, "Alpha", __ZONE_MODE=mode, __ZONE_NAME=zone)
        names = {b["brokerName"] for b in found["brokerDatas"]}
        assert names == {q["brokerName"] for q in found["queueDatas"]}
        return names

    assert seen("true", "EAST") == {"b1"}
    assert seen("true", "none") == set()
    for mode, zone in (("false", "east"), ("true", " "), ("", "east")):
        assert seen(mode, zone) == {"b1", "b2", "b3"}


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


# -- groups with acting masters -----------------------------------------------------------------


class Member:
    """A broker that listens for what the name server tells it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def told(self) -> tuple[int, int, dict[str, str]]:
        """Code, flag and fields of the next request."""
        connection, _ = self._listener.accept()
        reader = FrameReader()
        with connection:
            connection.settimeout(10)
            found: list[Command] = []
            while not found:
                found = list(reader.feed(connection.recv(4096)))
        return found[0].code, found[0].flag, found[0].ext

    def close(self) -> None:
        self._listener.close()


def test_a_group_with_an_acting_master(tmp_path: Path) -> None:
    conf = "supportActingMaster=true\nnotifyMinBrokerIdChanged=true\n"
    with ExitStack() as stack:
        server = stack.enter_context(name_server(tmp_path, conf))
        client = stack.enter_context(Client(server.address("namesrv")))
        master, slave, other = (Member() for _ in range(3))
        for member in (master, slave, other):
            stack.callback(member.close)

        def join(member: Member, broker_id: int) -> None:
            where = place("b1", member.port, broker_id)
            assert register(client, where, enableActingMaster="true").code == 0

        join(other, 2)
        join(slave, 1)
        ha = "127.0.0.1:1"
        news = {"minBrokerId": "1", "minBrokerAddr": slave.address, "haBrokerAddr": ha}
        assert other.told() == (NEW_MINIMUM, 2, news)
        join(master, 0)
        news = {"minBrokerId": "0", "minBrokerAddr": master.address, "haBrokerAddr": ha}
        assert other.told() == slave.told() == (NEW_MINIMUM, 2, news)
        found = routed(client, "Alpha")
        assert found["brokerDatas"][0]["brokerAddrs"]["0"] == master.address
        assert found["queueDatas"][0]["perm"] == 6
        unregister(client, place("b1", master.port))
        news = {
            "minBrokerId": "1", "minBrokerAddr": slave.address,
            "offlineBrokerAddr": master.address,
        }  # fmt: skip
        assert other.told() == slave.told() == (NEW_MINIMUM, 2, news)
        found = routed(client, "Alpha")
        assert found["brokerDatas"][0]["brokerAddrs"] == {"0": slave.address, "2": other.address}
        assert found["queueDatas"][0]["perm"] == 4, "it takes no messages"
        assert client.call(UPDATE_CONFIG, b"supportActingMaster=false").code == 0
        found = routed(client, "Alpha")
        assert found["brokerDatas"][0]["brokerAddrs"] == {"1": slave.address, "2": other.address}


def test_a_member_that_cannot_be_told(tmp_path: Path) -> None:
    """It is logged, and whoever comes next is told."""
    conf = "notifyMinBrokerIdChanged=true\n"
    with name_server(tmp_path, conf) as server, Client(server.address("namesrv")) as client:
        there, closed = Member(), Member()
        closed.close()
        for name, member in (("b1", closed), ("b2", there)):
            for broker_id, port in ((1, member.port), (0, 1)):
                where = place(name, port + (name == "b2") * (not broker_id), broker_id)
                assert register(client, where, enableActingMaster="true").code == 0
        assert there.told()[0] == NEW_MINIMUM
        assert "cannot connect to" in server.stderr()
        there.close()


# -- many topics --------------------------------------------------------------------------------

MANY = 20_000


def many_topics(version: int) -> bytes:
    wrapper = {
        "dataVersion": {"counter": version, "timestamp": version, "stateVersion": 0},
        "topicConfigTable": {
            f"Topic{n}": {
                "attributes": {}, "order": False, "perm": 6, "readQueueNums": version,
                "topicFilterType": "SINGLE_TAG", "topicName": f"Topic{n}", "topicSysFlag": 0,
                "writeQueueNums": 8,
            }
            for n in range(MANY)
        },
    }  # fmt: skip
    return json.dumps({"topicConfigSerializeWrapper": wrapper}, separators=(",", ":")).encode()


def test_others_are_answered_while_many_topics_register(client: Client, server: Serving) -> None:
    """Answers come in between: the one who registers is answered behind them."""
    where = {**place("big", 5001), "haServerAddr": "127.0.0.1:1"}
    with Client(server.address("namesrv")) as broker:
        for version in (1, 2):
            broker.post(Command(REGISTER_BROKER, where, many_topics(version)))
            between = 0
            while True:
                try:
                    answer = broker.receive(0.0001)
                except TimeoutError:
                    assert client.call(MEMBERS, clusterName="C1", brokerName="big").code == 0
                    between += 1
                else:
                    break
            assert answer.code == 0, answer.remark
            assert between >= 10
        assert routed(client, f"Topic{MANY - 1}")["queueDatas"][0]["readQueueNums"] == 2
        assert len(topics(client, GET_ALL_TOPIC_LIST)) == MANY
        unregister(broker, place("big", 5001))
        assert client.call(GET_ALL_TOPIC_LIST).body == b'{"topicList":[]}'


def test_a_broker_that_leaves_while_it_registers(client: Client, server: Serving) -> None:
    """Nothing of it stays, whether it says so or its connection ends."""
    where = {**place("big", 5001), "haServerAddr": "127.0.0.1:1"}
    with Client(server.address("namesrv")) as broker:
        broker.post(Command(REGISTER_BROKER, where, many_topics(1)))
        broker.post(Command(104, place("big", 5001)))
        answers = [broker.receive(), broker.receive()]
        assert sorted(answer.code for answer in answers) in ([0, 0], [0, 1])
        assert clusters(client) == {}
        broker.post(Command(REGISTER_BROKER, where, many_topics(1)))
    start = time.monotonic()
    while time.monotonic() < start + 0.5:
        client.call(GET_ALL_TOPIC_LIST)
    assert clusters(client) == {}
    assert client.call(GET_ALL_TOPIC_LIST).body == b'{"topicList":[]}'


def test_a_later_registration_counts(client: Client, server: Serving) -> None:
    """A small one that comes behind a large one is not overwritten when that is read."""
    where = {**place("big", 5001), "haServerAddr": "127.0.0.1:1"}
    with Client(server.address("namesrv")) as broker:
        register(broker, place("big", 5001), topics=("Topic1", "More"), version=1, queues=5)
        broker.post(Command(REGISTER_BROKER, where, many_topics(2)))
        small = {"dataVersion": {"counter": 4}, "topicConfigTable": {"Topic1": {"perm": 4}}}
        broker.post(Command(REGISTER_BROKER, where, json.dumps(small).encode()))
        answers = [broker.receive(), broker.receive()]
        assert sorted(answer.code for answer in answers) in ([0, 0], [0, 1])
        assert routed(client, "Topic1")["queueDatas"][0]["perm"] == 4
