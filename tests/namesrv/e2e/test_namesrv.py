"""The name server on the wire: registrations, routes in both JSON forms, and brokers that go."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import REGISTER_BROKER, Client
from tests.support.command import Serving
from tests.support.namesrv import (
    BROKER_HEARTBEAT,
    GET_ALL_TOPIC_LIST,
    GET_BROKER_CLUSTER_INFO,
    UNREGISTER_BROKER,
    clusters,
    loose,
    name_server,
    place,
    register,
    route,
)
from tests.support.server import ServerProcess
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with name_server(tmp_path_factory.mktemp("namesrv"), "scanNotActiveBrokerInterval=50\n") as it:
        yield it


@pytest.fixture
def namesrv(server: Serving) -> Iterator[Client]:
    with Client(server.address("namesrv")) as connection:
        yield connection


def test_routes_in_both_forms(namesrv: Client) -> None:
    assert register(namesrv, place("b1", 5001)).code == 0
    strict, old = route(namesrv, "Alpha"), route(namesrv, "Alpha", version=400)
    assert strict.code == old.code == 0
    assert b'"brokerAddrs":{"0":"127.0.0.1:5001"}' in strict.body
    assert b'"brokerAddrs":{0:"127.0.0.1:5001"}' in old.body
    assert json.loads(strict.body) == loose(old.body)
    asked = route(namesrv, "Alpha", version=1, acceptStandardJsonOnly="true")
    assert asked.body == strict.body
    value = json.loads(strict.body)
    (queue,) = value["queueDatas"]
    assert (queue["brokerName"], queue["readQueueNums"], queue["perm"]) == ("b1", 4, 6)
    assert value["brokerDatas"][0]["cluster"] == "C1"
    namesrv.call(UNREGISTER_BROKER, **place("b1", 5001))


def test_two_brokers_of_a_topic_and_the_lists(namesrv: Client) -> None:
    register(namesrv, place("b1", 5001))
    register(namesrv, place("b2", 5002), topics=("Beta", "Gamma"), queues=8)
    names = [q["brokerName"] for q in json.loads(route(namesrv, "Beta").body)["queueDatas"]]
    assert sorted(names) == ["b1", "b2"]
    topics = loose(namesrv.call(GET_ALL_TOPIC_LIST).body)["topicList"]
    assert {"Alpha", "Beta", "Gamma"} <= set(topics)
    assert clusters(namesrv) == {"C1": ["b1", "b2"]}
    assert b'{0:"127.0.0.1:5001"}' in namesrv.call(GET_BROKER_CLUSTER_INFO).body
    assert namesrv.call(UNREGISTER_BROKER, **place("b1", 5001)).code == 0
    missing = route(namesrv, "Alpha")
    assert missing.code == 17
    assert "Alpha" in (missing.remark or "")
    assert clusters(namesrv) == {"C1": ["b2"]}
    namesrv.call(UNREGISTER_BROKER, **place("b2", 5002))
    assert clusters(namesrv) == {}


def test_a_changed_topic_is_routed_anew(namesrv: Client) -> None:
    register(namesrv, place("b1", 5001))
    register(namesrv, place("b1", 5001), version=2, queues=16)
    (queue,) = json.loads(route(namesrv, "Alpha").body)["queueDatas"]
    assert queue["writeQueueNums"] == 16
    namesrv.call(UNREGISTER_BROKER, **place("b1", 5001))


def test_a_slave_learns_its_master(namesrv: Client) -> None:
    register(namesrv, place("b1", 5001))
    answer = register(namesrv, place("b1", 5011, broker_id=1))
    assert answer.ext["masterAddr"] == "127.0.0.1:5001"
    addresses = json.loads(route(namesrv, "Alpha").body)["brokerDatas"][0]["brokerAddrs"]
    assert addresses == {"0": "127.0.0.1:5001", "1": "127.0.0.1:5011"}
    namesrv.call(UNREGISTER_BROKER, **place("b1", 5011, broker_id=1))
    namesrv.call(UNREGISTER_BROKER, **place("b1", 5001))


def test_compressed_registration(namesrv: Client) -> None:
    def piece(text: str) -> bytes:
        return struct.pack(">i", len(text.encode())) + text.encode()

    plain = piece('{"counter":3,"stateVersion":0,"timestamp":3}') + struct.pack(">i", 2)
    plain += piece("Zipped 4 4 6 SINGLE_TAG") + piece('Other 8 8 6 SINGLE_TAG {"a":"b"}')
    body = zlib.compress(plain + piece("[]") + struct.pack(">i", 0))
    ext = {**place("bz", 5003), "haServerAddr": "127.0.0.1:1", "compressed": "true"}
    crc = zlib.crc32(body) & 0x7FFFFFFF
    assert namesrv.call(REGISTER_BROKER, body, **ext, bodyCrc32=crc + 1).code == 1
    assert namesrv.call(REGISTER_BROKER, body, **ext, bodyCrc32=crc).code == 0
    assert json.loads(route(namesrv, "Other").body)["queueDatas"][0]["readQueueNums"] == 8
    namesrv.call(UNREGISTER_BROKER, **place("bz", 5003))


def test_registrations_that_are_refused(namesrv: Client) -> None:
    assert register(namesrv, place("b9", 5009), topics=("Single",)).code == 1
    assert namesrv.call(REGISTER_BROKER, b"{", **place("b9", 5009)).code == 1
    answer = namesrv.call(REGISTER_BROKER, b"", brokerName="b9")
    assert answer.code in (1, 29)
    assert "clusterName" in (answer.remark or "")
    assert clusters(namesrv) == {}


def test_a_silent_broker_expires_and_a_heartbeat_keeps_it(namesrv: Client, server: Serving) -> None:
    register(namesrv, place("silent", 5004), heartbeatTimeoutMillis="300")
    register(namesrv, place("alive", 5005), heartbeatTimeoutMillis="3000")

    def only_alive() -> bool:
        namesrv.call(BROKER_HEARTBEAT, **place("alive", 5005))
        return clusters(namesrv) == {"C1": ["alive"]}

    eventually(only_alive, "the silent broker is dropped")
    assert "silent" in server.stderr()
    eventually(lambda: clusters(namesrv) == {}, "without heartbeats the other one goes too")
    assert route(namesrv, "Alpha").code == 17


def test_the_end_of_its_connection_unregisters_a_broker(server: Serving, namesrv: Client) -> None:
    with Client(server.address("namesrv")) as broker:
        register(broker, place("b1", 5001))
        assert route(namesrv, "Alpha").code == 0
    eventually(lambda: route(namesrv, "Alpha").code == 17, "the broker is unregistered")
    assert clusters(namesrv) == {}


def test_a_broker_that_connects_anew_stays(server: Serving, namesrv: Client) -> None:
    """The old connection's end must not take out what the new one registered."""
    old = Client(server.address("namesrv"))
    register(old, place("b1", 5001))
    register(namesrv, place("b1", 5001), version=2)
    old.close()
    with Client(server.address("namesrv")) as third:
        third.call(GET_ALL_TOPIC_LIST)
    # The end of a connection that registered another broker is seen behind that of the old one.
    with Client(server.address("namesrv")) as other:
        register(other, place("b2", 5002), topics=("OfTheOther", "More"))
        assert route(namesrv, "OfTheOther").code == 0
    eventually(lambda: route(namesrv, "OfTheOther").code == 17, "the other one is unregistered")
    assert route(namesrv, "Alpha").code == 0
    namesrv.call(UNREGISTER_BROKER, **place("b1", 5001))


def test_a_real_broker_in_all_answers(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as process, Client(process.namesrv) as client:
        with Client(process.broker) as sender:
            sender.send("Routed")
        eventually(lambda: route(client, "Routed").code == 0, "a new topic is routed")
        value = json.loads(route(client, "Routed").body)
        host, port = process.broker
        assert value["brokerDatas"][0]["brokerAddrs"] == {"0": f"{host}:{port}"}
        assert clusters(client) == {"DefaultCluster": ["broker-a"]}
        assert "Routed" in loose(client.call(GET_ALL_TOPIC_LIST).body)["topicList"]
        assert client.call(310).code == 3, "a name server stores no messages"
