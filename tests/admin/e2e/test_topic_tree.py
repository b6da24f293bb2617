"""`pyrmq admin topic`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.shrinking import UnreadQueuesError
from pyrmq.admin.topic_changes import TopicChange
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message
from pyrmq.model.topic import TopicConfig
from pyrmq.net.address import format_address
from pyrmq.net.client.protocol import Ext
from pyrmq.server import Running
from tests.support.mqadmin import admin, mqadmin
from tests.support.scripted.replicas import DEAD, replicas

CLUSTER = "DefaultCluster"


async def _config(embedded: Running, topic: str) -> TopicConfig:
    async with Admin(embedded.namesrv) as asked:
        at = format_address(embedded.broker_address)
        return await asked.topics._config(at, topic)


async def test_create_changes_only_what_is_named(embedded: Running) -> None:
    made = await admin(
        embedded.namesrv, "topic", "create", "T", "-c", CLUSTER, "--queues", "3",
        "--attributes", "+message.type=FIFO",
    )  # fmt: skip
    assert made.code == 0, made.err
    config = await _config(embedded, "T")
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (3, 3, 6)
    changed = await admin(
        embedded.namesrv, "topic", "create", "T", "-b", format_address(embedded.broker_address),
        "--perm", "4", "-o", "json",
    )  # fmt: skip
    assert [r["ok"] for r in json.loads(changed.out)] == [True]
    config = await _config(embedded, "T")
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (3, 3, 4)
    assert config.attributes == {"message.type": "FIFO"}
    for words in (("--queues", "3", "--read-queues", "2"), ("--perm", "8"), ()):
        where = ("-c", CLUSTER) if words else ()
        assert (await admin(embedded.namesrv, "topic", "create", "T", *where, *words)).code == 1
    new = await admin(embedded.namesrv, "topic", "create", "New", "-c", CLUSTER)
    assert new.code == 0
    assert (await _config(embedded, "New")).write_queue_nums == 8


async def test_shows(embedded: Running) -> None:
    await admin(embedded.namesrv, "topic", "create", "T", "-c", CLUSTER, "--queues", "2")
    assert "T" in (await admin(embedded.namesrv, "topic", "list")).lines
    route = await admin(embedded.namesrv, "topic", "route", "T")
    broker = format_address(embedded.broker_address)
    assert route.lines[1].split() == [CLUSTER, "broker-a", "0", broker, "2", "2", "RW-"]
    found = json.loads((await admin(embedded.namesrv, "topic", "route", "T", "-o", "json")).out)
    assert found["queueDatas"][0]["readQueueNums"] == 2
    sent = await admin(embedded.namesrv, "message", "send", "-t", "T", "--body", "x")
    assert sent.code == 0, sent.err
    status = await admin(embedded.namesrv, "topic", "status", "T", "-o", "json")
    data = json.loads(status.out)
    assert [q["broker"] for q in data["queues"]] == ["broker-a"] * 2
    assert sum(q["max"] - q["min"] for q in data["queues"]) == 1
    assert {q["last_updated"] is None for q in data["queues"]} == {True, False}
    text = await admin(embedded.namesrv, "topic", "status", "Any", "--route-of", "T")
    assert text.lines[-1].startswith("1 messages, ")
    assert (await admin(embedded.namesrv, "topic", "clusters", "T")).lines == ["CLUSTER", CLUSTER]
    shares = await admin(embedded.namesrv, "topic", "allocate", "T", "a", "b", "c", "-o", "json")
    assert {k: len(v) for k, v in json.loads(shares.out).items()} == {"a": 1, "b": 1, "c": 0}
    assert (await admin(embedded.namesrv, "topic", "allocate", "T", "a", "a")).code == 1
    stats = await admin(embedded.namesrv, "topic", "stats", "T", "-o", "json")
    assert [(r["topic"], r["group"]) for r in json.loads(stats.out)] == [("T", None)]
    missing = await admin(embedded.namesrv, "topic", "status", "Missing")
    assert (missing.code, missing.out) == (2, "")


async def test_changes(embedded: Running, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text('[{"topicName": "A", "readQueueNums": 1, "writeQueueNums": 1}]')
    one = ("-c", CLUSTER)
    assert (await admin(embedded.namesrv, "topic", "create-batch", str(file), *one)).code == 0
    assert (await admin(embedded.namesrv, "topic", "set-perm", "A", "4", *one)).code == 0
    assert (await _config(embedded, "A")).perm == 4
    file.write_text("[]")
    assert (await admin(embedded.namesrv, "topic", "create-batch", str(file), *one)).code == 1
    put = await admin(embedded.namesrv, "topic", "order", "put", "A", "broker-a:1")
    assert put.code == 0, put.err
    shown = await admin(embedded.namesrv, "topic", "order", "get", "A", "-o", "json")
    assert json.loads(shown.out)["queues"] == {"broker-a": 1}
    assert (await admin(embedded.namesrv, "topic", "order", "put", "A", "nonsense")).code == 1
    for words in (("order", "delete", "A"), ("delete", "A", *one)):
        asked = await admin(embedded.namesrv, "topic", *words)
        assert asked.code == 1
        assert "--yes" in asked.err
        done = await admin(embedded.namesrv, "topic", *words, "--yes")
        assert done.code == 0, done.err
    assert (await admin(embedded.namesrv, "topic", "order", "get", "A")).code == 2
    assert (await admin(embedded.namesrv, "topic", "route", "A")).code == 2
    nowhere = await admin(embedded.namesrv, "topic", "delete", "A", "-c", "DefaultClustr", "--yes")
    assert nowhere.code == 2
    assert CLUSTER in nowhere.err


async def test_half_a_cluster() -> None:
    with replicas() as scripted:
        scripted.on_master.says(351, {"topicName": "T", "readQueueNums": 3, "writeQueueNums": 5})
        words = ("topic", "create", "T", "-c", "C", "--perm", "4", "-o", "json")
        ran = await admin(scripted.namesrv, *words)
        assert ran.code == 3
        assert [(r["broker"], r["ok"]) for r in json.loads(ran.out)] == [
            ("broker-a", True), ("broker-b", False),
        ]  # fmt: skip
        (asked,) = [c for c in scripted.on_master.asked if c.code == 17]
        assert [asked.ext[k] for k in ("readQueueNums", "writeQueueNums", "perm")] == [
            "3",
            "5",
            "4",
        ]
        scripted.on_namesrv.says(
            105,
            {
                "brokerDatas": [
                    {"brokerName": n, "cluster": "C", "brokerAddrs": {"0": a}}
                    for n, a in (("broker-a", scripted.master), ("broker-b", DEAD))
                ],
                "queueDatas": [],
            },
        )
        ran = await admin(scripted.namesrv, "topic", "set-perm", "T", "2", "-c", "C")
        assert ran.code == 3
        assert [line.split()[1:3] for line in ran.lines[1:]] == [
            ["broker-a", "ok"], ["broker-b", "failed"],
        ]  # fmt: skip


async def test_a_broker_that_makes_topics_one_by_one() -> None:
    with replicas() as scripted:
        scripted.on_master.change[351] = lambda c: c.reply(17)
        scripted.on_master.change[18] = lambda c: c.reply(3)
        async with Admin(scripted.namesrv) as asked:
            made = await asked.topics.update_many(
                [TopicChange(TopicConfig("A", 1, 1)), TopicChange(TopicConfig("B", 2, 2))],
                broker=scripted.master,
            )
        made.check_all()
        codes = [c.code for c in scripted.on_master.asked if c.code in (17, 18)]
        assert codes == [18, 17, 17]


async def test_statistics_of_groups(embedded: Running) -> None:
    await admin(embedded.namesrv, "topic", "create", "T", "-c", CLUSTER, "--queues", "1")
    await admin(embedded.namesrv, "group", "create", "G", "-c", CLUSTER)
    for n in range(3):
        await admin(embedded.namesrv, "message", "send", "-t", "T", "--body", str(n))
    async with Admin(embedded.namesrv) as asked:
        await asked.link.ask(
            format_address(embedded.broker_address), 15,
            {"topic": "T", "consumerGroup": "G", "queueId": 0, "commitOffset": 1},
        )  # fmt: skip
        rows = [row async for row in asked.topics.flows("T")]
    assert [(r.group, r.accumulation) for r in rows] == [("G", 2)]


async def _unread(embedded: Running) -> None:
    """Topic `Shrunk` with queues of 1, 2, 3 and 4 messages, and group `g` that has read none."""
    async with Admin(embedded.namesrv) as asked:
        broker = format_address(embedded.broker_address)
        await asked.topics.update(TopicConfig("Shrunk", 4, 4), broker=broker)
        for queue in range(4):
            for _ in range(queue + 1):
                await asked.messages.send(
                    Message("Shrunk", b"x"), broker_name="broker-a", queue_id=queue
                )
        await asked.groups.change("g", {}, broker=broker)
        for queue in range(4):
            ext: Ext = {
                "consumerGroup": "g",
                "topic": "Shrunk",
                "queueId": queue,
                "commitOffset": 0,
            }
            await asked.link.ask(broker, RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        await asked.groups.change("ready", {}, broker=broker)
        for queue in range(4):
            ext = {
                "consumerGroup": "ready", "topic": "Shrunk", "queueId": queue,
                "commitOffset": queue + 1,
            }  # fmt: skip
            await asked.link.ask(broker, RequestCode.UPDATE_CONSUMER_OFFSET, ext)


async def _lag(embedded: Running) -> int:
    ran = await admin(embedded.namesrv, "group", "lag", "g", "--topic", "Shrunk", "-o", "json")
    assert ran.code == 0, ran.err
    return int(json.loads(ran.out)["diff"])


async def test_fewer_queues_hide_no_message_without_a_word(embedded: Running) -> None:
    await _unread(embedded)
    words = ("topic", "create", "Shrunk", "-c", CLUSTER, "--queues", "2")
    refused = await admin(embedded.namesrv, *words)
    assert refused.code == 1
    assert "group g 7 messages of topic Shrunk on broker-a, in 2 queues" in refused.err
    assert "ready" not in refused.err
    assert "Say --force" in refused.err
    assert (await _config(embedded, "Shrunk")).read_queue_nums == 4
    more = await admin(embedded.namesrv, *words[:-1], "6")
    assert more.code == 0, more.err
    writes = await admin(embedded.namesrv, *words[:-2], "--write-queues", "2")
    assert writes.code == 0, writes.err  # the way to do it: what is there is still read
    forced = await admin(embedded.namesrv, *words, "--force")
    assert forced.code == 0, forced.err
    assert (await _config(embedded, "Shrunk")).read_queue_nums == 2
    assert await _lag(embedded) == 10
    status = json.loads(
        (await admin(embedded.namesrv, "topic", "status", "Shrunk", "-o", "json")).out
    )
    assert sum(q["max"] - q["min"] for q in status["queues"]) == 10


async def test_other_ways_to_take_queues_away(embedded: Running, tmp_path: Path) -> None:
    await _unread(embedded)
    file = tmp_path / "topics.json"
    rows = [
        {"topicName": "Other", "readQueueNums": 1, "writeQueueNums": 1},
        {"topicName": "Shrunk", "readQueueNums": 1, "writeQueueNums": 1},
    ]
    file.write_text(json.dumps(rows))
    listed = ("topic", "create-batch", str(file), "-c", CLUSTER)
    flat = ("updateTopic", "-t", "Shrunk", "-c", CLUSTER, "-r", "1", "-w", "1")
    many = ("updateTopicList", "-f", str(file), "-c", CLUSTER)
    for ran in (
        await admin(embedded.namesrv, *listed),
        await mqadmin(embedded.namesrv, *flat),
        await mqadmin(embedded.namesrv, *flat, "-o", "true"),
        await mqadmin(embedded.namesrv, *many),
    ):
        assert (ran.code, ran.out) == (2, "")
        assert "group g 9 messages of topic Shrunk on broker-a" in ran.err
    assert (await _config(embedded, "Shrunk")).read_queue_nums == 4
    async with Admin(embedded.namesrv) as asked:
        assert "Other" not in await asked.topics.list()
        with pytest.raises(UnreadQueuesError) as error:
            await asked.topics.change("Shrunk", cluster=CLUSTER, read_queue_nums=3)
        assert [(h.group, h.messages, h.queues) for h in error.value.hidden] == [("g", 4, 1)]
    assert (await mqadmin(embedded.namesrv, *flat, "--force", "true")).code == 0
    assert (await mqadmin(embedded.namesrv, *many, "--force", "true")).code == 0
    assert await _lag(embedded) == 10


async def test_messages_that_no_group_has_consumed_count_as_well(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as asked:
        await asked.topics.update(TopicConfig("Alone", 2, 2), cluster=CLUSTER)
        await asked.messages.send(Message("Alone", b"x"), broker_name="broker-a", queue_id=1)
        with pytest.raises(UnreadQueuesError, match="no group has consumed the topic: 1 messages"):
            await asked.topics.update(TopicConfig("Alone", 1, 1), cluster=CLUSTER)
        await asked.topics.update(TopicConfig("Alone", 1, 1), cluster=CLUSTER, force=True)


async def test_a_list_with_a_bad_name_makes_nothing(embedded: Running, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    rows = [{"topicName": f"Made{n}"} for n in range(600)] + [{"topicName": "not so"}]
    file.write_text(json.dumps(rows))
    ran = await admin(embedded.namesrv, "topic", "create-batch", str(file), "-c", CLUSTER)
    assert ran.code == 1
    assert "nothing is changed: the specified topic 'not so' is illegal" in ran.err
    async with Admin(embedded.namesrv) as asked:
        assert not [t for t in await asked.topics.list() if t.startswith("Made")]
