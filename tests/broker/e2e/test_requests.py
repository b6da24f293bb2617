"""Requests of the broker on the wire, as other clients send them."""

from __future__ import annotations

import json
import time
from itertools import count

import pytest

from tests.support.client import (
    HEART_BEAT,
    LOCK_BATCH_MQ,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    SEND_MESSAGE,
    UNLOCK_BATCH_MQ,
    UNREGISTER_CLIENT,
    UPDATE_CONSUMER_OFFSET,
    VIEW_MESSAGE_BY_ID,
    Client,
    batch_command,
)
from tests.support.operators import create_topic
from tests.support.records import decode_records
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON, Command, encode

GET_CONSUMER_LIST_BY_GROUP = 38
NOTIFY_CONSUMER_IDS_CHANGED = 40
CHECK_CLIENT_CONFIG = 46

_numbers = count()


@pytest.fixture
def topic(client: Client) -> str:
    """A topic of the test's own with 4 queues."""
    name = f"Topic{next(_numbers)}"
    create_topic(client, name, 4)
    return name


# Topics.


def test_created_topic_has_the_queues_it_was_given(client: Client) -> None:
    assert create_topic(client, "Created16", 16).code == 0
    for queue in (0, 15):
        assert client.send("Created16", queue_id=queue).code == 0
    assert client.send("Created16", queue_id=16).code != 0
    assert create_topic(client, "Created16", 20).code == 0, "a topic can be widened"
    assert client.send("Created16", queue_id=19).code == 0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("TBW102", {}),
        ("SCHEDULE_TOPIC_XXXX", {}),
        ("DefaultCluster", {}),
        ("a/b", {}),
        ("T", {"readQueueNums": -1}),
        ("T", {"writeQueueNums": 10_000_000}),
        ("T", {"perm": "six"}),
        ("T", {"topicFilterType": "NONE"}),
    ],
)
def test_topics_that_cannot_be_created(
    client: Client, name: str, change: dict[str, object]
) -> None:
    answer = create_topic(client, name, 4, **change)
    assert answer.code in (1, 29)
    assert answer.remark


def test_permission_of_a_topic(client: Client) -> None:
    assert create_topic(client, "ReadOnly", 4, perm=4).code == 0
    assert client.pull("ReadOnly", 0, 0).code == 19
    assert create_topic(client, "WriteOnly", 4, perm=2).code == 0
    assert client.send("WriteOnly").code == 0
    assert client.pull("WriteOnly", 0, 0).code == 16


# Offsets.


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_max_and_min_offset(client: Client, topic: str, serialize: int) -> None:
    assert (client.min_offset(topic, 1), client.max_offset(topic, 1)) == (0, 0)
    for n in range(5):
        assert client.send(topic, queue_id=1, serialize=serialize).ext["queueOffset"] == str(n)
    assert (client.min_offset(topic, 1), client.max_offset(topic, 1)) == (0, 5)
    assert (client.min_offset(topic, 0), client.max_offset(topic, 0)) == (0, 0)


def test_consumer_offsets(client: Client, topic: str) -> None:
    place = {"consumerGroup": "offsets", "topic": topic, "queueId": 2}
    assert client.call(QUERY_CONSUMER_OFFSET, **place).code == 22, "the client decides"
    client.send(topic, queue_id=2)
    answer = client.call(QUERY_CONSUMER_OFFSET, **place)
    assert answer.ext["offset"] == "0", "the first message is still in memory: start with it"
    strict = client.call(QUERY_CONSUMER_OFFSET, **place, setZeroIfNotFound="false")
    assert (strict.code, bool(strict.remark)) == (22, True)
    for offset in (7, 3):
        assert client.call(UPDATE_CONSUMER_OFFSET, **place, commitOffset=offset).code == 0
        assert client.call(QUERY_CONSUMER_OFFSET, **place).ext["offset"] == str(offset)
    place["topic"] = "NotThere"
    assert client.call(QUERY_CONSUMER_OFFSET, **place).code == 22
    assert client.call(UPDATE_CONSUMER_OFFSET, **place, commitOffset=1).code == 17


def test_offsets_of_a_client_that_leaves_at_once(process: ServerProcess, client: Client) -> None:
    """64 commits and a close without reading one answer: all of them count."""
    create_topic(client, "Left", 64)
    for group in (f"left-{n}" for n in range(5)):
        place = {"consumerGroup": group, "topic": "Left"}
        frames = b"".join(
            encode(
                Command(
                    UPDATE_CONSUMER_OFFSET,
                    {**place, "queueId": str(n), "commitOffset": str(100 + n)},
                    opaque=n,
                )
            )
            for n in range(64)
        )
        with Client(process.broker) as leaving:
            leaving.send_raw(frames)

        def offsets(place: dict[str, str] = place) -> list[str]:
            answers = [client.call(QUERY_CONSUMER_OFFSET, **place, queueId=n) for n in range(64)]
            return [answer.ext.get("offset", "") for answer in answers]

        wanted = [str(100 + n) for n in range(64)]
        eventually(lambda: offsets() == wanted, f"all offsets of {group}", 5)  # noqa: B023


def test_search_offset_by_timestamp(client: Client, topic: str) -> None:
    client.send(topic, b"0")
    (first,) = client.pull(topic, 0, 0).records
    eventually(lambda: time.time() * 1000 > first.store_timestamp + 2, "a later millisecond")
    client.send(topic, b"1")
    second = client.pull(topic, 0, 0).records[1]

    def search(timestamp: int, **more: str) -> int:
        answer = client.call(
            SEARCH_OFFSET_BY_TIMESTAMP, topic=topic, queueId=0, timestamp=timestamp, **more
        )
        assert answer.code == 0
        return int(answer.ext["offset"])

    assert search(0) == 0
    assert search(first.store_timestamp) == 0
    assert search(first.store_timestamp, boundaryType="UPPER") == 0
    assert search(first.store_timestamp + 1) == 1
    assert search(second.store_timestamp) == 1
    assert search(second.store_timestamp + 60_000) == 2, "behind everything: the maximum"


def test_view_message_by_id(client: Client, topic: str) -> None:
    for n in range(3):
        answer = client.send(topic, b"body %d" % n, properties={"KEYS": f"k{n}"})
        offset = int(answer.ext["msgId"][16:], 16)
        (record,) = decode_records(client.call(VIEW_MESSAGE_BY_ID, offset=offset).body)
        assert record.body == b"body %d" % n
        assert record.properties["KEYS"] == f"k{n}"
        assert record.offset_msg_id == answer.ext["msgId"]
        for wrong in (offset + 1, 1 << 50, -1):
            assert client.call(VIEW_MESSAGE_BY_ID, offset=wrong).code == 1


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize("code", [SEND_MESSAGE, 310])
def test_send_forms(client: Client, topic: str, serialize: int, code: int) -> None:
    answer = client.send(topic, b"form", code=code, serialize=serialize, properties={"TAGS": "ü"})
    assert answer.code == 0
    (record,) = client.pull(topic, 0, 0, serialize=serialize).records
    assert (record.body, record.properties["TAGS"]) == (b"form", "ü")
    assert record.born_host[0] == "127.0.0.1"


LEFT_OUT: list[dict[str, str | None]] = [
    {"a": None},
    {"c": None},
    {"d": None},
    dict.fromkeys("acd"),
]
"""Letters of producerGroup, defaultTopic and defaultTopicQueueNums."""


@pytest.mark.parametrize("code", [SEND_MESSAGE, 310, 320])
@pytest.mark.parametrize("change", LEFT_OUT, ids=lambda change: "".join(change))
def test_what_clients_leave_out_of_a_send(
    client: Client, topic: str, code: int, change: dict[str, str | None]
) -> None:
    if code == 320:
        answer = client.request(batch_command(topic, [(b"form", {})], change=change))
    else:
        answer = client.send(topic, b"form", code=code, change=change)
    assert answer.code == 0, answer.remark
    (record,) = client.pull(topic, 0, 0).records
    assert record.body == b"form"


def test_a_topic_is_made_for_who_names_a_template(client: Client) -> None:
    answer = client.send("LeftOut", change={"c": None})
    assert (answer.code, "topic[LeftOut] not exist" in (answer.remark or "")) == (17, True)
    assert client.send("LeftOut", change={"a": None, "d": None}).code == 0


@pytest.mark.parametrize("letter", list("befgh"))
def test_what_a_send_needs(client: Client, topic: str, letter: str) -> None:
    answer = client.send(topic, change={letter: None})
    assert answer.code == 1
    assert "is null" in (answer.remark or "")


def test_batch(client: Client, topic: str) -> None:
    answer = client.request(batch_command(topic, [(b"a", {"TAGS": "x"}), (b"b", {})]))
    assert answer.code == 0
    assert len(answer.ext["msgId"].split(",")) == 2
    assert [r.body for r in client.pull(topic, 0, 0).records] == [b"a", b"b"]


# Groups.


def members(client: Client, group: str) -> list[str]:
    answer = client.call(GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
    return json.loads(answer.body)["consumerIdList"] if answer.code == 0 else []


def test_heartbeat_and_members(process: ServerProcess, client: Client, topic: str) -> None:
    beat = client.heartbeat("one@1", "members", topic)
    assert beat.code == 0
    assert beat.version >= 232
    assert members(client, "members") == ["one@1"]
    with Client(process.broker) as other:
        other.heartbeat("two@2", "members", topic)
        assert members(client, "members") == ["one@1", "two@2"]
        while not (told := [p for p in client.pushed if p.code == NOTIFY_CONSUMER_IDS_CHANGED]):
            client.wait_pushed(30)
        assert told[-1].ext["consumerGroup"] == "members"
        assert told[-1].is_oneway
        assert other.call(UNREGISTER_CLIENT, clientID="two@2", consumerGroup="members").code == 0
        assert members(client, "members") == ["one@1"]
        while len([p for p in client.pushed if p.code == NOTIFY_CONSUMER_IDS_CHANGED]) <= len(told):
            client.wait_pushed(30)
        other.heartbeat("two@2", "members", topic)
        assert len(members(client, "members")) == 2
    eventually(
        lambda: members(client, "members") == ["one@1"], "a closed connection leaves the group"
    )
    client.call(UNREGISTER_CLIENT, clientID="one@1", consumerGroup="members")
    answer = client.call(GET_CONSUMER_LIST_BY_GROUP, consumerGroup="members")
    assert answer.code == 1
    assert "members" in (answer.remark or "")


def test_a_repeated_heartbeat_notifies_nobody(client: Client, topic: str) -> None:
    client.heartbeat("one@1", "quiet", topic)
    if not client.pushed:
        client.wait_pushed(client.timeout)  # of the first one it is told
    before = len(client.pushed)
    for _ in range(3):
        client.heartbeat("one@1", "quiet", topic)
    members(client, "quiet")
    assert len(client.pushed) == before


def test_heartbeat_makes_the_retry_topic(client: Client, topic: str) -> None:
    client.heartbeat("one@1", "retrying", topic)
    assert client.pull("%RETRY%retrying", 0, 0, group="retrying").code == 19


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"consumerDataSet":7}', b"\xff\xfe"])
def test_broken_heartbeats(client: Client, body: bytes) -> None:
    answer = client.call(HEART_BEAT, body)
    assert answer.code in (1, 29)
    assert answer.remark


def check_config(client: Client, topic: str, kind: str) -> Command:
    subscription = {
        "topic": topic, "subString": "*", "expressionType": kind, "tagsSet": [], "codeSet": [],
        "classFilterMode": False, "subVersion": 1,
    }  # fmt: skip
    data = {"clientId": "one@1", "group": "checked", "subscriptionData": subscription}
    return client.call(CHECK_CLIENT_CONFIG, json.dumps(data).encode())


def test_check_client_config(client: Client, topic: str) -> None:
    assert check_config(client, topic, "TAG").code == 0
    answer = check_config(client, topic, "SQL92")
    assert answer.code == 1
    assert "SQL92" in (answer.remark or "")


def locked(client: Client, code: int, client_id: str, topic: str, *queues: int) -> list[int]:
    mq = [{"topic": topic, "brokerName": "broker-a", "queueId": n} for n in queues]
    body = {"consumerGroup": "locking", "clientId": client_id, "mqSet": mq}
    answer = client.call(code, json.dumps(body).encode())
    assert answer.code == 0
    found = json.loads(answer.body)["lockOKMQSet"] if answer.body else []
    return sorted(queue["queueId"] for queue in found)


def test_queue_locks(client: Client, topic: str) -> None:
    assert locked(client, LOCK_BATCH_MQ, "one", topic, 0, 1) == [0, 1]
    assert locked(client, LOCK_BATCH_MQ, "two", topic, 1, 2) == [2]
    assert locked(client, LOCK_BATCH_MQ, "one", topic, 0, 1) == [0, 1], "renewed"
    locked(client, UNLOCK_BATCH_MQ, "two", topic, 1)
    assert locked(client, LOCK_BATCH_MQ, "two", topic, 1) == [], "not its own to unlock"
    locked(client, UNLOCK_BATCH_MQ, "one", topic, 0, 1)
    assert locked(client, LOCK_BATCH_MQ, "two", topic, 0, 1, 2) == [0, 1, 2]


def test_unknown_request_code(client: Client) -> None:
    answer = client.call(9999)
    assert answer.code == 3
    assert "9999" in (answer.remark or "")
