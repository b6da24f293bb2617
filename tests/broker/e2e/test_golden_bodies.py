"""Bodies that RocketMQ's tools parse, byte by byte: members in the order in which fastjson writes
those of a class, objects as keys, nothing that is null."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

import pyrmq.testing
from pyrmq.server import Running
from tests.support.client import HEART_BEAT, UPDATE_CONSUMER_OFFSET, Client
from tests.support.operators import create_topic

QUEUE = '{"brokerName":"broker-a","queueId":<n>,"topic":"T"}'
SUBSCRIPTION = (
    '{"classFilterMode":false,"codeSet":[65,66],"expressionType":"TAG","subString":"A || B",'
    '"subVersion":5,"tagsSet":["A","B"],"topic":"T"}'
)
CONNECTION = '{"clientAddr":"127.0.0.1:<port>","clientId":"c@1","language":"JAVA","version":479}'
TOPIC = (
    '{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":2,'
    '"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":2}'
)
GROUP = (
    '{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
    '"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
    '"groupName":"G","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
    '"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
    '"whichBrokerWhenConsumeSlowly":1}'
)
VERSION = '{"counter":<number>,"stateVersion":0,"timestamp":<time>}'
BROKER = (
    '{"brokerAddrs":{0:"127.0.0.1:<port>"},"brokerName":"broker-a","cluster":"DefaultCluster",'
    '"enableActingMaster":false}'
)


def _queue(number: int) -> str:
    return QUEUE.replace("<n>", str(number))


ROWS = (
    f'{_queue(0)}:{{"brokerOffset":2,"consumerOffset":1,"lastTimestamp":<time>,"pullOffset":1}},'
    f'{_queue(1)}:{{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}'
)
STATS = f'{{"consumeTps":0.0,"offsetTable":{{{ROWS}}}}}'
BODIES: dict[str, tuple[int, dict[str, object], str]] = {
    "topic-stats": (202, {"topic": "T"},
        f'{{"offsetTable":{{{_queue(0)}:{{"lastUpdateTimestamp":<time>,"maxOffset":2,'
        f'"minOffset":0}},{_queue(1)}:{{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}}}},'
        '"topicPutTps":0.0}'),
    "consume-stats": (208, {"consumerGroup": "G"}, STATS),
    "consume-stats-of-a-topic": (208, {"consumerGroup": "G", "topic": "T"}, STATS),
    "consume-stats-of-a-topic-that-nobody-wants": (208, {"consumerGroup": "G", "topic": "U"},
        '{"consumeTps":0.0,"offsetTable":{}}'),
    "consume-stats-of-a-list": (208, {"consumerGroup": "G", "topicList": "U;X"},
        '{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"U"}:'
        '{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}'),
    "consume-stats-of-the-broker": (317, {"isOrder": "false"},
        f'{{"brokerAddr":"127.0.0.1:<port>","consumeStatsList":[{{"G":[{STATS}]}}],"totalDiff":1,'
        '"totalInflightDiff":0}'),
    "consumers": (203, {"consumerGroup": "G"},
        f'{{"connectionSet":[{CONNECTION}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        '"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":'
        f'{{"T":{SUBSCRIPTION}}}}}'),
    "producers": (204, {"producerGroup": "PG"}, f'{{"connectionSet":[{CONNECTION}]}}'),
    "all-producers": (328, {},
        '{"data":{"PG":[{"clientId":"c@1","language":"JAVA","lastUpdateTimestamp":<time>,'
        '"remoteIP":"/127.0.0.1:<port>","version":479}]}}'),
    "groups-of-a-topic": (300, {"topic": "T"}, '{"groupList":["G"]}'),
    "groups-of-no-topic": (300, {"topic": "X"}, '{"groupList":[]}'),
    "topics-of-a-group": (343, {"group": "G"},
        '{"brokerAddr":"127.0.0.1:<port>","topicList":["T"]}'),
    "subscription": (345, {"group": "G", "topic": "T"},
        f'{{"group":"G","subscriptionData":{SUBSCRIPTION},"topic":"T"}}'),
    "no-subscription": (345, {"group": "X", "topic": "T"}, '{"group":"X","topic":"T"}'),
    "time-spans": (303, {"group": "G", "topic": "T"},
        '{"consumeTimeSpanSet":[{"consumeTimeStamp":<time>,"consumeTimeStampStr":"<date>",'
        '"delayTime":<number>,"maxTimeStamp":<time>,"maxTimeStampStr":"<date>","messageQueue":'
        f'{_queue(0)},"minTimeStamp":<time>,"minTimeStampStr":"<date>"}},{{"consumeTimeStamp":-1,'
        '"consumeTimeStampStr":"<date>","delayTime":0,"maxTimeStamp":-1,"maxTimeStampStr":"<date>",'
        f'"messageQueue":{_queue(1)},"minTimeStamp":-1,"minTimeStampStr":"<date>"}}]}}'),
    "corrections": (308, {"topic": "T", "compareGroup": "G"}, '{"correctionOffsets":{0:1}}'),
    "queue-entries": (321,
        {"topic": "T", "queueId": 0, "index": 0, "count": 1, "consumerGroup": "G"},
        '{"filterData":"null","maxQueueIndex":2,"minQueueIndex":0,"queueData":[{"eval":false,'
        f'"physicOffset":0,"physicSize":<number>,"tagsCode":0}}],"subscriptionData":{SUBSCRIPTION}}}'
        ),
    "topic": (351, {"topic": "T"}, TOPIC),
    "group": (352, {"group": "G"}, GROUP),
    "delays": (45, {}, '{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},'
        '"logEnd":<number>,"offsetTable":{'
        + ",".join(f"{level}:0" for level in range(1, 19)) + "}}"),
    "modes": (402, {}, '{"messageRequestModeMap":{"T":{"G":{"consumerGroup":"G","mode":"PULL",'
        '"popShareQueueNum":0,"topic":"T"}}}}'),
    "replication": (907, {},
        '{"haClientRuntimeInfo":{"activated":false,"lastReadTimestamp":0,"lastWriteTimestamp":0,'
        '"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[],'
        '"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":<number>,"masterSince":0,'
        '"takesOffsets":true}'),
    "members": (38, {"consumerGroup": "G"}, '{"consumerIdList":["c@1"]}'),
    "system-topics": (305, {},
        '{"topicList":["BenchmarkTest","CHECKPOINT_TOPIC","DefaultCluster",'
        '"DefaultCluster_REPLY_TOPIC","OFFSET_MOVED_EVENT","RMQ_SYS_TRACE_TOPIC",'
        '"RMQ_SYS_TRANS_HALF_TOPIC","RMQ_SYS_TRANS_OP_HALF_TOPIC","SCHEDULE_TOPIC_XXXX",'
        '"SELF_TEST_TOPIC","TBW102","TRANS_CHECK_MAX_TIME_TOPIC","broker-a",'
        '"rmq_sys_REVIVE_LOG_DefaultCluster","rmq_sys_SYNC_BROKER_MEMBER_broker-a",'
        '"rmq_sys_wheel_timer"]}'),
    "no-groups-of-halves": (300, {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, '{"groupList":[]}'),
}  # fmt: skip
"""By what it is: request code, fields, and the body."""
OF_NAME_SERVER: dict[str, tuple[int, dict[str, object], str]] = {
    "route": (105, {"topic": "T"},
        '{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:<port>"},"brokerName":"broker-a",'
        '"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
        '"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":2,"topicSysFlag":0,'
        '"writeQueueNums":2}]}'),
    "cluster": (106, {},
        f'{{"brokerAddrTable":{{"broker-a":{BROKER}}},'
        '"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'),
    "system-topics": (304, {},
        '{"brokerAddr":"127.0.0.1:<port>","topicList":["DefaultCluster","broker-a"]}'),
    "topics-of-no-cluster": (224, {"cluster": "X"}, '{"topicList":[]}'),
    "unit-topics": (311, {}, '{"topicList":[]}'),
    "values": (219, {"namespace": "N"}, '{"table":{"k":"v"}}'),
}  # fmt: skip
_BLANKS = {
    "<time>": r"\d{13}", "<port>": r"\d{1,5}", "<number>": r"\d+",
    "<date>": r"\d{4}-\d\d-\d\d#\d\d:\d\d:\d\d:\d{3}",
}  # fmt: skip


_OURS = re.compile(rb'"(?:deletedUnread|minOffset)":\d+,')
"""Fields of GET_CONSUME_STATS that RocketMQ's brokers do not have; its clients read past them."""


def _check(body: bytes, expected: str) -> None:
    body = _OURS.sub(b"", body)
    pattern = re.escape(expected)
    for blank, what in _BLANKS.items():
        pattern = pattern.replace(re.escape(blank), what)
    assert re.fullmatch(pattern, body.decode()), f"{body.decode()}\nexpected: {expected}"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    # The first look at halves, after 30 s, would commit an offset for the group of halves.
    with pyrmq.testing.broker(transaction_check_interval=3_600_000) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[Client]:
    consumer = {
        "groupName": "G", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
        "subscriptionDataSet": [json.loads(SUBSCRIPTION)],
    }  # fmt: skip
    beat = {
        "clientID": "c@1", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": [consumer],
    }  # fmt: skip
    mode = {"topic": "T", "consumerGroup": "G", "mode": "PULL", "popShareQueueNum": 0}
    commit = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1}
    with Client(server.broker_address) as client:
        assert create_topic(client, "T", 2, attributes="+message.type=FIFO").code == 0
        assert create_topic(client, "U").code == 0
        for _ in range(2):
            assert client.send("T").code == 0
        assert client.call(HEART_BEAT, json.dumps(beat).encode()).code == 0
        assert client.call(UPDATE_CONSUMER_OFFSET, **commit).code == 0
        assert client.call(401, json.dumps(mode).encode()).code == 0
        yield client


@pytest.mark.parametrize("what", list(BODIES))
def test_broker(client: Client, what: str) -> None:
    code, ext, expected = BODIES[what]
    answer = client.call(code, **ext)
    assert answer.code == 0, answer.remark
    _check(answer.body, expected)


@pytest.mark.parametrize("what", list(OF_NAME_SERVER))
def test_name_server(server: Running, client: Client, what: str) -> None:
    host, port = server.namesrv.split(":")
    code, ext, expected = OF_NAME_SERVER[what]
    with Client((host, int(port))) as names:
        assert names.call(100, namespace="N", key="k", value="v").code == 0
        answer = names.call(code, **ext)
    assert answer.code == 0, answer.remark
    _check(answer.body, expected)


@pytest.mark.parametrize(
    ("code", "form"),
    [
        (21, f'{{"dataVersion":{VERSION},"mappingDataVersion":{VERSION},"topicConfigTable":'
             '{<rows>},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'),
        (201, f'{{"dataVersion":{VERSION},"forbiddenTable":{{}},"subscriptionGroupTable":'
              '{<rows>}}'),
    ],
    ids=["topics", "groups"],
)  # fmt: skip
def test_tables(client: Client, code: int, form: str) -> None:
    text = client.call(code).body.decode()
    row = f'"T":{TOPIC}' if code == 21 else f'"G":{GROUP}'
    assert text.count(row) == 1
    head, tail = form.split("<rows>")
    for blank, what in _BLANKS.items():
        head = head.replace(blank, f"@{what}@")
    pattern = "".join(part if n % 2 else re.escape(part) for n, part in enumerate(head.split("@")))
    assert re.match(pattern, text), text[:300]
    assert text.endswith(tail)


def test_offsets_that_were_reset(client: Client) -> None:
    ext = {"topic": "T", "group": "G", "timestamp": -1, "isForce": "true"}
    for more, rows in (
        ({}, f"{_queue(0)}:2,{_queue(1)}:0"),
        ({"queueId": 0, "offset": 1}, f"{_queue(0)}:1"),
    ):
        answer = client.call(222, **ext, **more)
        assert answer.code == 0, answer.remark
        _check(answer.body, f'{{"offsetTable":{{{rows}}}}}')


def test_queues_that_were_locked(client: Client) -> None:
    body = f'{{"clientId":"c@1","consumerGroup":"G","mqSet":[{_queue(0)},{_queue(9)}]}}'
    answer = client.call(41, body.encode())
    assert answer.code == 0, answer.remark
    _check(answer.body, f'{{"lockOKMQSet":[{_queue(0)}]}}')
