"""DELETE_TOPIC_IN_BROKER, DELETE_SUBSCRIPTIONGROUP and CLEAN_UNUSED_TOPIC."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    QUERY_CONSUMER_OFFSET,
    UPDATE_CONSUMER_OFFSET,
    Client,
    pull_command,
)
from tests.support.delays import levels
from tests.support.operators import create_topic, saved_topics
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

DELETE_GROUP, DELETE_TOPIC, CLEAN_UNUSED = 207, 215, 316
GET_GROUP, CONSUMED_BY, CONSUME_STATS = 352, 300, 208
NO_TOPIC, NOT_FOUND, NO_GROUP, INVALID_PARAMETER = 17, 22, 26, 29


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of the test's own, which may be killed."""
    with ServerProcess(tmp_path / "store") as running:
        yield running


@pytest.fixture
def own(server: ServerProcess) -> Iterator[Client]:
    """A connection to it."""
    with Client(server.broker) as connection:
        yield connection


def delete(client: Client, topic: str) -> int:
    return client.call(DELETE_TOPIC, topic=topic).code


def commit(client: Client, topic: str, offset: int, group: str = "G") -> None:
    ext = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": offset}
    assert client.call(UPDATE_CONSUMER_OFFSET, **ext).code == 0


def committed(client: Client, topic: str, group: str = "G") -> int:
    """The code of the answer, or the offset."""
    ext = {"consumerGroup": group, "topic": topic, "queueId": 0, "setZeroIfNotFound": "false"}
    answer = client.call(QUERY_CONSUMER_OFFSET, **ext)
    return int(answer.ext["offset"]) if answer.code == 0 else -answer.code


def begins(client: Client, topic: str) -> int:
    """Where a group that is new begins, by the broker's word."""
    ext = {"consumerGroup": "New", "topic": topic, "queueId": 0}
    return int(client.call(QUERY_CONSUMER_OFFSET, **ext).ext["offset"])


def saved_offsets(server: ServerProcess) -> set[str]:
    file = server.store / "config" / "consumerOffset.json"
    if not file.exists():
        return set()
    text = re.sub(r"(\d+):", r'"\1":', file.read_text())  # queues are keys without quotes
    return set(json.loads(text)["offsetTable"])


def saved_groups(server: ServerProcess) -> set[str]:
    text = (server.store / "config" / "subscriptionGroup.json").read_text()
    return set(json.loads(text)["subscriptionGroupTable"])


def test_a_deleted_topic_is_gone(server: ServerProcess, own: Client) -> None:
    create_topic(own, "T", 2)
    for n in range(5):
        assert own.send("T", b"%d" % n).code == 0
    commit(own, "T", 3)
    for _ in range(3):  # the engine answers by itself what was checked once
        assert own.pull("T", 0, 0).code == 0
    waiting = own.post(
        pull_command("T", 1, 0, sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION, suspend_ms=30_000)
    )
    with Client(server.broker) as operator:
        assert delete(operator, "T") == 0
        told = own.receive(30)
        assert (told.opaque, told.code) == (waiting, NO_TOPIC)
        assert own.pull("T", 0, 0).code == NO_TOPIC
        assert committed(own, "T") == -NOT_FOUND
        assert "T" not in saved_topics(server.store)
        assert not saved_offsets(server)
        assert own.min_offset("T", 0) == own.max_offset("T", 0) == 5
        assert delete(operator, "T") == 0, "an unknown topic is no error"
    server.restart()
    with Client(server.broker) as again:
        assert again.pull("T", 0, 0).code == NO_TOPIC


@pytest.mark.parametrize("kill", [False, True])
def test_a_topic_is_made_again(server: ServerProcess, own: Client, kill: bool) -> None:
    """Its queue goes on. Whoever is new there begins with what was sent since."""
    for start in (0, 3, 6):
        for n in range(start, start + 3):
            answer = own.send("T", b"%d" % n)
            assert (answer.code, answer.ext["queueOffset"]) == (0, str(n))
        assert [r.body for r in own.pull_all("T", 0, start, start + 3)] == [
            b"%d" % n for n in range(start, start + 3)
        ]
        assert own.pull("T", 0, 0).next_offset == (start or 3)
        assert begins(own, "T") == start
        if start < 6:
            assert delete(own, "T") == 0
    if kill:
        server.kill()
    server.restart()
    with Client(server.broker) as again:
        assert (again.min_offset("T", 0), again.max_offset("T", 0)) == (6, 9)
        assert [r.body for r in again.pull_all("T", 0, 6, 9)] == [b"6", b"7", b"8"]
        assert begins(again, "T") == 6
        stats = again.call(CONSUME_STATS, consumerGroup="New", topicList="T").body.decode()
        assert '"brokerOffset":9,"consumerOffset":6,' in stats, "three messages behind, not nine"


def test_a_killed_broker_does_not_bring_it_back(server: ServerProcess, own: Client) -> None:
    assert own.send("T").code == 0
    assert own.send("Kept").code == 0
    assert delete(own, "T") == 0
    server.kill()
    server.restart()
    with Client(server.broker) as again:
        assert again.pull("T", 0, 0).code == NO_TOPIC
        assert again.pull("Kept", 0, 0).code == 0
    assert "T" not in saved_topics(server.store)


def test_delayed_messages_of_a_deleted_topic(server: ServerProcess, own: Client) -> None:
    """They are left out, and are not in a topic of that name that is made later."""
    for _ in range(2):
        assert own.send("T", properties={"DELAY": "1"}).code == 0
    assert delete(own, "T") == 0
    eventually(lambda: levels(own)[0], "they are dealt with", until=lambda found: found == (2, 2))
    assert own.pull("T", 0, 0).code == NO_TOPIC
    assert own.call(CLEAN_UNUSED).code == 0
    assert own.send("T", b"new").code == 0
    assert [r.body for r in own.pull_all("T", 0, 0, 1)] == [b"new"]


def test_system_topics_stay(client: Client) -> None:
    topics = [
        "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "DefaultCluster", "broker-a", "rmq_sys_wheel_timer", "DefaultCluster_REPLY_TOPIC", "",
        "a b",
    ]  # fmt: skip
    assert {topic: delete(client, topic) for topic in topics} == dict.fromkeys(
        topics, INVALID_PARAMETER
    )
    assert client.call(DELETE_TOPIC).code == 1
    assert client.call(CLEAN_UNUSED).code == 0
    assert client.send("StillMadeFromTBW102").code == 0


def test_a_deleted_group(process: ServerProcess, client: Client) -> None:
    client.send("T")
    client.heartbeat("c", "G", "T")
    commit(client, "T", 1)
    commit(client, "T", 1, "Other")
    assert client.call(DELETE_GROUP, groupName="G").code == 0
    assert client.call(GET_GROUP, group="G").code == NO_GROUP
    assert "G" not in saved_groups(process)
    assert committed(client, "T") == 1, "what it has consumed stays, unless asked for"
    assert client.call(DELETE_GROUP, groupName="G", cleanOffset="true").code == 0
    assert committed(client, "T") == -NOT_FOUND
    assert committed(client, "T", "Other") == 1
    assert saved_offsets(process) == {"T@Other"}
    client.heartbeat("c", "G", "T")  # consumers that are still there make it again
    assert client.call(GET_GROUP, group="G").code == 0
    groups = json.loads(client.call(CONSUMED_BY, topic="T").body)["groupList"]
    assert groups == ["G", "Other"], "by its members, and by offsets"


@pytest.mark.parametrize("group", ["CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER", "", "a b"])
def test_groups_that_stay(client: Client, group: str) -> None:
    ext = {"groupName": group, "cleanOffset": "true"}
    assert client.call(DELETE_GROUP, **ext).code == INVALID_PARAMETER
    assert client.call(DELETE_GROUP).code == 1


def test_groups_that_nobody_uses(tmp_path: Path) -> None:
    """They make room for others."""
    conf = "autoCreatedGroupExpireTime=800\nmaxAutoCreatedGroups=3\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server, Client(server.broker) as client:
        client.send("T")
        for n in range(3):
            assert client.pull("T", 0, 0, group=f"g{n}").code == 0
        commit(client, "T", 1, "g0")
        assert client.pull("T", 0, 0, group="more").code == NO_GROUP
        eventually(lambda: client.pull("T", 0, 0, group="more").code == 0, "others expire")
        assert client.call(GET_GROUP, group="g0").code == 0, "one with offsets does not"


def test_new_names_of_one_connection(tmp_path: Path) -> None:
    conf = "maxNewGroupsPerConnection=2\nmaxNewTopicsPerConnection=2\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server, Client(server.broker) as client:
        for n in range(2):
            assert client.send(f"T{n}").code == 0
            assert client.pull("T0", 0, 0, group=f"g{n}").code == 0
        refused = client.send("T2")
        assert refused.code == NO_TOPIC
        assert "maxNewTopicsPerConnection=2" in (refused.remark or "")
        refused = client.request(pull_command("T0", 0, 0, group="g2"))
        assert refused.code == NO_GROUP
        assert "maxNewGroupsPerConnection=2" in (refused.remark or "")
        client.heartbeat("c", "g3", "T0")  # is answered, as by RocketMQ, and makes no group
        assert client.call(GET_GROUP, group="g3").code == NO_GROUP
        assert create_topic(client, "operators").code == 0
        with Client(server.broker) as other:
            assert other.send("T2").code == 0
            assert other.pull("T0", 0, 0, group="g2").code == 0
        assert client.send("T2").code == 0
