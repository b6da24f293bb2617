"""Every request that the name server processes. Codes: sheets of remoting (3.8) and broker (11)."""

from __future__ import annotations

import json
from typing import Any

from pyrmq.model.codes import RequestCode as Code
from tests.system.hostile.requests.rows import Row

KEPT = "broker-kept"
"""A broker that stays."""
LONG = "x" * 600
_PLACE = {
    "brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "clusterName": "C", "brokerId": "0",
}  # fmt: skip
_NAMES = {"": 29, "a b": 29, "../up": 29, "a/b": 29, LONG: 29, "a\nb": 29}
_PLACES = {
    "brokerName": _NAMES,
    "clusterName": _NAMES,
    "brokerAddr": {"": 29, "nowhere": 29, "127.0.0.1:0": 29, "127.0.0.1:70000": 29, "a b:1": 29},
    "brokerId": {"-1": 29, "9223372036854775808": 29, "text": 29, "1.5": 29, "": 29},
}
_KV_NAMES = {"": 29, "a\nb": 29, LONG: 29}


NO_ORDER = (
    "", "8", "broker-a", "broker-a:", "broker-a:x", "broker-a:-1", "broker-a:0", "broker-a:8;",
    "broker-a:2147483648", "broker-a:9223372036854775808", "broker-a:8,broker-b:8", ":8",
)  # fmt: skip
"""Order configurations that clients cannot read."""
_ORDER = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Ordered"}


def _order(value: str, word: str) -> tuple[dict[str, str], int, str]:
    return {**_ORDER, "value": value}, 29, word


def _body(**values: Any) -> bytes:
    return json.dumps(values).encode()


def _topics(**change: Any) -> bytes:
    topic = {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, **change}
    name = topic["topicName"]
    wrapper = {"dataVersion": {"counter": 1}, "topicConfigTable": {str(name): topic}}
    return _body(topicConfigSerializeWrapper=wrapper)


def _version(**change: Any) -> bytes:
    wrapper = {"dataVersion": {"counter": 1, **change}, "topicConfigTable": {}}
    return _body(topicConfigSerializeWrapper=wrapper)


def _queues(**change: Any) -> bytes:
    queue = {"brokerName": KEPT, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    return _body(queueDatas=[{**queue, **change}])


ROWS: dict[int, Row] = {
    Code.PUT_KV_CONFIG: Row(
        ext={"namespace": "N", "key": "k", "value": "v"},
        bad={"namespace": _KV_NAMES, "key": _KV_NAMES, "value": {"v" * 40_000: 29}},
        changed=(
            *(_order(value, "broker:number") for value in NO_ORDER),
            _order("a b:8", "illegal"),
            _order("broker-a:8;broker-a:4", "twice"),
            ({**_ORDER, "key": "a b", "value": "broker-a:8"}, 29, "topic"),
        ),
    ),
    Code.GET_KV_CONFIG: Row(
        ext={"namespace": "N", "key": "none"}, ok=22, unknown={"namespace": 22, "key": 22}
    ),
    Code.DELETE_KV_CONFIG: Row(
        ext={"namespace": "N", "key": "none"}, unknown={"namespace": 0, "key": 0}
    ),
    Code.GET_KVLIST_BY_NAMESPACE: Row(
        ext={"namespace": "none"}, ok=22, unknown={"namespace": 22}
    ),
    Code.REGISTER_BROKER: Row(
        ext={**_PLACE, "haServerAddr": "127.0.0.1:10912", "heartbeatTimeoutMillis": "120000",
             "enableActingMaster": "false", "compressed": "false", "bodyCrc32": "0"},
        body=_body(topicConfigSerializeWrapper={"topicConfigTable": {}}),
        optional=frozenset({"haServerAddr", "heartbeatTimeoutMillis", "enableActingMaster",
                            "compressed", "bodyCrc32"}),
        bad={
            **_PLACES,
            "haServerAddr": {"nowhere": 29, "127.0.0.1:0": 29},
            "heartbeatTimeoutMillis": {"-1": 29, "text": 29, "9223372036854775808": 29},
            "enableActingMaster": {"maybe": 29},
            "bodyCrc32": {"5": 1},
        },
        says={"bodyCrc32": "crc32"},
        twice=1,
        shapes={
            b"{": (1, "JSON"),
            b"no json": (1, "JSON"),
            b"[1]": (1, "JSON"),
            b"\x78\x9cgarbage": (1, "register body"),
            _body(topicConfigSerializeWrapper=5): (1, "topicConfigSerializeWrapper"),
            _body(topicConfigSerializeWrapper={"topicConfigTable": 5}): (1, "topicConfigTable"),
            _body(topicConfigSerializeWrapper={"topicConfigTable": {"T": 5}}):
                (1, "topicConfigTable"),
            _version(counter="x"): (1, "counter"),
            _version(timestamp=1 << 63): (1, "timestamp"),
            _topics(perm=16): (1, "perm"),
            _topics(perm=-1): (1, "perm"),
            _topics(perm="6"): (1, "perm"),
            _topics(readQueueNums=-1): (1, "readQueueNums"),
            _topics(readQueueNums=1 << 31): (1, "readQueueNums"),
            _topics(writeQueueNums=1 << 63): (1, "writeQueueNums"),
            _topics(topicSysFlag="x"): (1, "topicSysFlag"),
            _topics(topicName="a b"): (29, "topic"),
            _topics(topicName="../up"): (29, "topic"),
        },
    ),
    Code.UNREGISTER_BROKER: Row(ext={**_PLACE, "brokerAddr": "127.0.0.1:1"}, bad=_PLACES),
    Code.BROKER_HEARTBEAT: Row(
        ext={key: _PLACE[key] for key in ("brokerName", "brokerAddr", "clusterName")},
        unknown={"clusterName": 0, "brokerName": 0},
        bad={key: _PLACES[key] for key in ("brokerName", "brokerAddr", "clusterName")},
    ),
    Code.QUERY_DATA_VERSION: Row(
        ext=_PLACE,
        body=b"{}",
        bad=_PLACES,
        shapes={
            b"{": (1, "JSON"), b"no json": (1, "JSON"), b"[1]": (1, "JSON"),
            b'{"counter":"x"}': (1, "counter"), b'{"timestamp":9223372036854775808}': (1, "time"),
        },
    ),
    Code.GET_BROKER_MEMBER_GROUP: Row(
        ext={"clusterName": "C", "brokerName": "broker-a"},
        unknown={"clusterName": 0, "brokerName": 0},
        bad={"clusterName": _NAMES, "brokerName": _NAMES},
    ),
    Code.REGISTER_TOPIC_IN_NAMESRV: Row(
        ext={"topic": "Routed"},
        body=_queues(),
        json=True,
        bad={"topic": {"": 29, "a b": 29, "../up": 29, LONG: 29}},
        shapes={
            b"{}": (29, "queueDatas"),
            _body(queueDatas=5): (29, "queueDatas"),
            _body(queueDatas=[]): (29, "queueDatas"),
            _body(queueDatas=[5]): (29, "brokerName"),
            _queues(brokerName=5): (29, "brokerName"),
            _queues(brokerName="NotThere"): (29, "NotThere"),
            _queues(perm=99): (1, "perm"),
            _queues(readQueueNums=-1): (1, "readQueueNums"),
            _queues(writeQueueNums="x"): (1, "writeQueueNums"),
            _queues(note="x" * 70_000): (29, "65536"),
        },
    ),
    Code.GET_ROUTEINFO_BY_TOPIC: Row(ext={"topic": "NoRoute"}, ok=17, unknown={"topic": 17}),
    Code.GET_BROKER_CLUSTER_INFO: Row(),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Row(),
    Code.GET_TOPICS_BY_CLUSTER: Row(ext={"cluster": "C"}, unknown={"cluster": 0}),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: Row(),
    Code.GET_UNIT_TOPIC_LIST: Row(),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: Row(),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Row(),
    Code.DELETE_TOPIC_IN_NAMESRV: Row(
        ext={"topic": "none", "clusterName": "C"},
        optional=frozenset({"clusterName"}),
        unknown={"topic": 0, "clusterName": 0},
    ),
    Code.WIPE_WRITE_PERM_OF_BROKER: Row(
        ext={"brokerName": "none"}, bad={"brokerName": _NAMES}, unknown={"brokerName": 0}
    ),
    Code.ADD_WRITE_PERM_OF_BROKER: Row(
        ext={"brokerName": "none"}, bad={"brokerName": _NAMES}, unknown={"brokerName": 0}
    ),
    Code.UPDATE_NAMESRV_CONFIG: Row(
        body=b"enableTopicList=true\n",
        shapes={
            b"": (29, "key=value"),
            b"\xff\xfe=\xff": (29, "UTF-8"),
            b"noSuchKey=5": (29, "noSuchKey"),
            b"kvConfigPath=/tmp/elsewhere": (16, "kvConfigPath"),
            b"enableTopicList=maybe": (29, "enableTopicList"),
            b"scanNotActiveBrokerInterval=-1": (29, "scanNotActiveBrokerInterval"),
            b"scanNotActiveBrokerInterval=9223372036854775808": (29, "scanNotActiveBrokerInterval"),
            b"scanNotActiveBrokerInterval=x": (29, "scanNotActiveBrokerInterval"),
            b"k" * 70_000: (29, "65536"),
        },
    ),
    Code.GET_NAMESRV_CONFIG: Row(),
}  # fmt: skip
