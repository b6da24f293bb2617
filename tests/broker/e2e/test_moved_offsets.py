"""Moving the offsets of groups, and the figures of topics and groups that operators look at."""

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
from tests.support.server import ServerProcess
from tests.support.wire import Command

TOPIC_STATS, CONSUME_STATS, RESET, CLONE, CLIENT_RESET = 202, 208, 222, 314, 220
FOUND, SYSTEM_ERROR, NO_TOPIC, NOT_FOUND, MOVED = 0, 1, 17, 19, 21
NO_GROUP, INVALID_PARAMETER, NOT_ONLINE = 26, 29, 206


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("moved") / "store") as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own with six messages in two queues."""
    name = re.sub(r"\W", "-", request.node.name)[:100]
    for n in range(6):
        assert client.send(name, b"%d" % n, queue_id=n % 2, queues=2).code == 0
    return name


def commit(client: Client, topic: str, queue_id: int, offset: int, group: str = "G") -> None:
    answer = client.call(
        UPDATE_CONSUMER_OFFSET,
        consumerGroup=group,
        topic=topic,
        queueId=queue_id,
        commitOffset=offset,
    )
    assert answer.code == 0


def committed(client: Client, topic: str, queue_id: int, group: str = "G") -> int:
    answer = client.call(QUERY_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id)
    return int(answer.ext["offset"])


def reset(
    client: Client, topic: str, timestamp: int = -1, group: str = "G", **ext: object
) -> Command:
    return client.call(RESET, group=group, topic=topic, timestamp=timestamp, isForce="true", **ext)


def table(body: bytes) -> dict[int, object]:
    """The values of an offsetTable by queue; its keys are objects, as fastjson writes them."""
    text = re.sub(
        r'\{("brokerName":"[^"]*","queueId":(\d+),"topic":"[^"]*")\}:', r'"\2":', body.decode()
    )
    return {int(queue): value for queue, value in json.loads(text)["offsetTable"].items()}


def test_to_the_end_and_to_a_time(client: Client, topic: str) -> None:
    commit(client, topic, 0, 1)
    assert table(reset(client, topic).body) == {0: 3, 1: 3}
    assert [committed(client, topic, q) for q in (0, 1)] == [3, 3]
    record = client.pull_all(topic, 0, 1, 2)[0]
    assert table(reset(client, topic, record.store_timestamp).body)[0] in (0, 1)
    assert table(reset(client, topic, 0).body) == {0: 0, 1: 0}


def test_to_an_offset_of_one_queue(client: Client, topic: str) -> None:
    commit(client, topic, 0, 1)
    assert table(reset(client, topic, queueId=1, offset=2).body) == {1: 2}
    assert [committed(client, topic, q) for q in (0, 1)] == [1, 2]
    outside = reset(client, topic, queueId=1, offset=5)
    assert outside.code == SYSTEM_ERROR
    assert outside.remark == "Target offset 5 not in consume queue range [0-3]"


def test_the_next_pull_is_sent_there_and_commits_before_it_do_not_count(
    client: Client, topic: str
) -> None:
    client.heartbeat("c1", "G", topic)
    commit(client, topic, 0, 3)
    reset(client, topic, 0)
    commit(client, topic, 0, 3)  # by a consumer that has not heard of it
    assert committed(client, topic, 0) == 0
    other = client.pull(topic, 0, 3, group="Other")
    assert other.code == NOT_FOUND, "other groups have nothing to do with it"
    for _ in range(2):  # an answer may be lost, or go to a member that leaves
        moved = client.pull(topic, 0, 3, group="G")
        assert (moved.code, moved.next_offset) == (MOVED, 0)
        commit(client, topic, 0, 3)
        assert committed(client, topic, 0) == 0
    assert client.pull(topic, 0, 0, group="G").code == FOUND
    commit(client, topic, 0, 2)
    assert committed(client, topic, 0) == 2


def test_a_parked_pull_hears_of_it_at_once(
    server: ServerProcess, client: Client, topic: str
) -> None:
    with Client(server.broker) as waiting:
        waiting.post(
            pull_command(
                topic, 0, 3, group="G", suspend_ms=20_000,
                sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION,
            )
        )  # fmt: skip
        waiting.max_offset(topic, 0)  # is answered behind it
        reset(client, topic, 0)
        assert waiting.receive(30).code == NOT_FOUND
        moved = waiting.pull(topic, 0, 3, group="G")
        assert (moved.code, moved.next_offset) == (MOVED, 0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "NoSuchTopic"}, NO_TOPIC),
        ({"group": "bad/group"}, NO_GROUP),
        ({"queueId": 2}, INVALID_PARAMETER),
        ({"queueId": "x"}, SYSTEM_ERROR),
        ({"timestamp": "soon"}, SYSTEM_ERROR),
        ({"timestamp": None}, SYSTEM_ERROR),
    ],
)
def test_refusals(client: Client, topic: str, change: dict[str, object], code: int) -> None:
    commit(client, topic, 0, 1)
    ext: dict[str, object] = {"group": "G", "topic": topic, "timestamp": 0, "isForce": "true"}
    ext |= change
    answer = client.call(RESET, **{k: v for k, v in ext.items() if v is not None})
    assert answer.code == code, answer.remark
    assert committed(client, topic, 0) == 1


def test_cloned_offsets(client: Client, topic: str) -> None:
    commit(client, topic, 0, 2, "Source")
    commit(client, topic, 1, 1, "Source")
    assert client.call(CLONE, srcGroup="Source", destGroup="Copy", topic=topic).code == 0
    assert [committed(client, topic, q, "Copy") for q in (0, 1)] == [2, 1]


def test_figures(client: Client, topic: str) -> None:
    commit(client, topic, 0, 2, "Figures")
    client.pull(topic, 0, 2, group="Figures")
    rows = table(client.call(TOPIC_STATS, topic=topic).body)
    assert {q: (row["minOffset"], row["maxOffset"]) for q, row in rows.items()} == {  # type: ignore[index]
        0: (0, 3),
        1: (0, 3),
    }
    last = client.pull_all(topic, 0, 2, 3)[0]
    assert rows[0]["lastUpdateTimestamp"] == last.store_timestamp  # type: ignore[index]
    rows = table(client.call(CONSUME_STATS, consumerGroup="Figures").body)
    before = client.pull_all(topic, 0, 1, 2)[0]
    assert rows[0] == {
        "brokerOffset": 3,
        "consumerOffset": 2,
        "lastTimestamp": before.store_timestamp,
        "minOffset": 0,
        "pullOffset": 3,
    }
    assert rows[1] == {
        "brokerOffset": 3, "consumerOffset": 0, "lastTimestamp": 0, "minOffset": 0, "pullOffset": 0,
    }  # fmt: skip
    assert client.call(TOPIC_STATS, topic="NoSuchTopic").code == NO_TOPIC
    assert table(client.call(CONSUME_STATS, consumerGroup="NoSuchGroup").body) == {}


def test_names_in_bulk(client: Client, topic: str) -> None:
    commit(client, topic, 0, 1, "Bulk")
    rows = table(
        client.call(CONSUME_STATS, consumerGroup="Bulk", topicList=f"{topic};" * 1000).body
    )
    assert set(rows) == {0, 1}
    for n in range(40):
        made = client.call(
            17, topic=f"Wide{n}", defaultTopic="TBW102", readQueueNums=1024, writeQueueNums=1024,
            perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false",
        )  # fmt: skip
        assert made.code == 0
    names = ";".join(f"Wide{n}" for n in range(40))
    answer = client.call(CONSUME_STATS, consumerGroup="Bulk", topicList=names)
    assert answer.code == INVALID_PARAMETER
    assert answer.remark == "more than 32768 queues: name fewer topics (topicList)"


def test_clients_that_are_told_to_reset_by_themselves(tmp_path: Path) -> None:
    """As brokers before 5.2 do it (useServerSideResetOffset=false)."""
    conf = "useServerSideResetOffset=false\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server, Client(server.broker) as client:
        for n in range(4):
            client.send("T", b"%d" % n, queue_id=n % 2, queues=2)
        for queue_id in (0, 1):
            commit(client, "T", queue_id, 1)
        offline = reset(client, "T", 0)
        assert offline.code == NOT_ONLINE
        client.heartbeat("c1", "G", "T")
        pushed_before = len(client.pushed)
        assert table(reset(client, "T", 0).body) == {0: 0, 1: 0}
        pushed = [c for c in client.pushed[pushed_before:] if c.code == CLIENT_RESET]
        assert [table(c.body) for c in pushed] == [{0: 0, 1: 0}]
        assert (pushed[0].ext["group"], pushed[0].ext["topic"]) == ("G", "T")
        assert [committed(client, "T", q) for q in (0, 1)] == [1, 1], "theirs to commit"
        forward = client.call(RESET, group="G", topic="T", timestamp=-1, isForce="false")
        assert table(forward.body) == {0: 1, 1: 1}, "not forward without force"
        assert reset(client, "T", 0, group="Unknown").code == SYSTEM_ERROR


def test_an_offset_ahead_of_its_queue_skips_nothing_after_a_restart(tmp_path: Path) -> None:
    """As a power cut with ASYNC_FLUSH, or a restored file, leaves it."""
    with ServerProcess(tmp_path / "store") as server:
        with Client(server.broker) as client:
            for n in range(3):
                assert client.send("Leads", b"%d" % n).code == 0
            commit(client, "Leads", 0, 2)
        server.terminate()
        path = server.store / "config" / "consumerOffset.json"
        path.write_text('{"offsetTable":{"Leads@G":{0:70,1:5},"Leads@H":{0:3}}}')
        server.start()
        with Client(server.broker) as client:
            assert [committed(client, "Leads", queue_id) for queue_id in (0, 1)] == [3, 0]
            assert committed(client, "Leads", 0, "H") == 3
        assert "queue 0 at 3 instead of 70, queue 1 at 0 instead of 5" in server.stderr_text()
