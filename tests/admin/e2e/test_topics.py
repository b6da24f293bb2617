"""mqadmin's commands about topics."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest

from pyrmq import Message, Producer
from pyrmq.admin import Admin
from pyrmq.server import Running
from tests.support.mqadmin import mqadmin
from tests.support.scripted.replicas import replicas

CLUSTER = "DefaultCluster"


async def test_the_life_of_a_topic(embedded: Running) -> None:
    made = await mqadmin(
        embedded.namesrv, "updateTopic", "-t", "Made", "-c", CLUSTER, "-r", "3", "-w", "2",
        "-a", "+message.type=NORMAL",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert made.lines[0].startswith("create topic to 127.0.0.1:")
    assert made.lines[1].startswith(
        "TopicConfig [topicName=Made, readQueueNums=3, writeQueueNums=2, perm=RW-, "
    )
    route = await mqadmin(embedded.namesrv, "topicRoute", "-t", "Made")
    shown = json.loads(route.out)
    assert (shown["queueDatas"][0]["readQueueNums"], "orderTopicConf" in shown) == (3, False)
    listed = await mqadmin(embedded.namesrv, "topicRoute", "-t", "Made", "-l")
    assert listed.lines[1].split()[0] == CLUSTER
    assert listed.lines[2] == "-" * 158
    assert listed.lines[3].split() == ["Total:", "1", "3", "2"]
    assert (await mqadmin(embedded.namesrv, "topicClusterList", "-t", "Made")).lines == [CLUSTER]
    async with Producer("PG", namesrv=embedded.namesrv) as producer:
        sent = await producer.send(Message("Made", b"x"))
    status = await mqadmin(embedded.namesrv, "topicStatus", "-t", "Made")
    assert status.lines[0] == (
        f"{'#Broker Name':<32}  {'#QID':<4}  {'#Min Offset':<20}  {'#Max Offset':<20}    "
        "#Last Updated"
    )
    rows = [line.split() for line in status.lines[1:4]]
    assert [row[:4] for row in rows] == [
        [sent.queue.broker_name, str(n), "0", str(int(n == sent.queue.queue_id))] for n in range(3)
    ]
    assert status.lines[-1].startswith("Topic Put TPS: ")
    gone = await mqadmin(embedded.namesrv, "deleteTopic", "-t", "Made", "-c", CLUSTER)
    assert gone.lines == [
        f"delete topic [Made] from cluster [{CLUSTER}] success.",
        "delete topic [Made] from NameServer success.",
    ]
    assert (await mqadmin(embedded.namesrv, "topicRoute", "-t", "Made")).code == 2


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ("updateTopic -t T", "give one of", 1),
        ("updateTopic -t T -b h:1 -c C", "only one of", 1),
        ("updateTopic -t T -c NoSuch", "there is no cluster NoSuch", 2),
        ("updateTopic -t T -c DefaultCluster -p 9", "from 0 to 7", 1),
        ("updateTopic -t a/b -c DefaultCluster", "CODE: 29", 2),
        ("updateTopic -t T -b 127.0.0.1:1", "127.0.0.1:1", 2),
        ("deleteTopic -t T -c DefaultClustr", "did you mean DefaultCluster", 2),
        ("topicStatus -t NoSuchTopic", "CODE: 17", 2),
    ],
)
async def test_what_cannot_be_done_is_said(
    embedded: Running, words: str, said: str, code: int
) -> None:
    ran = await mqadmin(embedded.namesrv, *words.split())
    assert ran.code == code, ran.err
    assert said in ran.err


async def test_topics_with_their_groups(embedded: Running) -> None:
    await mqadmin(embedded.namesrv, "updateTopic", "-t", "Grouped", "-c", CLUSTER)
    ran = await mqadmin(embedded.namesrv, "topicList", "-c")
    assert [CLUSTER, "Grouped"] in [line.split() for line in ran.lines]


async def test_very_many_topics() -> None:
    with replicas() as scripted:
        names = [f"topic-{n:06d}" for n in range(100_000)]
        scripted.on_namesrv.says(206, {"topicList": names[::-1]})
        ran = await mqadmin(scripted.namesrv, "topicList")
        assert (ran.code, ran.lines) == (0, names)
        async with Admin(scripted.namesrv) as admin:
            found: Any = admin.topics.with_groups()
            async with aclosing(found) as rows:
                async for row in rows:
                    assert row.topic == names[0]
                    break
        asked = [c.code for c in scripted.on_namesrv.asked if c.code == 105]
        assert len(asked) == 1


async def test_a_list_of_topics_that_no_frame_holds() -> None:
    with replicas() as scripted:
        scripted.on_namesrv.says(206, b" " * (16 << 20))
        ran = await mqadmin(scripted.namesrv, "topicList")
        assert ran.code == 2
        assert "16777216" in ran.err
