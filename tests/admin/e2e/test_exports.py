"""mqadmin's exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyrmq import Message, Producer
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import mqadmin
from tests.support.scripted.replicas import DEAD, Replicas, replicas

CLUSTER = "DefaultCluster"


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_configs(embedded: Running, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    ran = await mqadmin(
        embedded.namesrv, "exportConfigs", "-c", CLUSTER, "-f", str(folder)
    )  # fmt: skip
    assert (ran.code, ran.out) == (0, f"export {folder}/configs.json success\n")
    assert "broker-a" in ran.err  # progress
    found = _read(folder / "configs.json")
    assert found["brokerConfigs"]["broker-a"]["brokerClusterName"] == CLUSTER
    assert "namesrvAddr" not in found["brokerConfigs"]["broker-a"]
    assert found["clusterScale"] == {
        "masterBrokerSize": 1, "namesrvSize": 1, "slaveBrokerSize": 0
    }  # fmt: skip
    assert _names(folder) == ["configs.json"]


async def test_metadata(embedded: Running, tmp_path: Path) -> None:
    broker = format_address(embedded.broker_address)
    for topic in ("Own", "%RETRY%Users"):
        await mqadmin(embedded.namesrv, "updateTopic", "-b", broker, "-t", topic)
    await mqadmin(embedded.namesrv, "updateSubGroup", "-b", broker, "-g", "Users")
    words = ("exportMetadata", "-f", str(tmp_path))
    for more in ((), ("-s",)):
        ran = await mqadmin(embedded.namesrv, *words, "-c", CLUSTER, *more)
        assert ran.code == 0, ran.err
        found = _read(tmp_path / "metadata.json")
        assert set(found["topicConfigTable"]) == {"Own", *(["%RETRY%Users"] if more else [])}
        assert set(found["subscriptionGroupTable"]) == {"Users"}
        assert found["exportTime"] > 0
    topics = await mqadmin(embedded.namesrv, *words, "-b", broker, "-t")
    assert topics.lines == [f"export {tmp_path}/topic.json success"]
    assert set(_read(tmp_path / "topic.json")) == {"topicConfigTable", "dataVersion"}
    await mqadmin(embedded.namesrv, *words, "-b", broker, "-g")
    found = _read(tmp_path / "subscriptionGroup.json")
    assert set(found) == {"subscriptionGroupTable", "dataVersion"}
    assert (await mqadmin(embedded.namesrv, *words)).code == 1
    assert (await mqadmin(embedded.namesrv, *words, "-b", broker, "-t", "-g")).code == 1


async def test_metrics(embedded: Running, tmp_path: Path) -> None:
    async with Producer("PG", namesrv=embedded.namesrv) as producer:
        await producer.send(Message("Own", b"x"))
        ran = await mqadmin(embedded.namesrv, "exportMetrics", "-c", CLUSTER, "-f", str(tmp_path))
    assert ran.code == 0, ran.err
    found = _read(tmp_path / "metrics.json")
    quota = found["evaluateReport"]["broker-a"]["runtimeQuota"]
    assert (quota["topicSize"], quota["groupSize"]) == (1, 0)
    assert set(quota["diskRatio"]) == {"commitLogDiskRatio", "consumeQueueDiskRatio"}
    assert quota["oneDayNum"]["transOneDayInNum"] == 0
    assert set(found["totalData"]["totalTps"]) == {
        "totalNormalInTps", "totalNormalOutTps", "totalTransInTps", "totalScheduleInTps"
    }  # fmt: skip


async def test_tables_are_added_up(tmp_path: Path) -> None:
    with replicas() as scripted:
        _two_masters(scripted)
        for server, reads, retries in ((scripted.on_master, 4, 1), (scripted.on_slave, 3, 2)):
            row = {"topicName": "T", "readQueueNums": reads, "writeQueueNums": reads, "perm": 6}
            broken = row | {"perm": 9}
            hidden = {"Bad": broken, "Sys": row, "TBW102": row, "%DLQ%G": row}
            server.says(21, {"topicConfigTable": {"T": row} | hidden})
            server.says(305, {"topicList": ["Sys"]})
            group = {"groupName": "G", "retryQueueNums": retries}
            table = {"G": group, "CID_RMQ_SYS_TRANS": group, "TOOLS_CONSUMER": group}
            server.says(201, {"subscriptionGroupTable": table})
        words = ("exportMetadata", "-c", "C", "-f", str(tmp_path))
        ran = await mqadmin(scripted.namesrv, *words)
        assert ran.code == 0, ran.err
    found = _read(tmp_path / "metadata.json")
    (topic,) = found["topicConfigTable"].values()
    assert (topic["readQueueNums"], topic["writeQueueNums"]) == (7, 7)
    (group,) = found["subscriptionGroupTable"].values()
    assert group["retryQueueNums"] == 3


def _two_masters(scripted: Replicas) -> None:
    addresses = {"broker-a": scripted.master, "broker-b": scripted.slave}
    scripted.on_namesrv.says(
        106,
        {
            "brokerAddrTable": {
                name: {"brokerAddrs": {"0": address}, "brokerName": name, "cluster": "C"}
                for name, address in addresses.items()
            },
            "clusterAddrTable": {"C": [*addresses]},
        },
    )


@pytest.mark.parametrize("name", ["exportConfigs", "exportMetadata", "exportMetrics"])
async def test_a_broker_that_is_gone_leaves_no_file(tmp_path: Path, name: str) -> None:
    with replicas() as scripted:
        ran = await mqadmin(scripted.namesrv, name, "-c", "C", "-f", str(tmp_path))
        assert (ran.code, ran.out) == (2, "")
        assert DEAD in ran.err
        unknown = await mqadmin(scripted.namesrv, name, "-c", "X", "-f", str(tmp_path))
        assert (unknown.code, unknown.out) == (2, "")
    assert _names(tmp_path) == []


async def test_a_folder_that_cannot_be(embedded: Running, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = await mqadmin(
        embedded.namesrv, "exportConfigs", "-c", CLUSTER, "-f", str(tmp_path / "file")
    )
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert str(tmp_path / "file") in ran.err
