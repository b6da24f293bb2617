"""mqadmin's commands that change topics, and those of name servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.order_conf import parse_order
from pyrmq.admin.topic_file import topics_of
from pyrmq.admin.topic_stats import allocate
from pyrmq.errors import ConfigError
from pyrmq.model.message import MessageQueue
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import mqadmin
from tests.support.scripted.replicas import DEAD, replicas

CLUSTER = "DefaultCluster"


async def test_ordered_topic(embedded: Running) -> None:
    broker = format_address(embedded.broker_address)
    words = ("updateTopic", "-t", "Ordered", "-w", "3", "-o", "true")
    put = await mqadmin(
        embedded.namesrv, "updateOrderConf", "-t", "Ordered", "-m", "put", "-v", "b:8;broker-a:9"
    )
    assert put.lines == ["update orderConf success. topic=[Ordered], orderConf=[b:8;broker-a:9]"]
    made = await mqadmin(embedded.namesrv, *words, "-b", broker)
    assert made.code == 0, made.err
    assert made.lines[:2] == [
        "set broker orderConf. isOrder=true, orderConf=[broker-a:3]",
        f"create topic to {broker} success.",
    ]
    got = await mqadmin(embedded.namesrv, "updateOrderConf", "-t", "Ordered", "-m", "get")
    assert got.lines == ["get orderConf success. topic=[Ordered], orderConf=[b:8;broker-a:3]"]
    made = await mqadmin(embedded.namesrv, *words, "-c", CLUSTER)
    assert made.lines[1] == "set cluster orderConf. isOrder=true, orderConf=[broker-a:3]"
    async with Admin(embedded.namesrv) as admin:
        assert await admin.topics.order_conf("Ordered") == "broker-a:3"
    gone = await mqadmin(embedded.namesrv, "updateOrderConf", "-t", "Ordered", "-m", "delete")
    assert gone.lines == ["delete orderConf success. topic=[Ordered]"]
    assert (await mqadmin(embedded.namesrv, "updateOrderConf", "-t", "Ordered", "-m", "get")).code


async def test_permission_keeps_the_rest(embedded: Running) -> None:
    broker = format_address(embedded.broker_address)
    await mqadmin(
        embedded.namesrv, "updateTopic", "-t", "Kept", "-b", broker, "-r", "5", "-w", "3",
        "-o", "true", "-a", "+message.type=FIFO",
    )  # fmt: skip
    words = ("updateTopicPerm", "-t", "Kept", "-p", "4")
    ran = await mqadmin(embedded.namesrv, *words, "-b", broker)
    assert ran.lines == [
        f"update topic perm from 6 to 4 in {broker} success.",
        "TopicConfig [topicName=Kept, readQueueNums=5, writeQueueNums=3, perm=R--, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=true, "
        "attributes={message.type=FIFO}].",
    ]
    same = await mqadmin(embedded.namesrv, *words, "-c", CLUSTER)
    assert same.lines == [f"new perm equals to the old one! {broker}"]
    nobody = await mqadmin(embedded.namesrv, *words, "-b", DEAD)
    assert nobody.code == 2
    assert "is no master that has topic Kept" in nobody.err


async def test_batch(embedded: Running, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    rows = [
        {"topicName": "B1", "readQueueNums": 2, "writeQueueNums": 2},
        {"topicName": "B2", "attributes": {"message.type": "FIFO"}, "perm": 6},
    ]
    file.write_text(json.dumps(rows))
    for _ in range(2):
        ran = await mqadmin(embedded.namesrv, "updateTopicList", "-f", str(file), "-c", CLUSTER)
        assert ran.code == 0, ran.err
        assert ran.lines[0].startswith("submit batch of topic config to ")
    assert {"B1", "B2"} <= set((await mqadmin(embedded.namesrv, "topicList")).lines)
    missing = await mqadmin(embedded.namesrv, "updateTopicList", "-f", "/no/such", "-c", CLUSTER)
    assert missing.code == 1
    assert "does not exists" in missing.err


async def test_shares_and_figures(embedded: Running) -> None:
    await mqadmin(embedded.namesrv, "updateTopic", "-t", "Shared", "-c", CLUSTER, "-r", "3")
    ran = await mqadmin(embedded.namesrv, "allocateMQ", "-t", "Shared", "-i", "x,y")
    shares = json.loads(ran.out)["result"]
    assert {ip: [q["queueId"] for q in queues] for ip, queues in shares.items()} == {
        "x": [0, 1], "y": [2],
    }  # fmt: skip
    assert (await mqadmin(embedded.namesrv, "allocateMQ", "-t", "Shared", "-i", "x,x")).code == 1
    figures = await mqadmin(embedded.namesrv, "statsAll", "-t", "Shared")
    assert figures.lines[1].split() == ["Shared", "0", "0.00", "0", "NO_CONSUMER"]
    assert len((await mqadmin(embedded.namesrv, "statsAll", "-t", "Shared", "-a")).lines) == 1
    assert (await mqadmin(embedded.namesrv, "statsAll", "-t", "NoSuch")).code == 2


async def test_name_servers(embedded: Running) -> None:
    kv = ("-s", "N", "-k", "key")
    ran = await mqadmin(embedded.namesrv, "updateKvConfig", *kv, "-v", "a value")
    assert ran.lines == ["create or update kv config to namespace success."]
    async with Admin(embedded.namesrv) as admin:
        assert await admin.namesrv.all("N") == {"key": "a value"}
    ran = await mqadmin(embedded.namesrv, "deleteKvConfig", *kv)
    assert ran.lines == ["delete kv config from namespace success."]
    changed = await mqadmin(
        embedded.namesrv, "updateNamesrvConfig", "-k", "waitSecondsForService", "-v", "46"
    )
    assert changed.lines == [
        f"update name server config success![{embedded.namesrv}]", "waitSecondsForService : 46",
    ]  # fmt: skip
    config = await mqadmin(embedded.namesrv, "getNamesrvConfig")
    assert config.lines[0] == f"{'=' * 12}{embedded.namesrv}{'=' * 12}"
    assert f"{'waitSecondsForService':<50}=  46" in config.lines
    black = await mqadmin(embedded.namesrv, "updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/x")
    assert (black.code, black.out) == (2, "")
    assert "CODE: 16" in black.err
    for verb in ("wipe", "add"):
        ran = await mqadmin(embedded.namesrv, f"{verb}WritePerm", "-b", "broker-a")
        text = f"{verb} write perm of broker[broker-a] in name server[{embedded.namesrv}] OK, "
        assert ran.lines[0].startswith(text)
        assert int(ran.lines[0].removeprefix(text)) > 0
    wrong = await mqadmin(embedded.namesrv, "wipeWritePerm", "-b", "nobody")
    assert "-b is a name" in wrong.err


async def test_half_of_the_servers(embedded: Running) -> None:
    both = f"{embedded.namesrv};{DEAD}"
    ran = await mqadmin(both, "wipeWritePerm", "-b", "broker-a")
    assert ran.code == 3
    assert ran.lines[1] == f"wipe write perm of broker[broker-a] in name server[{DEAD}] Failed"
    for words in ("updateKvConfig -s N -k k -v v", "deleteKvConfig -s N -k k"):
        ran = await mqadmin(both, *words.split())
        assert (ran.code, ran.out) == (3, "")
        assert DEAD in ran.err
    assert (await mqadmin(both, "getNamesrvConfig")).code == 3


async def test_half_a_cluster() -> None:
    with replicas() as scripted:
        words = ("updateTopic", "-t", "T", "-c", "C", "-o", "true")
        ran = await mqadmin(scripted.namesrv, *words)
        assert ran.code == 3
        assert ran.lines[1] == "set cluster orderConf. isOrder=true, orderConf=[broker-a:8]"
        assert DEAD in ran.err


@pytest.mark.parametrize("name", ["updateStaticTopic", "remappingStaticTopic"])
async def test_static_topics_are_refused(name: str) -> None:
    more = ("-qn", "4") if name == "updateStaticTopic" else ()
    ran = await mqadmin("", name, "-t", "T", "-c", "C", *more)
    assert ran.code == 2
    assert "static topics are not supported" in ran.err


def test_even_shares() -> None:
    queues = [MessageQueue("T", b, n) for b in ("b", "a") for n in range(2)]
    shares = allocate(queues, ["z", "y", "x"])
    assert {k: [(q.broker_name, q.queue_id) for q in v] for k, v in shares.items()} == {
        "z": [("a", 0), ("a", 1)], "y": [("b", 0)], "x": [("b", 1)],
    }  # fmt: skip
    assert allocate(queues[:1], ["z", "y"])["y"] == []


@pytest.mark.parametrize("text", ["", "a", "a:0", "a:1;a:2", "a:-1", "a:1;", "a:9999999"])
def test_order_configurations_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_order(text)


@pytest.mark.parametrize(
    "row",
    [
        {}, {"topicName": ""}, {"topicName": "T", "perm": 8}, {"topicName": "T", "order": 1},
        {"topicName": "T", "readQueueNum": 8}, {"topicName": "T", "attributes": {"a": 1}},
        {"topicName": "T", "topicFilterType": "X"},
    ],
    ids=lambda row: ",".join(map(str, row)) or "empty",
)  # fmt: skip
def test_topics_of_files_that_are_none(row: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        topics_of([row])
