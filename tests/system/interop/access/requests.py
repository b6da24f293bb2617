"""Every request that Apache RocketMQ 5.5.0 has a code for, with fields that it takes.

The fields come from the header classes (remoting sheet, section 3). A code has several variants
where the resources that it needs depend on its fields.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.support.records import encode_batch
from tests.support.wire import Command

CLUSTER = "DefaultCluster"
TOPIC = "AccessTopic"
GROUP = "AccessGroup"
OTHER = "OtherGroup"
RETRY = f"%RETRY%{GROUP}"
NOW = "1700000000000"
PLAIN = "fields"
"""The variant of a code that has just one."""


@dataclass(frozen=True)
class Request:
    """One variant of a request; `late`: it changes how the whole broker works."""

    code: int
    variant: str = PLAIN
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    late: bool = False

    def command(self) -> Command:
        return Command(self.code, dict(self.ext), self.body)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_TOPIC = {"topic": TOPIC}
_GROUP = {"group": GROUP}
_CONSUMER = {"consumerGroup": GROUP}
_QUEUE = {**_TOPIC, "queueId": "0"}
_MEMBER = {"consumerGroup": GROUP, "clientId": "client@1"}

SEND = {
    "producerGroup": "PG", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "0", "sysFlag": "0", "bornTimestamp": NOW, "flag": "0", "properties": "",
    "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
}  # fmt: skip
SEND_V2 = {
    "a": "PG", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": NOW, "h": "0",
    "i": "", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip
PULL = {
    "consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1",
    "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
    "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip
BACK = {"offset": "0", "group": GROUP, "delayLevel": "1", "originTopic": TOPIC}
END = {
    "producerGroup": "PG", "tranStateTableOffset": "0", "commitLogOffset": "0",
    "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": "0", "transactionId": "0",
}  # fmt: skip
TOPIC_SETTINGS = {
    "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4",
    "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
}  # fmt: skip
BROKER = {
    "brokerName": "broker-a", "brokerAddr": "127.0.0.1:1", "clusterName": CLUSTER,
    "haServerAddr": "127.0.0.1:2", "brokerId": "0",
}  # fmt: skip
_MQ = {"topic": TOPIC, "brokerName": "broker-a", "queueId": 0}
_LOCK = {"clientId": "client@1", "consumerGroup": GROUP, "mqSet": [_MQ], "onlyThisBroker": False}
_TOPIC_CONFIG = {
    "topicName": TOPIC, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip
_POP = {**_CONSUMER, **_QUEUE, "maxMsgNums": "1", "invisibleTime": "1000", "pollTime": "0",
        "bornTime": "0", "initMode": "0"}  # fmt: skip
_ACK = {**_CONSUMER, **_QUEUE, "extraInfo": f"0 {NOW} 60000 0 0 broker-a 0 0", "offset": "0"}
_TIMES = {"key": "K", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": NOW}


def heartbeat(*topics: str, group: str | None = GROUP) -> bytes:
    """HeartbeatData of a consumer, or of a producer where there is no group."""
    data: dict[str, object] = {"clientID": "client@1"}
    if group is None:
        return _json(data | {"producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []})
    wanted = [
        {"topic": topic, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1,
         "expressionType": "TAG", "classFilterMode": False}
        for topic in topics
    ]  # fmt: skip
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": wanted,
        "unitMode": False,
    }  # fmt: skip
    return _json(data | {"producerDataSet": [], "consumerDataSet": [consumer]})


def batch() -> bytes:
    return encode_batch([(b"one", {}), (b"two", {})])


def _retry_send() -> list[Request]:
    v2 = {**SEND_V2, "b": RETRY}
    return [
        Request(10, "retry topic", {**SEND, "topic": RETRY}, b"hello"),
        Request(10, "retry topic, group", {**SEND, "topic": RETRY, "group": OTHER}, b"hello"),
        Request(310, "retry topic", v2, b"hello"),
        Request(310, "retry topic, producer group", {**v2, "a": OTHER}, b"hello"),
        Request(310, "retry topic, no producer group", {**v2, "a": ""}, b"hello"),
        Request(320, "retry topic", {**v2, "m": "true"}, batch()),
    ]


def _clients() -> list[Request]:
    return [
        Request(10, PLAIN, SEND, b"hello"),
        Request(310, PLAIN, SEND_V2, b"hello"),
        Request(310, "batch flag", {**SEND_V2, "m": "true"}, batch()),
        Request(310, "no such topic", {**SEND_V2, "b": "NewTopic"}, b"hello"),
        Request(310, "default topic", {**SEND_V2, "b": "TBW102"}, b"hello"),
        Request(310, "trace topic", {**SEND_V2, "b": "RMQ_SYS_TRACE_TOPIC"}, b"hello"),
        Request(320, PLAIN, {**SEND_V2, "m": "true"}, batch()),
        *_retry_send(),
        Request(324, PLAIN, SEND, b"hello"),
        Request(325, PLAIN, SEND_V2, b"hello"),
        Request(11, PLAIN, PULL),
        Request(11, "retry topic", {**PULL, "topic": RETRY}),
        Request(361, PLAIN, PULL),
        Request(12, PLAIN, {**_TOPIC, **_TIMES}),
        Request(12, "unique key", {**_TOPIC, **_TIMES, "_UNIQUE_KEY_QUERY": "true"}),
        Request(14, PLAIN, {**_CONSUMER, **_QUEUE}),
        Request(14, "retry topic", {**_CONSUMER, **_QUEUE, "topic": RETRY}),
        Request(15, PLAIN, {**_CONSUMER, **_QUEUE, "commitOffset": "0"}),
        Request(15, "retry topic", {**_CONSUMER, **_QUEUE, "topic": RETRY, "commitOffset": "0"}),
        Request(29, PLAIN, {**_QUEUE, "timestamp": "0"}),
        Request(30, PLAIN, _QUEUE),
        Request(31, PLAIN, _QUEUE),
        Request(32, PLAIN, _QUEUE),
        Request(33, "no topic", {"offset": "0"}),
        Request(33, "topic", {"offset": "0", **_TOPIC}),
        Request(34, "consumer", {}, heartbeat(TOPIC, RETRY)),
        Request(34, "consumer, no topics", {}, heartbeat()),
        Request(34, "producer", {}, heartbeat(group=None)),
        Request(34, "no body", {}, b""),
        Request(35, "consumer", {"clientID": "client@1", "consumerGroup": GROUP}),
        Request(35, "producer", {"clientID": "client@1", "producerGroup": "PG"}),
        Request(36, PLAIN, BACK),
        Request(37, "no topic", END),
        Request(37, "topic", {**END, **_TOPIC}),
        Request(38, PLAIN, _CONSUMER),
        Request(41, PLAIN, {}, _json(_LOCK)),
        Request(41, "retry topic", {}, _json({**_LOCK, "mqSet": [{**_MQ, "topic": RETRY}]})),
        Request(42, PLAIN, {}, _json(_LOCK)),
        Request(46, PLAIN, {}, _json({
            "clientId": "client@1", "group": GROUP,
            "subscriptionData": {"topic": TOPIC, "subString": "*", "expressionType": "TAG"},
        })),
        Request(105, PLAIN, _TOPIC),
        Request(105, "retry topic", {"topic": RETRY}),
        Request(370, PLAIN, {**_TOPIC, "recallHandle": "dGVzdA==", "producerGroup": "PG"}),
        Request(400, PLAIN, {}, _json({
            "clientId": "client@1", "consumerGroup": GROUP, "messageModel": "CLUSTERING",
            "strategyName": "AVG", "topic": TOPIC,
        })),
        Request(200050, PLAIN, _POP),
        Request(200050, "retry topic", {**_POP, "topic": RETRY}),
        Request(200051, PLAIN, _ACK),
        Request(200052, PLAIN, {**_CONSUMER, **_QUEUE, "maxMsgNums": "1"}),
        Request(200053, PLAIN, {**_ACK, "invisibleTime": "1000"}),
        Request(200054, PLAIN, {**_CONSUMER, **_QUEUE, "pollTime": "0", "bornTime": "0"}),
        Request(200055, PLAIN, {**_CONSUMER, **_QUEUE}),
        Request(200151, PLAIN, {}, _json({"brokerName": "broker-a", "acks": []})),
    ]  # fmt: skip


def _operators() -> list[Request]:
    both = {**_TOPIC, **_GROUP}
    return [
        Request(17, PLAIN, TOPIC_SETTINGS),
        Request(18, "no fields", {}, _json({"topicConfigList": [_TOPIC_CONFIG]})),
        Request(18, PLAIN, {**_TOPIC}, _json({"topicConfigList": [_TOPIC_CONFIG]})),
        Request(21, "no fields"),
        Request(21, PLAIN, {"topicSeq": "0", "dataVersion": "", "maxTopicNum": "1"}),
        Request(25, PLAIN, {}, b"fileReservedTime=1000\n"),
        Request(25, "forbidden key", {}, b"brokerConfigPath=/tmp/x\n"),
        Request(26),
        Request(28),
        Request(43),
        Request(45),
        Request(60),
        Request(61),
        Request(200, PLAIN, {}, _json({"groupName": GROUP})),
        Request(201, "no fields"),
        Request(201, PLAIN, {"groupSeq": "0", "dataVersion": "", "maxGroupNum": "1"}),
        Request(202, PLAIN, _TOPIC),
        Request(203, PLAIN, _CONSUMER),
        Request(204, PLAIN, {"producerGroup": "PG"}),
        Request(208, PLAIN, {**_CONSUMER, **_TOPIC}),
        Request(208, "no topic", _CONSUMER),
        Request(208, "retry topic", {**_CONSUMER, "topic": RETRY}),
        Request(208, "topic list", {**_CONSUMER, "topicList": f"{TOPIC};OtherTopic"}),
        Request(222, PLAIN, {**both, "queueId": "-1", "timestamp": "-1", "isForce": "true"}),
        Request(223, PLAIN, both),
        Request(225, PLAIN, {}, _json({"groupConfigList": [{"groupName": GROUP}]})),
        Request(300, PLAIN, _TOPIC),
        Request(303, PLAIN, both),
        Request(305),
        Request(307, PLAIN, _MEMBER),
        Request(308, PLAIN, {"compareGroup": GROUP, "filterGroups": OTHER, **_TOPIC}),
        Request(308, "no filter", {"compareGroup": GROUP, **_TOPIC}),
        Request(309, PLAIN, {**_MEMBER, "msgId": "7F0000010000" + "0" * 20, **_TOPIC}),
        Request(309, "no topic", {**_MEMBER, "msgId": "7F0000010000" + "0" * 20}),
        Request(314, PLAIN, {"srcGroup": GROUP, "destGroup": OTHER, **_TOPIC, "offline": "true"}),
        Request(315, PLAIN, {"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}),
        Request(317, PLAIN, {"isOrder": "false"}),
        Request(321, PLAIN, {**_QUEUE, **_CONSUMER, "index": "0", "count": "1"}),
        Request(321, "no group", {**_QUEUE, "index": "0", "count": "1"}),
        Request(323, PLAIN, {**_TOPIC, "msgId": "7F0000010000" + "0" * 20}),
        Request(323, "no topic", {"msgId": "7F0000010000" + "0" * 20}),
        Request(328),
        Request(343, PLAIN, _GROUP),
        Request(345, PLAIN, both),
        Request(345, "no topic", _GROUP),
        Request(351, PLAIN, _TOPIC),
        Request(352, PLAIN, _GROUP),
        Request(353, PLAIN, {**both, "readable": "true"}),
        Request(354, PLAIN, {**_TOPIC, "checkStoreTime": "0"}),
        Request(401, PLAIN, {}, _json({
            "consumerGroup": GROUP, "mode": "PULL", "popShareQueueNum": 0, "topic": TOPIC,
        })),
        Request(402),
        Request(907),
        Request(1007),
        Request(2001, PLAIN, {}, b"AccessGroup=1000000\n"),
        Request(2002, PLAIN, {}, b"AccessGroup"),
        Request(2003),
        Request(200070, PLAIN, {**_CONSUMER, **_TOPIC, "clientId": "client@1", "maxMsgNum": "1",
                                "invisibleTime": "1000", "pollTime": "0", "bornTime": "0"}),
        Request(200071, PLAIN, {}, _json({"subscriptionSet": []})),
        Request(200072, PLAIN, _ACK),
        Request(200073, PLAIN, {**_CONSUMER, "clientId": "client@1", "liteTopic": "L"}),
        Request(200074),
        Request(200075, PLAIN, _TOPIC),
        Request(200076, PLAIN, {"parentTopic": TOPIC, "liteTopic": "L"}),
        Request(200077, PLAIN, {"parentTopic": TOPIC, **_GROUP, "clientId": "client@1",
                                "maxCount": "1"}),
        Request(200078, PLAIN, {**_GROUP, "liteTopic": "L", "topK": "1"}),
        Request(200079, PLAIN, {**_GROUP, "clientId": "client@1"}),
    ]  # fmt: skip


def _access() -> list[Request]:
    user = _json({"password": "secret-made", "userType": "Normal", "userStatus": "enable"})
    entry = {"resource": "Topic:T", "actions": ["Pub"], "decision": "Allow"}
    acl = _json({"policies": [{"policyType": "Custom", "entries": [entry]}]})
    made, of_made = {"username": "made"}, {"subject": "User:made"}
    return [
        Request(3001, PLAIN, made, user),
        Request(3002, PLAIN, made, user),
        Request(3004, PLAIN, made),
        Request(3005, PLAIN, {"filter": "made"}),
        Request(3005, "no fields"),
        Request(3006, PLAIN, of_made, acl),
        Request(3007, PLAIN, of_made, acl),
        Request(3009, PLAIN, of_made),
        Request(3010, PLAIN, {"subjectFilter": "made"}),
        Request(3010, "no fields"),
        Request(3008, PLAIN, of_made),
        Request(3003, PLAIN, made),
    ]


def _of_others() -> list[Request]:
    """Requests to name servers, controllers, containers and clients, sent to a broker."""
    controller = {"clusterName": CLUSTER, "brokerName": "broker-a", "brokerId": "1"}
    return [
        Request(13), Request(22), Request(23), Request(27), Request(47),
        Request(39, PLAIN, {**_TOPIC, "tranStateTableOffset": "0", "commitLogOffset": "0"}),
        Request(40, PLAIN, _CONSUMER),
        Request(50), Request(51), Request(52), Request(53), Request(54),
        Request(100, PLAIN, {"namespace": "N", "key": "K", "value": "V"}),
        Request(101, PLAIN, {"namespace": "N", "key": "K"}),
        Request(102, PLAIN, {"namespace": "N", "key": "K"}),
        Request(103, PLAIN, BROKER), Request(104, PLAIN, BROKER), Request(106),
        Request(205, PLAIN, {"brokerName": "broker-a"}), Request(206),
        Request(209), Request(210), Request(211), Request(212), Request(213), Request(214),
        Request(216, PLAIN, _TOPIC), Request(217, PLAIN, _TOPIC),
        Request(219, PLAIN, {"namespace": "N"}),
        Request(220, PLAIN, {**_TOPIC, **_GROUP, "timestamp": "0", "isForce": "false"}),
        Request(221, PLAIN, {**_TOPIC, **_GROUP}), Request(224, PLAIN, {"cluster": CLUSTER}),
        Request(301), Request(302), Request(304), Request(311), Request(312), Request(313),
        Request(318, PLAIN, {}, b"k=v\n"), Request(319), Request(322, PLAIN, BROKER),
        Request(326, PLAIN, {**SEND, "bornHost": "127.0.0.1:1", "storeHost": "127.0.0.1:1",
                             "storeTimestamp": NOW}),
        Request(327, PLAIN, {"brokerName": "broker-a"}),
        Request(901, PLAIN, {"clusterName": CLUSTER, "brokerName": "broker-a"}),
        Request(902, PLAIN, {"configPath": "/none"}),
        Request(903, PLAIN, {"brokerName": "b", "brokerClusterName": CLUSTER, "brokerId": "1"}),
        Request(904, PLAIN, {"clusterName": CLUSTER, "brokerAddr": "127.0.0.1:1",
                             "brokerName": "broker-a"}),
        Request(1001, PLAIN, {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": "1"}),
        Request(1002, PLAIN, {**controller, "designateElect": "false"}),
        Request(1003, PLAIN, controller), Request(1004, PLAIN, {"brokerName": "broker-a"}),
        Request(1005), Request(1006, PLAIN, {}, b"[]"), Request(1009, PLAIN, {}, b"k=v\n"),
        Request(1010), Request(1011, PLAIN, {**controller, "invokeTime": "0"}),
        Request(1012, PLAIN, controller),
        Request(1013, PLAIN, {**controller, "appliedBrokerId": "2", "registerCheckCode": "c"}),
        Request(1014), Request(1015), Request(1016), Request(1017), Request(1018),
        Request(9999, "no such code"), Request(9999, "no such code, fields", _TOPIC),
    ]  # fmt: skip


def _last() -> list[Request]:
    """Those that delete, or that change the broker as a whole."""
    return [
        Request(207, PLAIN, {"groupName": "GoneGroup", "cleanOffset": "true"}, late=True),
        Request(215, PLAIN, {"topic": "GoneTopic"}, late=True),
        Request(513, PLAIN, TOPIC_SETTINGS, b"{}", late=True),
        Request(306, late=True),
        Request(316, late=True),
        Request(329, late=True),
        Request(355, PLAIN, {"configType": "topics"}, late=True),
        Request(2004, PLAIN, {"READ_AHEAD_MODE": "0"}, late=True),
        Request(5001, PLAIN, {"timerEngineType": "F"}, late=True),
        Request(200056, late=True),
        Request(905, PLAIN, {"minBrokerId": "0", "brokerName": "broker-b"}, late=True),
        Request(906, PLAIN, {"masterHaAddress": "", "masterFlushOffset": "0"}, late=True),
        Request(908, PLAIN, {"masterFlushOffset": "0"}, late=True),
        Request(1008, PLAIN, {"masterAddress": "127.0.0.1:1", "masterEpoch": "1",
                              "syncStateSetEpoch": "1", "masterBrokerId": "1"}, late=True),
    ]  # fmt: skip


def every() -> list[Request]:
    """In the order in which they are sent."""
    return [*_clients(), *_operators(), *_access(), *_of_others(), *_last()]
