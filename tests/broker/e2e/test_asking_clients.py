"""What operators ask of consumers through the broker, and of the broker about consumers."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.client import HEART_BEAT, UPDATE_CONSUMER_OFFSET, Client
from tests.support.operators import create_topic
from tests.support.records import decode_records
from tests.support.server import ServerProcess
from tests.support.wire import FLAG_RESPONSE, Command, encode

RUNNING_INFO, DIRECTLY, STATUS, STATUS_FROM_CLIENT = 307, 309, 223, 221
CONNECTIONS, CONSUMED_BY = 203, 300
ALL_TOPICS, ALL_OFFSETS, ALL_DELAYS, SYSTEM_TOPICS = 21, 43, 45, 305
TIME_SPAN, CORRECTION, TOPICS_OF, SUBSCRIPTION_OF, QUEUE = 303, 308, 343, 345, 321
SYSTEM_ERROR, INVALID_PARAMETER, NO_TOPIC = 1, 29, 17


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("asking") / "store") as running:
        yield running


@pytest.fixture
def operator(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        yield client


@pytest.fixture
def member(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        client.heartbeat("one", "G", "T")
        yield client


Answer = Callable[[Command], Command]


@contextmanager
def answering(client: Client, answer: Answer, count: int = 1) -> Iterator[list[Command]]:
    """Has `client` answer what it is asked; gives what that was."""
    asked: list[Command] = []

    def run() -> None:
        while len(asked) < count:
            if not client.pushed:
                client.wait_pushed(30)
            question = client.pushed.pop(0)
            if question.is_oneway:
                continue
            asked.append(question)
            reply = answer(question)
            reply.opaque, reply.flag = question.opaque, FLAG_RESPONSE
            client.send_raw(encode(reply))

    thread = threading.Thread(target=run)
    thread.start()
    yield asked
    thread.join(10)


def of_group(client: Client, code: int, client_id: str = "one", **ext: object) -> Command:
    return client.call(code, consumerGroup="G", clientId=client_id, **ext)


def test_running_info(operator: Client, member: Client) -> None:
    """The answer is passed on as it is; fields that sign the request are not."""
    signed = {"jstackEnable": "true", "AccessKey": "a", "Signature": "s", "SecurityToken": "t"}
    reply = Command(0, {"own": "field"}, b'{"properties":{"\xc3\xa4":"b"}}', remark="fine")
    with answering(member, lambda question: reply) as asked:
        answer = of_group(operator, RUNNING_INFO, **signed)
    assert (answer.code, answer.body, answer.remark) == (0, reply.body, "fine")
    assert answer.ext["own"] == "field"
    assert asked[0].code == RUNNING_INFO
    assert asked[0].ext == {"consumerGroup": "G", "clientId": "one", "jstackEnable": "true"}
    with answering(member, lambda question: Command(1, remark="no such group")):
        answer = of_group(operator, RUNNING_INFO)
    assert (answer.code, answer.remark) == (1, "no such group")


def test_clients_that_cannot_be_asked(
    server: ServerProcess, operator: Client, member: Client
) -> None:
    nobody = of_group(operator, RUNNING_INFO, "two")
    assert (nobody.code, nobody.remark) == (1, "The Consumer <G> <two> not online")
    assert operator.call(RUNNING_INFO, consumerGroup="G").code == SYSTEM_ERROR
    with Client(server.broker) as old:
        consumer = {"groupName": "G", "subscriptionDataSet": []}
        data = {"clientID": "old", "consumerDataSet": [consumer], "producerDataSet": []}
        old.request(Command(HEART_BEAT, {}, json.dumps(data).encode(), version=20))
        answer = of_group(operator, RUNNING_INFO, "old")
        assert (answer.code, "too low" in (answer.remark or "")) == (1, True)
        status = operator.call(STATUS, topic="T", group="G")
        assert (status.code, "too low" in (status.remark or "")) == (1, True)
        waiting = operator.post(Command(RUNNING_INFO, {"consumerGroup": "G", "clientId": "one"}))
        while not any(pushed.code == RUNNING_INFO for pushed in member.pushed):
            member.wait_pushed(30)
    member.close()
    answer = operator.receive()
    assert (answer.opaque, answer.code) == (waiting, 1)
    assert "is gone" in (answer.remark or "")


def test_an_operator_asks_so_much_at_a_time(operator: Client, member: Client) -> None:
    for _ in range(17):
        operator.post(Command(RUNNING_INFO, {"consumerGroup": "G", "clientId": "one"}))
    refused = operator.receive()
    assert (refused.code, refused.opaque) == (2, 17)
    while sum(pushed.code == RUNNING_INFO for pushed in member.pushed) < 16:
        member.wait_pushed(30)
    member.close()
    assert {operator.receive().code for _ in range(16)} == {1}


def test_a_message_consumed_directly(operator: Client, member: Client) -> None:
    create_topic(operator, "T", topicSysFlag=1)
    sent = operator.send("T", b"do it again", properties={"KEYS": "k"})
    result = b'{"consumeResult":"CR_SUCCESS"}'
    with answering(member, lambda question: Command(0, body=result)) as asked:
        answer = of_group(operator, DIRECTLY, msgId=sent.ext["msgId"], topic="T")
    assert (answer.code, answer.body) == (0, result)
    (question,) = asked
    assert question.ext["brokerName"] == "broker-a"
    assert (question.ext["topicSysFlag"], question.ext["groupSysFlag"]) == ("1", "0")
    (record,) = decode_records(question.body)
    assert (record.topic, record.body, record.properties["KEYS"]) == ("T", b"do it again", "k")
    for msg_id in ("", "nonsense", "F" * 32, sent.ext["msgId"][:-2] + "7F"):
        assert of_group(operator, DIRECTLY, msgId=msg_id).code == SYSTEM_ERROR, msg_id
    assert of_group(operator, DIRECTLY, "two", msgId=sent.ext["msgId"]).code == SYSTEM_ERROR
    assert of_group(operator, DIRECTLY).code == SYSTEM_ERROR


def test_how_far_members_are(server: ServerProcess, operator: Client, member: Client) -> None:
    queue = '{"brokerName":"broker-a","queueId":0,"topic":"T"}'
    with Client(server.broker) as second, Client(server.broker) as third:
        second.heartbeat("two", "G", "T")
        third.heartbeat("three", "G", "T")
        replies = [f'{{"messageQueueTable":{{{queue}:{n}}}}}'.encode() for n in (5, 6)]
        with (
            answering(member, lambda question: Command(0, body=replies[0]), 2) as asked,
            answering(second, lambda question: Command(0, body=replies[1])),
            answering(third, lambda question: Command(0, body=b"no JSON")),
        ):
            answer = operator.call(STATUS, topic="T", group="G")
            assert answer.code == 0
            text = answer.body.decode()
            assert f'"one":{{{queue}:5}}' in text
            assert f'"two":{{{queue}:6}}' in text
            assert "three" not in text, "who says nothing sensible is left out"
            one = operator.call(STATUS, topic="T", group="G", clientAddr="one").body.decode()
        assert one == f'{{"consumerTable":{{"one":{{{queue}:5}}}},"messageQueueTable":{{}}}}'
        assert asked[0].code == STATUS_FROM_CLIENT
        assert asked[0].ext == {"topic": "T", "group": "G"}
    assert operator.call(STATUS, topic="T", group="None").code == SYSTEM_ERROR


def test_members_that_subscribe_differently(server: ServerProcess, operator: Client) -> None:
    def connections() -> dict[str, Any]:
        found = json.loads(operator.call(CONNECTIONS, consumerGroup="Odd").body)["connectionSet"]
        return {shown["clientId"]: shown.get("subscriptions") for shown in found}

    with Client(server.broker) as one, Client(server.broker) as other:
        one.heartbeat("one", "Odd", "T")
        assert connections() == {"one": None}
        for _ in range(2):
            other.heartbeat("two", "Odd", "T", "U")
            assert connections() == {"one": {"T": "*"}, "two": {"T": "*", "U": "*"}}
        assert server.stderr_text().count("group Odd: members subscribe differently") == 1
        other.heartbeat("two", "Odd", "T")
        assert connections() == {"one": None, "two": None}


def test_whole_tables(operator: Client, member: Client) -> None:
    create_topic(operator, "Listed", 2, order="true", attributes="+queue.type=BatchCQ")
    operator.send("T")
    ext = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1}
    operator.call(UPDATE_CONSUMER_OFFSET, **ext)
    wrapper = json.loads(operator.call(ALL_TOPICS, topicSeq=0, maxTopicNum=1, dataVersion="").body)
    listed = wrapper["topicConfigTable"]["Listed"]
    assert (listed["order"], listed["attributes"]) == (True, {"queue.type": "BatchCQ"})
    assert {"TBW102", "T", "%RETRY%G"} <= wrapper["topicConfigTable"].keys()
    assert "topicQueueMappingDetailMap" in wrapper
    assert wrapper["dataVersion"] == wrapper["mappingDataVersion"]
    body = re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', operator.call(ALL_OFFSETS).body.decode())
    offsets = json.loads(body)
    assert offsets["offsetTable"]["T@G"] == {"0": 1}
    assert offsets["groupTopicMap"]["G"] == ["T"]
    delays = re.sub(r"([{,])(\d+):", r'\1"\2":', operator.call(ALL_DELAYS).body.decode())
    assert json.loads(delays)["offsetTable"] == {str(n): 0 for n in range(1, 19)}
    system = json.loads(operator.call(SYSTEM_TOPICS).body)["topicList"]
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a"} <= set(system)
    assert "T" not in system


@pytest.fixture
def consumed(operator: Client) -> Client:
    """Ten messages in queue 0 of Asked, of which A has consumed 4 and B 7; B has queue 1, too."""
    create_topic(operator, "Asked", 2)
    if operator.max_offset("Asked", 0) == 0:
        for n in range(10):
            operator.send("Asked", b"%d" % n, properties={"TAGS": "a" if n else "b"})
        for group, queue, offset in (("A", 0, 4), ("B", 0, 7), ("B", 1, 0)):
            ext = {"consumerGroup": group, "topic": "Asked", "queueId": queue}
            operator.call(UPDATE_CONSUMER_OFFSET, **ext, commitOffset=offset)
    return operator


def test_who_consumes_what(consumed: Client, server: ServerProcess) -> None:
    def asked(code: int, **ext: object) -> Any:
        return json.loads(consumed.call(code, **ext).body)

    with Client(server.broker) as member:
        member.heartbeat("c", "Live", "Asked")
        assert asked(CONSUMED_BY, topic="Asked") == {"groupList": ["A", "B", "Live"]}
        found = asked(SUBSCRIPTION_OF, group="Live", topic="Asked")
        assert (found["group"], found["topic"]) == ("Live", "Asked")
        assert found["subscriptionData"]["subString"] == "*"
    topics = asked(TOPICS_OF, group="B")
    assert topics == {"brokerAddr": "{}:{}".format(*server.broker), "topicList": ["Asked"]}
    assert asked(TOPICS_OF, group="None")["topicList"] == []
    assert asked(SUBSCRIPTION_OF, group="B", topic="Asked") == {"group": "B", "topic": "Asked"}


def test_corrected_offsets(consumed: Client) -> None:
    def corrected(compare: str, left_out: str = "") -> dict[int, int]:
        ext = {"topic": "Asked", "compareGroup": compare, "filterGroups": left_out}
        text = consumed.call(CORRECTION, **ext).body.decode()
        return {int(q): int(n) for q, n in re.findall(r"[{,](\d+):(\d+)", text)}

    assert corrected("None") == {0: 4, 1: 0}
    assert corrected("B") == {0: 4, 1: 0}
    assert corrected("A", "A,C") == {0: 2**63 - 1, 1: 0}, "A is behind all others"
    assert corrected("A", "A,B") == {}, "nobody is left to compare with"
    assert corrected("None") == {0: 4, 1: 0}, "who was left out keeps its offsets"


def test_times_of_consumption(consumed: Client) -> None:
    first, second = json.loads(consumed.call(TIME_SPAN, topic="Asked", group="A").body)[
        "consumeTimeSpanSet"
    ]
    assert first["messageQueue"] == {"brokerName": "broker-a", "queueId": 0, "topic": "Asked"}
    assert first["minTimeStamp"] <= first["consumeTimeStamp"] <= first["maxTimeStamp"]
    assert first["delayTime"] > 0
    assert second["messageQueue"]["queueId"] == 1
    assert (second["delayTime"], second["maxTimeStamp"]) == (0, -1)
    assert consumed.call(TIME_SPAN, topic="None", group="A").code == NO_TOPIC


def test_entries_of_a_queue(consumed: Client, server: ServerProcess) -> None:
    def entries(index: int, count: int, **ext: object) -> Command:
        ext = {"topic": "Asked", "queueId": 0, "index": index, "count": count, **ext}
        return consumed.call(QUEUE, **ext)

    found = json.loads(entries(0, 3, consumerGroup="A").body)
    assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 10)
    assert [entry["tagsCode"] for entry in found["queueData"]] == [98, 97, 97]
    records = consumed.pull_all("Asked", 0, 0, 3)
    assert [entry["physicOffset"] for entry in found["queueData"]] == [
        record.physical_offset for record in records[:3]
    ]
    assert "not online" in found["filterData"]
    assert len(json.loads(entries(8, 4096).body)["queueData"]) == 2
    for index in (-1, 10):
        nothing = entries(index, 1)
        assert (nothing.code, nothing.body) == (0, b"")
    assert entries(0, 4097).code == INVALID_PARAMETER
    assert entries(0, 1, queueId=9).code == SYSTEM_ERROR
    assert entries(0, 1, topic="None").code == SYSTEM_ERROR
