"""Every request of the name server as a table: what it needs, what it refuses, what is unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.support.client import Client
from tests.support.command import Serving
from tests.support.namesrv import clusters, name_server, place, register, unregister
from tests.support.wire import BINARY, JSON, Command

SYSTEM_ERROR, NO_PERMISSION, NO_TOPIC, NOT_FOUND, INVALID = 1, 16, 17, 22, 29
KV = {"namespace": "N", "key": "K"}
ROUTE = {"queueDatas": [{"brokerName": "b1", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}
NAMES = ("", "a b", "a/b", "a\nb", "\x1b[31m", "ä", "b" * 256)
TOPIC_NAMES = (*NAMES[:-1], "t" * 513)
ADDRESSES = ("", "host", "host:", ":1", "host:0", "host:65536", "host:x", "a b:1", "\x1b:1", "ä:1")
IDS = ("", "x", "-1", "1.5", str(2**63), "9" * 30)


@dataclass
class Request:
    """`bad`: values that a field cannot have; `unknown`: fields of something that is not there, and
    the code that this gives; `optional`: fields that may be missing."""

    code: int
    good: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    bad: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bad_bodies: tuple[bytes, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)
    unknown_code: int = 0
    optional: tuple[str, ...] = ()


PLACE = place("b1", 5001)
BAD_PLACE = {
    "brokerName": NAMES, "clusterName": NAMES, "brokerAddr": ADDRESSES, "brokerId": IDS,
}  # fmt: skip
NO_JSON = (b"{", b"[]", b"7", b"\xff", b"[" * 100_000)

REQUESTS = {
    "put": Request(
        100, {**KV, "value": "V"},
        bad={"namespace": ("", "a\nb", "n" * 256), "key": ("", "\x00", "k" * 256),
             "value": ("v" * 32_769, "ä" * 16_385)},
    ),
    "get": Request(101, KV, unknown={**KV, "key": "none"}, unknown_code=NOT_FOUND),
    "delete": Request(102, {**KV, "key": "other"}, unknown={"namespace": "X", "key": "none"}),
    "list": Request(219, {"namespace": "N"}, unknown={"namespace": "X"}, unknown_code=NOT_FOUND),
    "register": Request(
        103,
        {**PLACE, "haServerAddr": "127.0.0.1:1", "heartbeatTimeoutMillis": "120000",
         "enableActingMaster": "false", "__ZONE_NAME": "z1", "bodyCrc32": "0"},
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{},"dataVersion":{}}}',
        bad={**BAD_PLACE, "haServerAddr": ADDRESSES[1:], "heartbeatTimeoutMillis": IDS,
             "enableActingMaster": ("", "yes", "1"), "__ZONE_NAME": NAMES[1:], "bodyCrc32": ("7",)},
        bad_bodies=(*NO_JSON, b"\x78\x9c", b'{"dataVersion":7}', b'{"topicConfigTable":[]}'),
        optional=("haServerAddr", "heartbeatTimeoutMillis", "enableActingMaster", "__ZONE_NAME",
                  "bodyCrc32"),
    ),
    "unregister": Request(
        104, place("b2", 5002), bad=BAD_PLACE, unknown=place("none", 5999, cluster="C9"),
    ),
    "heartbeat": Request(
        904, PLACE, unknown=place("none", 5999), optional=("brokerId",),
    ),
    "version": Request(
        322, PLACE, b'{"counter":1,"timestamp":1,"stateVersion":0}', bad=BAD_PLACE,
        bad_bodies=(*NO_JSON, b'{"counter":"x"}', b" " * 70_000), unknown=place("none", 5999),
    ),
    "members": Request(
        901, {"clusterName": "C1", "brokerName": "b1"},
        bad={"clusterName": NAMES, "brokerName": NAMES},
        unknown={"clusterName": "C1", "brokerName": "none"},
    ),
    "one topic": Request(
        217, {"topic": "New"}, json.dumps(ROUTE).encode(), bad={"topic": TOPIC_NAMES},
        bad_bodies=(*NO_JSON, b"", b"{}", b'{"queueDatas":[]}', b'{"queueDatas":[7]}',
                    b'{"queueDatas":[{"brokerName":"none"}]}', b" " * 70_000,
                    b'{"queueDatas":[{"brokerName":"b1","perm":"x"}]}'),
    ),
    "route": Request(
        105, {"topic": "Alpha", "__ZONE_MODE": "true", "__ZONE_NAME": "none"},
        optional=("__ZONE_MODE", "__ZONE_NAME"), unknown={"topic": "none"}, unknown_code=NO_TOPIC,
    ),
    "cluster": Request(106),
    "all topics": Request(206),
    "topics of cluster": Request(224, {"cluster": "C1"}, unknown={"cluster": "none"}),
    "system topics": Request(304),
    "unit topics": Request(311),
    "unit sub topics": Request(312),
    "unit sub ununit topics": Request(313),
    "delete topic": Request(
        216, {"topic": "Gone", "clusterName": "C1"}, optional=("clusterName",),
        unknown={"topic": "none", "clusterName": "none"},
    ),
    "wipe": Request(205, {"brokerName": "b1"}, bad={"brokerName": NAMES},
                    unknown={"brokerName": "none"}),
    "add": Request(327, {"brokerName": "b1"}, bad={"brokerName": NAMES},
                   unknown={"brokerName": "none"}),
    "update config": Request(
        318, body=b"enableTopicList=true",
        bad_bodies=(b"", b"\xff", b"enableTopicList", b"enableTopicList=maybe", b"nonsense=1",
                    b"scanNotActiveBrokerInterval=5", b"enableTopicList=true\nnonsense=1",
                    b"enableTopicList=" + b"x" * 70_000),
    ),
    "config": Request(319),
}  # fmt: skip
ALL = pytest.mark.parametrize("name", REQUESTS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with name_server(tmp_path_factory.mktemp("requests")) as running:
        yield running


@pytest.fixture
def client(server: Serving) -> Iterator[Client]:
    """With two brokers and a key, which are there before each case and after it."""
    with Client(server.address("namesrv")) as client:
        for name, port in (("b1", 5001), ("b2", 5002)):
            assert register(client, place(name, port)).code == 0
        assert client.call(100, **KV, value="V").code == 0
        yield client
        assert clusters(client)["C1"] in (["b1", "b2"], ["b1"])
        assert client.call(101, **KV).ext == {"value": "V"}
        unregister(client, place("b1", 5001), place("b2", 5002))


def test_the_table_has_all_requests() -> None:
    """Those of DefaultRequestProcessor and ClientRequestProcessor of RocketMQ 5."""
    assert {request.code for request in REQUESTS.values()} == {
        100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318,
        319, 322, 327, 901, 904,
    }  # fmt: skip


@ALL
@pytest.mark.parametrize("serialize", [JSON, BINARY], ids=["json", "binary"])
def test_good_ones(client: Client, name: str, serialize: int) -> None:
    request = REQUESTS[name]
    command = Command(request.code, request.good, request.body, serialize=serialize)
    answer = client.request(command)
    assert answer.code == 0, answer.remark


@ALL
def test_missing_fields(client: Client, name: str) -> None:
    request = REQUESTS[name]
    for missing in request.good:
        ext = {key: value for key, value in request.good.items() if key != missing}
        answer = client.call(request.code, request.body, **ext)
        if missing in request.optional:
            assert answer.code == 0, f"{missing}: {answer.remark}"
        else:
            assert answer.code == SYSTEM_ERROR
            assert answer.remark == f"the custom field <{missing}> is null"


@ALL
def test_bad_values(client: Client, name: str) -> None:
    request = REQUESTS[name]
    for key, values in request.bad.items():
        for value in values:
            answer = client.call(request.code, request.body, **{**request.good, key: value})
            assert answer.code in (SYSTEM_ERROR, INVALID), f"{key}={value!r}: {answer}"
            assert answer.remark
            assert len(answer.remark) < 300
    for body in request.bad_bodies:
        answer = client.call(request.code, body, **request.good)
        assert answer.code in (SYSTEM_ERROR, INVALID), f"{body[:60]!r}: {answer}"
        assert answer.remark


@ALL
def test_unknown_names(client: Client, name: str) -> None:
    request = REQUESTS[name]
    if request.unknown:
        answer = client.call(request.code, request.body, **request.unknown)
        assert answer.code == request.unknown_code, answer.remark


def test_texts_of_the_kv_configuration(client: Client) -> None:
    """As RocketMQ's."""
    missing = client.call(101, namespace="N", key="none")
    assert missing.remark == "No config item, Namespace: N Key: none"
    assert client.call(219, namespace="X").remark == "No config item, Namespace: X"


def test_requests_of_others(client: Client) -> None:
    for code in (10, 11, 34, 303, 907, 9999):
        assert client.call(code).code == 3
