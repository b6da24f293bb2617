"""Every request that the broker processes. Codes: spec sheets of remoting (3) and of the broker."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from pyrmq.model.codes import RequestCode as Code
from tests.support.records import encode_batch
from tests.system.hostile.requests.rows import Row

TOPIC, GROUP = "Known", "CG_known"
NO_READ, NO_WRITE = "NoRead", "NoWrite"
BROKER = "broker-a"
VICTIM, GROUP_VICTIM = "Victim", "CG_victim"
"""What valid requests delete."""
LONG = "x" * 300
MOST = str((1 << 63) - 1)
MESSAGE_ID = "7F00000100002A9F" + f"{1 << 40:016X}"
"""Of a message that is not there."""

LETTERS = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch",
}  # fmt: skip
_ILLEGAL = {"../up": 29, "a/b": 29, "a b": 29, "": 29, LONG: 29, "ä": 29, "a\nb": 29}
"""Names that no topic has."""


def _body(**values: Any) -> bytes:
    return json.dumps(values).encode()


LONGEST_DELAY = 100 * 365 * 86_400
"""Seconds: the longest that a broker may allow, so that a time is to come that no clock makes."""
TO_COME = "4102444800001"
"""In the year 2100."""


def _handle(
    version: str = "v1",
    topic: str = TOPIC,
    broker: str = "broker-a",
    time: str = TO_COME,
    key: str = "K",
    words: int = 5,
) -> str:
    """A recall handle. [RecallMessageHandle]"""
    text = " ".join((version, topic, broker, time, key)[:words])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _long(row: Row) -> Row:
    """A request of letters with whole names."""

    def named(table: Any) -> Any:
        return {LETTERS.get(name, name): value for name, value in table.items()}

    return replace(
        row,
        ext=named(row.ext),
        ints=named(row.ints),
        optional=frozenset(LETTERS[name] for name in row.optional),
        bad=named(row.bad),
        unknown=named(row.unknown),
        names={},
        says=named(row.says),
    )


_SEND = Row(
    ext={
        "a": "PG", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
        "h": "0", "i": "TAGS\x01A\x02", "j": "0", "k": "false", "m": "false",
    },
    body=b"message",
    ints={"d": 32, "e": 32, "f": 32, "g": 64, "h": 32, "j": 32},
    optional=frozenset("acdijkm"),
    bad={
        "b": {**_ILLEGAL, "SCHEDULE_TOPIC_XXXX": 16, "RMQ_SYS_TRANS_HALF_TOPIC": 16,
              "rmq_sys_wheel_timer": 16},
        "e": {"4": 29, "2147483647": 29},
        "i": {"DELAY\x01soon\x02": 13, "DELAY\x0199999999999999999999\x02": 13,
              "TIMER_DELAY_MS\x01soon\x02": 13, "TIMER_DELAY_SEC\x013153600001\x02": 13,
              "TIMER_DELIVER_MS\x01" + MOST + "\x02": 13,
              "TIMER_DELIVER_MS\x010\x02TIMER_DEL_UNIQKEY\x01k\x02": 13, "INNER_NUM\x013\x02": 13,
              "k\x01" + "v" * 40_000: 13},
        "f": {"4": 13, "128": 13},
    },
    forbidden={NO_READ: 0, NO_WRITE: 0},
    names=LETTERS,
    says={"i": "", "f": "flag"},
)  # fmt: skip
_BATCH = replace(
    _SEND,
    body=encode_batch([(b"one", {}), (b"two", {})]),
    ext={**_SEND.ext, "m": "true", "i": ""},
    bad={**_SEND.bad, "b": _ILLEGAL | {"%RETRY%CG": 13}, "i": {"DELAY\x013\x02": 13}},
)
_REPLY = replace(
    _SEND,
    ok=1,
    ext={**_SEND.ext, "i": "REPLY_TO_CLIENT\x01nobody\x02"},
    bad={"b": _SEND.bad["b"], "e": _SEND.bad["e"], "i": {"": 1, "REPLY_TO_CLIENT": 1}},
    unknown={"b": 17},
    forbidden={},
    says={"i": "REPLY_TO_CLIENT"},
)
_PULL = Row(
    ext={
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0",
        "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subscription": "*", "subVersion": "0", "expressionType": "TAG",
    },
    ints={"queueId": 32, "queueOffset": 64, "maxMsgNums": 32, "sysFlag": 32, "subVersion": 64},
    optional=frozenset(
        {"commitOffset", "suspendTimeoutMillis", "subscription", "subVersion", "expressionType"}
    ),
    bad={
        "queueId": {"-1": 29, "4": 29, "2147483647": 29},
        "queueOffset": {"-1": 21, MOST: 21, "-9223372036854775808": 21},
        "subscription": {" || ": 23, "x" * 20_000: 23},
        "expressionType": {"CLASS": 1, "sql92": 1},
        "consumerGroup": {"a b": 26, "": 26, LONG: 26, "../up": 26},
    },
    unknown={"topic": 17},
    forbidden={NO_READ: 16, NO_WRITE: 0},
    says={"subscription": "expression", "expressionType": "filter message by",
          "consumerGroup": "group"},
)  # fmt: skip
_GROUPS = {"a b": 26, "": 26, LONG: 26, "../up": 26}
"""Names of consumer groups that there are not."""
_POP = Row(
    ok=210,  # the queue is empty
    ext={
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "3", "maxMsgNums": "32",
        "invisibleTime": "1000", "pollTime": "0", "bornTime": "0", "initMode": "0", "exp": "*",
        "expType": "TAG", "order": "false", "attemptId": "a",
    },
    ints={"queueId": 32, "maxMsgNums": 32, "invisibleTime": 64, "pollTime": 64, "bornTime": 64,
          "initMode": 32},
    optional=frozenset({"bornTime", "exp", "expType", "order", "attemptId"}),
    bad={
        "queueId": {"4": 29, "2147483647": 29},
        "maxMsgNums": {"0": 29, "-1": 29, "33": 29},
        "invisibleTime": {"0": 29, "-1": 29, MOST: 29, "-9223372036854775808": 29},
        "pollTime": {MOST: 29},
        "bornTime": {"1": 210, MOST: 29, "-9223372036854775808": 29},
        "exp": {" || ": 23, "x" * 20_000: 23},
        "expType": {"CLASS": 23, "sql92": 23},
        "consumerGroup": _GROUPS,
    },
    unknown={"topic": 17},
    forbidden={NO_READ: 16},
    says={"exp": "expression", "consumerGroup": "group"},
)  # fmt: skip
_ACK = Row(
    ext={
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "offset": "0",
        "extraInfo": f"0 1 1000 0 0 {BROKER} 0 0",
    },
    ints={"queueId": 32, "offset": 64},
    bad={
        "queueId": {"-1": 13, "4": 13},
        "offset": {"-1": 208, "900": 208, MOST: 208},
        "extraInfo": {
            "": 13, "no handle": 13, "x" * 5000: 13,
            f"0 1 1000 0 3 {BROKER} 0 0": 13, f"0 {MOST} 1000 0 0 {BROKER} 0 0": 13,
            "0 1 1000 0 0 broker-z 0 0": 13, f"0 1 1000 0 0 {BROKER} 1 0": 13,
            f"7 1 1000 0 0 {BROKER} 0 0": 13,
        },
        "consumerGroup": {"a b": 29, "": 29, LONG: 29},
    },
    unknown={"topic": 17},
    says={"consumerGroup": "group"},
)  # fmt: skip
_BATCHED = {
    "c": GROUP, "t": TOPIC, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1000, "b": "AQ==",
}  # fmt: skip
_LOOK = Row(
    ext={"consumerGroup": GROUP, "topic": TOPIC, "queueId": "3"},
    ints={"queueId": 32},
    bad={"queueId": {"4": 29}, "consumerGroup": _GROUPS},
    unknown={"topic": 17},
    forbidden={NO_READ: 16},
    says={"consumerGroup": "group"},
)
_QUEUE = Row(
    ext={"topic": TOPIC, "queueId": "0"},
    ints={"queueId": 32},
    bad={"queueId": {"-1": 29, "-2147483648": 29}},
    unknown={"topic": 0},
)
_LOCK = Row(
    body=_body(
        clientId="c", consumerGroup=GROUP,
        mqSet=[{"topic": TOPIC, "brokerName": "broker-a", "queueId": 0}],
    ),
    json=True,
    shapes={
        b"{}": (29, "consumerGroup"),
        _body(consumerGroup="CG", mqSet=[]): (29, "clientId"),
        _body(clientId="c", consumerGroup=GROUP): (29, "mqSet"),
        _body(clientId="c", consumerGroup=5, mqSet=[]): (29, "consumerGroup"),
        _body(clientId="c", consumerGroup="a b", mqSet=[]): (29, "group"),
        _body(clientId=LONG, consumerGroup=GROUP, mqSet=[]): (29, "clientId"),
        _body(clientId="c", consumerGroup=GROUP, mqSet={"topic": TOPIC}): (29, "mqSet"),
        _body(clientId="c", consumerGroup="New", mqSet=[5]): (29, "mqSet"),
        _body(clientId="c", consumerGroup="New", mqSet=[0] * 65_537): (29, "mqSet"),
        _body(clientId="c", consumerGroup="New", mqSet=[{"topic": TOPIC}]): (29, "mqSet"),
    },
)  # fmt: skip


def _group(**change: Any) -> bytes:
    return _body(**{"groupName": "CG_made", "retryMaxTimes": 3, **change})


def _topics(**change: Any) -> bytes:
    return _body(topicConfigList=[{"topicName": "Listed", "readQueueNums": 2, **change}])


def _beat(**change: Any) -> bytes:
    subscription = {"topic": TOPIC, "subString": "*", "subVersion": 1}
    consumer = {"groupName": GROUP, "subscriptionDataSet": [subscription]}
    return _body(**{"clientID": "c", "consumerDataSet": [consumer], **change})


def _consumer(**change: Any) -> bytes:
    """A heartbeat of which the second group is no good: nor is then the first one made."""
    good = {"groupName": "CG_new", "subscriptionDataSet": []}
    return _beat(consumerDataSet=[good, {**good, **change}])


ROWS: dict[int, Row] = {
    Code.SEND_MESSAGE: _long(_SEND),
    Code.SEND_MESSAGE_V2: _SEND,
    Code.SEND_BATCH_MESSAGE: _BATCH,
    Code.SEND_REPLY_MESSAGE: _long(_REPLY),
    Code.SEND_REPLY_MESSAGE_V2: _REPLY,
    Code.CONSUMER_SEND_MSG_BACK: Row(
        ext={"offset": "0", "group": GROUP, "delayLevel": "3", "originMsgId": "x",
             "originTopic": TOPIC, "unitMode": "false", "maxReconsumeTimes": "16"},
        ints={"offset": 64, "delayLevel": 32, "maxReconsumeTimes": 32},
        optional=frozenset({"originMsgId", "originTopic", "unitMode", "maxReconsumeTimes"}),
        bad={"offset": {"-1": 1, "3": 1, MOST: 1},
             "group": {"a b": 26, "": 26, LONG: 26}},
    ),
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _PULL,
    Code.HEART_BEAT: Row(
        body=_beat(),
        json=True,
        shapes={
            b"{}": (29, "clientID"),
            _beat(clientID=None): (29, "clientID"),
            _beat(clientID=LONG): (29, "id"),
            _beat(clientID={"a": 1}): (29, "clientID"),
            _beat(consumerDataSet="text"): (29, "consumerDataSet"),
            _beat(consumerDataSet=[7]): (29, "consumerDataSet"),
            _beat(producerDataSet={"a": 1}): (29, "producerDataSet"),
            _beat(producerDataSet=[{}]): (29, "groupName"),
            _beat(producerDataSet=[{"groupName": "a b"}]): (29, "group"),
            _consumer(groupName=None): (29, "groupName"),
            _consumer(subscriptionDataSet="text"): (29, "subscriptionDataSet"),
            _consumer(subscriptionDataSet=[7]): (29, "subscriptionDataSet"),
            _consumer(subscriptionDataSet=[{"subString": "*"}]): (29, "topic"),
            _consumer(subscriptionDataSet=[{"topic": TOPIC, "codeSet": list(range(2000))}]):
                (23, TOPIC),
            _consumer(subscriptionDataSet=[
                {"topic": TOPIC, "tagsSet": [str(n) for n in range(5000)]} for _ in range(4)
            ]): (29, "tags"),
            _beat(producerDataSet=[{"groupName": f"PG{n}"} for n in range(1024)]): (29, "groups"),
            _consumer(subscriptionDataSet=[{"topic": TOPIC}] * 4097): (29, "subscriptions"),
            _consumer(subscriptionDataSet=[{"topic": TOPIC}] * 20_000): (29, "subscriptions"),
            _consumer(subscriptionDataSet=[{"topic": TOPIC, "tagsSet": list(range(200_000))}]):
                (1, "JSON"),
            _consumer(subscriptionDataSet=[{"topic": TOPIC, "tagsSet": ["x" * 4_500_000]}]):
                (13, "body"),
        },
    ),
    Code.UNREGISTER_CLIENT: Row(
        ext={"clientID": "c", "producerGroup": "PG_none", "consumerGroup": "CG_none"},
        optional=frozenset({"producerGroup", "consumerGroup"}),
        unknown={"producerGroup": 0, "consumerGroup": 0},
    ),
    Code.CHECK_CLIENT_CONFIG: Row(
        body=_body(clientId="c", group=GROUP, subscriptionData={
            "topic": TOPIC, "expressionType": "SQL92", "subString": "a > 5"}),
        json=True,
        shapes={
            _body(subscriptionData=5): (29, "subscriptionData"),
            _body(subscriptionData={"expressionType": "SQL92", "subString": "a >"}):
                (23, "character 4"),
            _body(subscriptionData={"expressionType": "SQL92"}): (23, "expression"),
            _body(subscriptionData={"expressionType": "CLASS", "subString": "x"}): (1, "CLASS"),
            _body(subscriptionData={"expressionType": "SQL92", "subString": "(" * 10_000}):
                (23, "deep"),
        },
    ),
    Code.GET_CONSUMER_LIST_BY_GROUP: Row(
        ext={"consumerGroup": "CG_none"}, ok=1, unknown={"consumerGroup": 1}
    ),
    Code.QUERY_CONSUMER_OFFSET: replace(
        _QUEUE,
        ext={**_QUEUE.ext, "consumerGroup": GROUP},
        bad={"queueId": {"-1": 29, "99": 22}},
        says={"queueId": "queue"},
        unknown={"topic": 22, "consumerGroup": 0},
    ),
    Code.UPDATE_CONSUMER_OFFSET: replace(
        _QUEUE,
        ext={**_QUEUE.ext, "consumerGroup": GROUP, "commitOffset": "0"},
        ints={"queueId": 32, "commitOffset": 64},
        bad={"queueId": {"-1": 29, "4": 29, "2147483647": 29},
             "commitOffset": {"-1": 29, "-9223372036854775808": 29},
             "consumerGroup": {"a b": 26, "": 26, LONG: 26, "CID_RMQ_SYS_TRANS": 16}},
        says={"consumerGroup": ""},
        unknown={"topic": 17},
    ),
    Code.GET_MAX_OFFSET: _QUEUE,
    Code.GET_MIN_OFFSET: _QUEUE,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: replace(
        _QUEUE,
        ext={**_QUEUE.ext, "timestamp": "5", "boundaryType": "LOWER"},
        ints={"queueId": 32, "timestamp": 64},
        optional=frozenset({"boundaryType"}),
        bad={"queueId": {"-1": 29}, "boundaryType": {"MIDDLE": 29}},
    ),
    Code.GET_EARLIEST_MSG_STORETIME: _QUEUE,
    Code.QUERY_MESSAGE: Row(
        ext={"topic": TOPIC, "key": "none", "maxNum": "3", "beginTimestamp": "0",
             "endTimestamp": MOST},
        ok=22,
        ints={"maxNum": 32, "beginTimestamp": 64, "endTimestamp": 64},
        unknown={"topic": 22, "key": 22},
    ),
    Code.VIEW_MESSAGE_BY_ID: Row(
        ext={"offset": "0"}, ints={"offset": 64}, bad={"offset": {"-1": 1, "3": 1, MOST: 1}}
    ),
    Code.DELETE_EXPIRED_COMMITLOG: Row(),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: Row(),
    Code.CLEAN_UNUSED_TOPIC: Row(),
    Code.GET_TOPIC_STATS_INFO: Row(ext={"topic": TOPIC}, unknown={"topic": 17}),
    Code.GET_CONSUME_STATS: Row(
        ext={"consumerGroup": GROUP, "topic": TOPIC, "topicList": TOPIC},
        optional=frozenset({"topic", "topicList"}),
        unknown={"consumerGroup": 0, "topicList": 0},
    ),
    Code.GET_BROKER_CONSUME_STATS: Row(
        ext={"isOrder": "false"}, optional=frozenset({"isOrder"})
    ),
    Code.GET_CONSUMER_CONNECTION_LIST: Row(
        ext={"consumerGroup": "CG_none"}, ok=206, unknown={"consumerGroup": 206}
    ),
    Code.GET_PRODUCER_CONNECTION_LIST: Row(
        ext={"producerGroup": "PG_none"}, ok=1, unknown={"producerGroup": 1}
    ),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Row(
        ext={"group": GROUP, "topic": TOPIC, "queueId": "1", "offset": "0", "timestamp": "-1",
             "isForce": "true"},
        ints={"queueId": 32, "offset": 64, "timestamp": 64},
        optional=frozenset({"queueId", "offset", "isForce"}),
        bad={"queueId": {"4": 29, "2147483647": 29}, "offset": {"1000": 1, MOST: 1},
             "group": {"a b": 26, "": 26, "CID_RMQ_SYS_TRANS": 16}},
        unknown={"topic": 17, "group": 26},
    ),
    Code.CLONE_GROUP_OFFSET: Row(
        ext={"srcGroup": GROUP, "destGroup": "CG_clone", "topic": TOPIC, "offline": "false"},
        optional=frozenset({"topic", "offline"}),
        bad={"destGroup": {"a b": 26, "": 26, "CID_RMQ_SYS_TRANS": 16}},
        unknown={"srcGroup": 0, "topic": 0},
        says={"destGroup": "group"},
    ),
    Code.LOCK_BATCH_MQ: _LOCK,
    Code.UNLOCK_BATCH_MQ: _LOCK,
    Code.UPDATE_AND_CREATE_TOPIC: Row(
        ext={"topic": "Made", "defaultTopic": "TBW102", "readQueueNums": "2",
             "writeQueueNums": "2", "perm": "6", "topicFilterType": "SINGLE_TAG",
             "topicSysFlag": "0", "order": "false", "attributes": "+message.type=NORMAL"},
        ints={"readQueueNums": 32, "writeQueueNums": 32, "perm": 32, "topicSysFlag": 32},
        optional=frozenset({"defaultTopic", "topicFilterType", "topicSysFlag", "order",
                            "attributes"}),
        bad={
            "topic": {**_ILLEGAL, "SCHEDULE_TOPIC_XXXX": 29, "rmq_sys_x": 29, "broker-a": 29,
                      "DefaultCluster_REPLY_TOPIC": 29, "CHECKPOINT_TOPIC": 29},
            "readQueueNums": {"-1": 29, "65537": 29, "2147483647": 29},
            "writeQueueNums": {"-1": 29, "65537": 29, "2147483647": 29},
            "perm": {"-1": 29, "8": 29, "2147483647": 29},
            "topicSysFlag": {"-1": 29},
            "topicFilterType": {"ANY": 29},
            "attributes": {"x": 1, "+color=red": 1, "+message.type=HUGE": 1, "=": 1,
                           "+message.type=MIXED": 29},
        },
        says={"attributes": ": "},
    ),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: Row(
        body=_topics(),
        json=True,
        shapes={
            b"{}": (29, "topicConfigList"),
            b'{"topicConfigList":[]}': (29, "topicConfigList"),
            b'{"topicConfigList":[5]}': (29, "topicConfigList"),
            _topics(topicName=5): (29, "topicName"),
            _topics(topicName="../up"): (29, "topic"),
            _topics(topicName="rmq_sys_x"): (29, "topic"),
            _topics(readQueueNums=-1): (29, "ueue"),
            _topics(readQueueNums="x"): (29, "readQueueNums"),
            _topics(writeQueueNums=65537): (29, "ueue"),
            _topics(perm=8): (29, "perm"),
            _topics(topicSysFlag=-1): (29, "topicSysFlag"),
            _topics(topicFilterType="ANY"): (29, "topicFilterType"),
            _topics(attributes=[1]): (29, "attributes"),
            _topics(attributes={"+color": "red"}): (1, "color"),
            _topics(note="x" * 1_048_600): (29, "1048576"),
            _body(topicConfigList=[{}] * 4097): (29, "4096"),
        },
    ),
    Code.GET_TOPIC_CONFIG: Row(ext={"topic": TOPIC}, unknown={"topic": 17}),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Row(
        body=_group(),
        json=True,
        shapes={
            b"{}": (29, "groupName"),
            _group(groupName=5): (29, "groupName"),
            _group(groupName=""): (29, "group"),
            _group(groupName="../up"): (29, "group"),
            _group(groupName=LONG): (29, "group"),
            _group(retryMaxTimes="many"): (29, "retryMaxTimes"),
            _group(retryMaxTimes=-2): (29, "retryMaxTimes"),
            _group(retryMaxTimes=1 << 31): (29, "retryMaxTimes"),
            _group(retryQueueNums=-1): (29, "retryQueueNums"),
            _group(retryQueueNums=1 << 63): (29, "retryQueueNums"),
            _group(brokerId=1 << 63): (29, "brokerId"),
            _group(consumeEnable="yes"): (29, "consumeEnable"),
            _group(attributes={"+a": "b"}): (1, "attribute"),
            _group(attributes=[1]): (29, "attributes"),
            _group(groupRetryPolicy=7): (29, "groupRetryPolicy"),
            _group(note="x" * 20_000): (29, "16384"),
        },
    ),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: Row(ext={"group": GROUP}, unknown={"group": 26}),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Row(
        body=_body(groupConfigList=[{"groupName": "CG_listed"}]),
        json=True,
        shapes={
            b"{}": (29, "groupConfigList"),
            b'{"groupConfigList":{}}': (29, "groupConfigList"),
            b'{"groupConfigList":["g"]}': (29, "groupConfigList"),
            b'{"groupConfigList":[{}]}': (29, "groupName"),
            _body(groupConfigList=[{"groupName": "../up"}]): (29, "group"),
            _body(groupConfigList=[{"groupName": "g", "retryQueueNums": -1}]): (
                29,
                "retryQueueNums",
            ),
        },
    ),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Row(),
    Code.GET_ALL_PRODUCER_INFO: Row(),
    Code.GET_BROKER_HA_STATUS: Row(),
    Code.GET_BROKER_EPOCH_CACHE: Row(ok=1),
    **{code: Row(ok=1) for code in range(3001, 3011)},
    # accounts, which this broker does not have
    Code.UPDATE_AND_CREATE_ACL_CONFIG: Row(ok=209),
    Code.DELETE_ACL_CONFIG: Row(ok=210),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Row(ok=211),
    Code.GET_BROKER_CLUSTER_ACL_INFO: Row(ok=1),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: Row(ok=1),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: Row(),
    Code.SET_MESSAGE_REQUEST_MODE: Row(
        body=_body(topic=TOPIC, consumerGroup=GROUP, mode="POP", popShareQueueNum=2),
        json=True,
        shapes={
            b"{}": (29, "topic"),
            _body(topic=TOPIC, consumerGroup=GROUP, mode="PUSH"): (29, "PUSH"),
            _body(topic=TOPIC, consumerGroup=GROUP, popShareQueueNum="2"): (29, "popShareQueueNum"),
            _body(topic=TOPIC, consumerGroup=GROUP, popShareQueueNum=-2): (29, "popShareQueueNum"),
            _body(topic="../up", consumerGroup=GROUP): (29, "topic"),
            _body(topic="NotThere", consumerGroup=GROUP): (17, "NotThere"),
            _body(topic="%RETRY%G", consumerGroup=GROUP): (16, "retry topic"),
            _body(topic=TOPIC, consumerGroup="a b"): (29, "group"),
            _body(topic=TOPIC, consumerGroup=GROUP, note="x" * 5000): (29, "4096"),
        },
    ),
    Code.QUERY_ASSIGNMENT: Row(
        body=_body(topic=TOPIC, consumerGroup=GROUP, clientId="c", strategyName="AVG"),
        json=True,
        shapes={
            b"{}": (29, "topic"),
            _body(topic=TOPIC, consumerGroup=GROUP): (29, "clientId"),
            _body(topic=TOPIC, consumerGroup=7, clientId="c"): (29, "consumerGroup"),
            _body(topic=LONG, consumerGroup=GROUP, clientId="c"): (29, "topic"),
        },
    ),
    Code.POP_MESSAGE: _POP,
    Code.ACK_MESSAGE: _ACK,
    Code.CHANGE_MESSAGE_INVISIBLETIME: replace(
        _ACK,
        ext={**_ACK.ext, "invisibleTime": "1000"},
        ints={**_ACK.ints, "invisibleTime": 64},
        bad={**_ACK.bad, "invisibleTime": {"-1": 29, MOST: 29}},
    ),
    Code.BATCH_ACK_MESSAGE: Row(
        body=_body(brokerName=BROKER, acks=[_BATCHED]),
        json=True,
        shapes={
            b"{}": (208, "acks"),
            _body(acks=[]): (208, "acks"),
            _body(acks={"c": GROUP}): (29, "acks"),
            _body(acks=[7]): (13, "acks"),
            _body(acks=[_BATCHED] * 4097): (29, "4096"),
            _body(acks=[_BATCHED | {"b": "?"}]): (13, "acks"),
            _body(acks=[_BATCHED | {"so": -1}]): (13, "acks"),
            _body(acks=[_BATCHED | {"pt": int(MOST)}]): (13, "pop time"),
            _body(acks=[_BATCHED], brokerName="broker-z"): (13, "broker-z"),
        },
    ),
    Code.PEEK_MESSAGE: replace(
        _LOOK,
        ok=19,
        ext={**_LOOK.ext, "maxMsgNums": "1"},
        ints={"queueId": 32, "maxMsgNums": 32},
        bad={**_LOOK.bad, "maxMsgNums": {"0": 29, "33": 29}},
    ),
    Code.NOTIFICATION: replace(
        _LOOK,
        ext={**_LOOK.ext, "pollTime": "0", "bornTime": "0"},
        ints={"queueId": 32, "pollTime": 64, "bornTime": 64},
        optional=frozenset({"bornTime"}),
        bad={**_LOOK.bad, "pollTime": {MOST: 29}},
    ),
    Code.POLLING_INFO: _LOOK,
    Code.DELETE_SUBSCRIPTIONGROUP: Row(
        ext={"groupName": GROUP_VICTIM, "cleanOffset": "false"},
        optional=frozenset({"cleanOffset"}),
        bad={"groupName": {"a b": 29, "": 29, LONG: 29, "CID_RMQ_SYS_TRANS": 29}},
        says={"groupName": "group"},
        unknown={"groupName": 0},
    ),
    Code.END_TRANSACTION: Row(
        ext={"producerGroup": "PG", "tranStateTableOffset": "0", "commitLogOffset": "0",
             "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": "x",
             "transactionId": "x"},
        ok=1,
        ints={"tranStateTableOffset": 64, "commitLogOffset": 64, "commitOrRollback": 32},
        optional=frozenset({"fromTransactionCheck", "msgId", "transactionId"}),
        bad={"commitOrRollback": {"1": 1, "-1": 1}, "commitLogOffset": {"-1": 1, "3": 1, MOST: 1},
             "tranStateTableOffset": {"-1": 1, MOST: 1}},
        says={"tranStateTableOffset": "commitLogOffset"},
    ),
    Code.RECALL_MESSAGE: Row(
        ext={"producerGroup": "PG", "topic": TOPIC, "recallHandle": _handle()},
        optional=frozenset({"producerGroup"}),
        bad={
            "topic": {"SCHEDULE_TOPIC_XXXX": 16, "rmq_sys_wheel_timer": 16, NO_READ: 604},
            "producerGroup": {"a b": 29, LONG: 29, "ä": 29},
            "recallHandle": {
                "": 604, "x": 604, "?": 604, LONG: 604, "A" * 70_000: 604,
                _handle(words=4): 604, _handle(version="v2"): 604, _handle(topic="Other"): 604,
                _handle(broker="broker-b"): 604, _handle(key="k\x02REAL_TOPIC\x01T"): 604,
                _handle(key="k" * 40_000): 604, _handle(time="soon"): 604, _handle(time="-1"): 604,
                _handle(time="0"): 604, _handle(time="1700000000000"): 604, _handle(time=MOST): 604,
                _handle(time="9" * 30): 604, _handle(time="9102444800001"): 604,
            },
        },
        unknown={"topic": 17},
        says={"recallHandle": "recall", "producerGroup": "group"},
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: Row(
        ext={"msgId": MESSAGE_ID}, ok=1, bad={"msgId": {"x": 29, "": 29, "F" * 32: 29}}
    ),
    Code.GET_BROKER_CONFIG: Row(),
    Code.UPDATE_BROKER_CONFIG: Row(
        body=b"brokerPermission=6\n",
        shapes={
            b"": (29, "key=value"),
            b"\xff\xfe=\xff": (29, "UTF-8"),
            b"noSuchKey=5": (29, "noSuchKey"),
            b"storePathRootDir=/tmp/elsewhere": (16, "storePathRootDir"),
            b"brokerPermission=9": (29, "brokerPermission"),
            b"brokerPermission=": (29, "brokerPermission"),
            b"brokerPermission=many": (29, "brokerPermission"),
            b"shortPollingTimeMills=-1": (29, "shortPollingTimeMills"),
            b"shortPollingTimeMills=9223372036854775808": (29, "shortPollingTimeMills"),
            b"k" * 20_000: (29, "16384"),
        },
    ),
    Code.GET_BROKER_RUNTIME_INFO: Row(),
    Code.VIEW_BROKER_STATS_DATA: Row(
        ext={"statsName": "TOPIC_PUT_NUMS", "statsKey": "none"},
        ok=1,
        bad={"statsName": {"NOTHING": 1}},
        says={"statsName": "NOTHING"},
        unknown={"statsKey": 1},
    ),
    Code.GET_BROKER_USE: Row(
        ext={"kind": "topic", "sort": "bytes", "seconds": "60", "limit": "5", "offset": "0"},
        ints={"seconds": 32, "limit": 32, "offset": 32},
        optional=frozenset({"kind", "sort", "seconds", "limit", "offset"}),
        bad={
            "kind": {"nobody": 29, "k" * 100_000: 29}, "sort": {"size": 29},
            "seconds": {"0": 29, "3601": 29}, "limit": {"0": 29, "1025": 29}, "offset": {"-1": 29},
        },
    ),
    Code.GET_BROKER_HISTORY: Row(
        ext={"seconds": "60"},
        ints={"seconds": 32},
        optional=frozenset({"seconds"}),
        bad={"seconds": {"0": 29, "3601": 29}},
    ),
    Code.GET_DISK_USE: Row(
        ext={"limit": "5", "offset": "0", "files": "1", "topic": TOPIC},
        ints={"limit": 32, "offset": 32, "files": 32},
        optional=frozenset({"limit", "offset", "files", "topic"}),
        bad={
            "limit": {"0": 29, "1025": 29}, "offset": {"-1": 29}, "files": {"-1": 29, "65": 29},
        },
        unknown={"topic": 0},
    ),
    Code.DELETE_TOPIC_IN_BROKER: Row(
        ext={"topic": VICTIM},
        bad={"topic": {**_ILLEGAL, "SCHEDULE_TOPIC_XXXX": 29, "TBW102": 29}},
        unknown={"topic": 0},
    ),
    Code.GET_ALL_TOPIC_CONFIG: Row(),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Row(),
    Code.GET_ALL_CONSUMER_OFFSET: Row(),
    Code.GET_ALL_DELAY_OFFSET: Row(),
    Code.GET_TIMER_CHECK_POINT: Row(),
    Code.GET_TIMER_METRICS: Row(),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: Row(ext={"topic": TOPIC}, unknown={"topic": 0}),
    Code.QUERY_TOPICS_BY_CONSUMER: Row(ext={"group": GROUP}, unknown={"group": 0}),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: Row(
        ext={"group": GROUP, "topic": TOPIC},
        optional=frozenset({"topic"}),
        unknown={"group": 0, "topic": 0},
    ),
    Code.QUERY_CONSUME_TIME_SPAN: Row(
        ext={"topic": TOPIC, "group": GROUP}, unknown={"topic": 17, "group": 0}
    ),
    Code.QUERY_CORRECTION_OFFSET: Row(
        ext={"topic": TOPIC, "compareGroup": GROUP, "filterGroups": "a,b"},
        optional=frozenset({"filterGroups"}),
        unknown={"topic": 0, "compareGroup": 0},
    ),
    Code.QUERY_CONSUME_QUEUE: Row(
        ext={"topic": TOPIC, "queueId": "0", "index": "0", "count": "3", "consumerGroup": GROUP},
        ints={"queueId": 32, "index": 64, "count": 32},
        optional=frozenset({"consumerGroup"}),
        says={"queueId": f"@{TOPIC} is not exist"},
        bad={"queueId": {"-1": 1, "4": 1}, "count": {"-1": 29, "4097": 29}},
        unknown={"topic": 1, "consumerGroup": 0},
    ),
    Code.GET_CONSUMER_RUNNING_INFO: Row(
        ext={"consumerGroup": GROUP, "clientId": "none"},
        ok=1,
        unknown={"consumerGroup": 1, "clientId": 1},
    ),
    Code.CONSUME_MESSAGE_DIRECTLY: Row(
        ext={"consumerGroup": GROUP, "clientId": "none", "msgId": MESSAGE_ID},
        ok=1,
        optional=frozenset({"clientId"}),
        bad={"msgId": {"x": 1, "": 1, "F" * 32: 1}},
        unknown={"consumerGroup": 1, "clientId": 1},
    ),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Row(
        ext={"topic": TOPIC, "group": "CG_none", "clientAddr": "none"},
        ok=1,
        optional=frozenset({"clientAddr"}),
        unknown={"group": 1},
    ),
}  # fmt: skip
