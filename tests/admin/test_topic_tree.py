"""`pyrmq admin topic`."""

from __future__ import annotations

import json
from pathlib import Path

from pyrmq.admin import Admin
from pyrmq.admin.topic_changes import TopicChange
from pyrmq.model.topic import TopicConfig
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import admin
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
