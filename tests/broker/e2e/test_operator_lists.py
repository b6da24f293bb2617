"""Lists of topics and groups, all producers, how replication stands, and what is refused
with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import HEART_BEAT, Client
from tests.support.operators import create_topic
from tests.support.server import ServerProcess

TOPIC_LIST, GROUP_LIST, PRODUCERS, HA_STATUS = 18, 225, 328, 907
TOPIC_CONFIG, GROUP_CONFIG, UPDATE_CONFIG = 351, 352, 25


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("lists") / "store") as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        yield client


def test_topics_of_a_list_are_in_their_file(server: ServerProcess, client: Client) -> None:
    wanted = [
        {"topicName": "ListedA", "readQueueNums": 2, "writeQueueNums": 3, "perm": 6},
        {"topicName": "ListedB", "attributes": {"+message.type": "FIFO"}, "order": True},
    ]
    answer = client.call(TOPIC_LIST, json.dumps({"topicConfigList": wanted}).encode())
    assert answer.code == 0, answer.remark
    saved = json.loads((server.store / "config" / "topics.json").read_text())["topicConfigTable"]
    for name, reads, writes in (("ListedA", 2, 3), ("ListedB", 16, 16)):
        for table in (saved[name], json.loads(client.call(TOPIC_CONFIG, topic=name).body)):
            assert (table["readQueueNums"], table["writeQueueNums"]) == (reads, writes)
    assert saved["ListedB"]["attributes"] == {"message.type": "FIFO"}
    assert saved["ListedB"]["order"] is True


def test_a_list_with_one_that_cannot_be_meant_changes_nothing(client: Client) -> None:
    body = {"topicConfigList": [{"topicName": "Before"}, {"topicName": "After", "perm": 9}]}
    answer = client.call(TOPIC_LIST, json.dumps(body).encode())
    assert (answer.code, "perm 9" in (answer.remark or "")) == (29, True)
    assert client.call(TOPIC_CONFIG, topic="Before").code == 17


@pytest.mark.parametrize(
    "bad",
    [
        {"topicName": "has blank"},
        {"topicName": "SCHEDULE_TOPIC_XXXX"},
        {"topicName": "Queues", "readQueueNums": 70_000},
        {"topicName": "Attributes", "attributes": {"+no.such": "x"}},
    ],
)
def test_a_list_with_one_that_the_broker_refuses_changes_nothing(
    client: Client, bad: dict[str, object]
) -> None:
    body = {"topicConfigList": [{"topicName": "GoodBefore"}, bad, {"topicName": "GoodAfter"}]}
    assert client.call(TOPIC_LIST, json.dumps(body).encode()).code != 0
    for name in ("GoodBefore", "GoodAfter"):
        assert client.call(TOPIC_CONFIG, topic=name).code == 17


def test_groups_of_a_list(client: Client) -> None:
    groups = [{"groupName": "G1", "retryMaxTimes": 5}, {"groupName": "G2", "consumeEnable": False}]
    answer = client.call(GROUP_LIST, json.dumps({"groupConfigList": groups}).encode())
    assert answer.code == 0, answer.remark
    assert json.loads(client.call(GROUP_CONFIG, group="G1").body)["retryMaxTimes"] == 5
    assert json.loads(client.call(GROUP_CONFIG, group="G2").body)["consumeEnable"] is False
    bad = [{"groupName": "G3"}, {"groupName": "G4", "retryQueueNums": -1}]
    answer = client.call(GROUP_LIST, json.dumps({"groupConfigList": bad}).encode())
    assert answer.code == 29
    assert client.call(GROUP_CONFIG, group="G3").code == 26


def test_all_producers(client: Client) -> None:
    assert json.loads(client.call(PRODUCERS).body) == {"data": {}}
    beat = {"clientID": "10.0.0.1@7", "producerDataSet": [{"groupName": "PG"}]}
    assert client.call(HEART_BEAT, json.dumps(beat).encode()).code == 0
    (group,) = json.loads(client.call(PRODUCERS).body)["data"].items()
    assert group[0] == "PG"
    (producer,) = group[1]
    assert producer["clientId"] == "10.0.0.1@7"
    assert producer["remoteIP"].startswith("/127.0.0.1:")
    assert producer["lastUpdateTimestamp"] > 1_700_000_000_000


def test_a_master_without_slaves(client: Client) -> None:
    status = json.loads(client.call(HA_STATUS).body)
    assert (status["master"], status["haConnectionInfo"], status["inSyncSlaveNums"]) == (
        True,
        [],
        0,
    )


@pytest.mark.parametrize(
    ("code", "why"),
    [(513, "static topics"), (1005, "controller"), (2004, "no mode"),
     (908, "no offset"), (200056, "no records"), (2001, "cold data"), (355, "RocksDB"),
     (902, "container"), (999, "type 999 not supported")],
)  # fmt: skip
def test_what_is_not_there_is_refused_with_its_reason(client: Client, code: int, why: str) -> None:
    answer = client.call(code)
    assert answer.code == 3
    assert why in (answer.remark or "")


def _documented() -> list[tuple[int, int]]:
    """Requests of the table of refused commands, and the codes of their answers."""
    text = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| ([\d, to]+) \| (\d+) \| [^|]+ \|$", text, re.MULTILINE)
    found = []
    for requests, answer in rows:
        for request in requests.split(", "):
            first, _, last = request.partition(" to ")
            found += [(code, int(answer)) for code in range(int(first), int(last or first) + 1)]
    return found


def test_the_table_of_refused_commands(client: Client) -> None:
    documented = dict(_documented())
    assert len(documented) == 29
    assert {code: client.call(code).code for code in documented} == documented


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (1007, "no controller"),
        (3001, "keeps no users"),
        (3010, "keeps no users"),
    ],
)
def test_what_rocketmq_refuses_as_well(
    server: ServerProcess, client: Client, code: int, why: str
) -> None:
    """A broker without a controller, and without a provider of users: SYSTEM_ERROR. The name
    servers of both have no such request."""
    answer = client.call(code)
    assert answer.code == 1
    assert why in (answer.remark or "")
    with Client(server.namesrv) as names:
        assert names.call(code).code == 3


def test_topics_of_mixed_messages_need_a_key(client: Client) -> None:
    refused = create_topic(client, "Mixed", attributes="+message.type=MIXED")
    assert refused.code == 29
    assert "enableMixedMessageType" in (refused.remark or "")
    assert client.call(TOPIC_CONFIG, topic="Mixed").code == 17
    assert client.call(UPDATE_CONFIG, b"enableMixedMessageType=true").code == 0
    assert create_topic(client, "Mixed", attributes="+message.type=MIXED").code == 0
    made = json.loads(client.call(TOPIC_CONFIG, topic="Mixed").body)
    assert made["attributes"] == {"message.type": "MIXED"}
    assert client.call(UPDATE_CONFIG, b"enableMixedMessageType=false").code == 0
    assert create_topic(client, "Mixed", 2).code == 0, "what it has stays"
