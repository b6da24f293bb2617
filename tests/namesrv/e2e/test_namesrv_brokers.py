"""What brokers ask of a name server: data versions, members of their group; zones, groups with
acting masters, and brokers with very many topics."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.client import REGISTER_BROKER, Client
from tests.support.command import Serving
from tests.support.namesrv import (
    GET_ALL_TOPIC_LIST,
    clusters,
    loose,
    name_server,
    place,
    register,
    registering,
    routed,
    unregister,
)
from tests.support.waiting import eventually
from tests.support.wire import Command, FrameReader

DATA_VERSION, MEMBERS, UPDATE_CONFIG, NEW_MINIMUM = 322, 901, 318, 905


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with name_server(tmp_path_factory.mktemp("admin")) as running:
        yield running


@pytest.fixture
def client(server: Serving) -> Iterator[Client]:
    with registering(server) as client:
        yield client


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
        eventually(lambda: "cannot connect to" in server.stderr(), "it is logged")
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
        assert len(json.loads(client.call(GET_ALL_TOPIC_LIST).body)["topicList"]) == MANY
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
