"""mqadmin of Apache RocketMQ against our server: deleting topics and groups, asking consumers.

All commands are run in one JVM, one after the other.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import UPDATE_CONSUMER_OFFSET, Client
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import FLAG_RESPONSE, Command, encode

from .store.tool import Tool

RUNNING_INFO, GET_GROUP = 307, 352
NO_TOPIC, NO_GROUP = 17, 26
RUNNING = {
    "mqPopTable": {},
    "mqTable": {},
    "properties": {"PROP_CONSUMEORDERLY": "false", "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
    "statusTable": {},
    "subscriptionSet": [{"topic": "Kept", "subString": "TagA", "classFilterMode": False}],
    "userConsumerInfo": {},
}


class Admin:
    """A server, a member of the group G, and mqadmin."""

    def __init__(self, server: ServerProcess, member: Client, tool: Tool) -> None:
        self.server = server
        self.member = member
        self.broker = "{}:{}".format(*server.broker)
        self._names = "{}:{}".format(*server.namesrv)
        self._tool = tool

    def run(self, *words: str) -> str:
        """What a command printed, of whatever kind."""
        out, err = self._tool.command(self._names, *words)
        return "\n".join(line for line in (out + err).splitlines() if " |-" not in line)

    def saved(self, file: str, table: str) -> dict[str, object]:
        text = (self.server.store / "config" / file).read_text()
        found: dict[str, object] = json.loads(text)[table]
        return found


@pytest.fixture(scope="module")
def admin(home: Path) -> Iterator[Admin]:
    with (
        ServerProcess(home / "groups") as server,
        Client(server.broker) as member,
        Tool(home / "tool") as tool,
    ):
        for topic in ("Kept", "Doomed"):
            assert member.send(topic, properties={"TAGS": "TagA"}).code == 0
        assert member.heartbeat("client-1", "G", "Kept").code == 0
        admin = Admin(server, member, tool)
        eventually(lambda: "Kept" in admin.run("topicList"), "the name server knows the topics")
        yield admin


def test_the_state_of_a_consumer(admin: Admin) -> None:
    def answer() -> None:
        while not any(pushed.code == RUNNING_INFO for pushed in admin.member.pushed):
            admin.member.wait_pushed(30)
        question = next(p for p in admin.member.pushed if p.code == RUNNING_INFO)
        body = json.dumps(RUNNING).encode()
        reply = Command(0, opaque=question.opaque, flag=FLAG_RESPONSE, body=body)
        admin.member.send_raw(encode(reply))

    thread = threading.Thread(target=answer)
    thread.start()
    said = admin.run("consumerStatus", "-g", "G", "-i", "client-1")
    thread.join(30)
    assert "Consumer Properties" in said
    assert "TagA" in said
    assert "not online" in admin.run("consumerStatus", "-g", "G", "-i", "nobody")


def test_members_that_differ(admin: Admin) -> None:
    """The tool takes what it knows, and leaves out what each of them wants."""
    with Client(admin.server.broker) as other:
        other.heartbeat("client-2", "G", "Kept", "Doomed")
        said = admin.run("consumerConnection", "-g", "G")
    assert "Exception" not in said, said
    assert "client-1" in said
    assert "client-2" in said


def test_a_retry_policy(admin: Admin) -> None:
    policy = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1000,"multiplier":3}}'
    said = admin.run("updateSubGroup", "-b", admin.broker, "-g", "Tuned", "-p", policy)
    assert "success" in said, said
    saved = admin.saved("subscriptionGroup.json", "subscriptionGroupTable")["Tuned"]
    assert isinstance(saved, dict)
    assert saved["groupRetryPolicy"]["exponentialRetryPolicy"]["multiplier"] == 3


def test_entries_of_a_queue(admin: Admin) -> None:
    said = admin.run("queryCq", "-t", "Kept", "-q", "0", "-i", "0", "-b", admin.broker)
    assert "tagsCode=2598919" in said, said


def test_all_topics(admin: Admin, tmp_path: Path) -> None:
    admin.run("exportMetadata", "-b", admin.broker, "-t", "-f", str(tmp_path))
    (file,) = tmp_path.rglob("*.json")
    topics = json.loads(file.read_text())["topicConfigTable"]
    assert "Kept" in topics
    assert "TBW102" not in topics, "which ones are the system's it has asked"


def test_deleting_groups(admin: Admin) -> None:
    client = admin.member
    for group in ("Gone", "GoneToo"):
        assert client.heartbeat("client-1", group, "Kept").code == 0
        ext = {"consumerGroup": group, "topic": "Kept", "queueId": 0, "commitOffset": 1}
        assert client.call(UPDATE_CONSUMER_OFFSET, **ext).code == 0
    said = admin.run("deleteSubGroup", "-b", admin.broker, "-g", "Gone", "-r", "true")
    assert f"delete subscription group [Gone] from broker [{admin.broker}] success" in said
    assert client.call(GET_GROUP, group="Gone").code == NO_GROUP
    offsets = (admin.server.store / "config" / "consumerOffset.json").read_text()
    assert "Kept@Gone" not in offsets.replace("Kept@GoneToo", "")
    said = admin.run("deleteSubGroup", "-c", "DefaultCluster", "-g", "GoneToo")
    assert "[GoneToo]" in said
    assert client.call(GET_GROUP, group="GoneToo").code == NO_GROUP


def test_deleting_topics(admin: Admin) -> None:
    said = admin.run("deleteTopic", "-c", "DefaultCluster", "-t", "Doomed")
    assert "delete topic [Doomed] from cluster [DefaultCluster] success" in said, said
    assert "Doomed" not in admin.saved("topics.json", "topicConfigTable")
    assert admin.member.pull("Doomed", 0, 0).code == NO_TOPIC
    assert "conflict with system topic" in admin.run(
        "deleteTopic", "-c", "DefaultCluster", "-t", "TBW102"
    )
    assert admin.member.send("Doomed", b"again").code == 0


def test_cleaning_unused_topics(admin: Admin) -> None:
    for target in (["-b", admin.broker], ["-c", "DefaultCluster"]):
        assert admin.run("cleanUnusedTopic", *target).strip() == "success"
    assert admin.member.pull("Kept", 0, 0).code == 0
