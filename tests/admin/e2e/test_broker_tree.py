"""`pyrmq admin cluster|broker|export`."""

from __future__ import annotations

import json
from pathlib import Path

from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import admin
from tests.support.scripted.replicas import DEAD, replicas

CLUSTER = "DefaultCluster"


async def test_clusters(embedded: Running) -> None:
    shown = await admin(embedded.namesrv, "cluster", "list")
    assert shown.code == 0, shown.err
    assert shown.lines[0].startswith("CLUSTER         BROKER    ID")
    assert shown.lines[1].split()[:3] == [CLUSTER, "broker-a", "0"]
    (state,) = json.loads((await admin(embedded.namesrv, "cluster", "list", "-o", "json")).out)
    assert (state["broker"], state["error"]) == ("broker-a", None)
    assert state["runtime"]["brokerVersionDesc"] == "V5_3_3"
    trips = await admin(embedded.namesrv, "cluster", "rt", "--amount", "2", "-o", "json")
    row = json.loads(trips.out)
    assert (row["broker_name"], row["successes"], row["failures"]) == ("broker-a", 2, 0)
    assert (await admin(embedded.namesrv, "cluster", "rt", "-c", "X")).code == 2


async def test_half_a_cluster() -> None:
    with replicas() as scripted:
        shown = await admin(scripted.namesrv, "cluster", "list")
        assert (shown.code, len(shown.lines)) == (3, 4)
        assert f"Error: cannot connect to {DEAD}: Connection refused" in shown.err
        words = ("broker", "config", "set", "-c", "C", "key", "value", "-o", "json")
        changed = await admin(scripted.namesrv, *words)
        assert changed.code == 3
        assert [r["ok"] for r in json.loads(changed.out)] == [True, False]
        assert (await admin(scripted.namesrv, "broker", "ha", "-b", DEAD)).code == 2
        removed = await admin(
            scripted.namesrv, "broker", "container", "remove", "--container", scripted.master,
            "--cluster", "C", "--name", "broker-a", "--id", "1", "--yes",
        )  # fmt: skip
        assert removed.code == 0, removed.err
        (asked,) = [c for c in scripted.on_master.asked if c.code == 903]
        assert asked.ext["brokerId"] == "1"


async def test_brokers(embedded: Running) -> None:
    broker = format_address(embedded.broker_address)
    one = ("-b", broker)
    status = await admin(embedded.namesrv, "broker", "status", *one, "-o", "json")
    assert json.loads(status.out)[broker]["brokerActive"] == "true"
    changed = await admin(
        embedded.namesrv, "broker", "config", "set", *one, "transactionCheckMax", "7"
    )
    assert changed.code == 0, changed.err
    config = await admin(embedded.namesrv, "broker", "config", "get", *one)
    assert ["transactionCheckMax", "7"] in [line.split() for line in config.lines]
    probes = await admin(
        embedded.namesrv, "broker", "probe", "--topic", "broker-a", "--count", "2"
    )  # fmt: skip
    assert [line.split()[2:4] for line in probes.lines] == [["SEND_OK", "broker-a"]] * 2
    stats = await admin(embedded.namesrv, "broker", "consume-stats", *one)
    assert stats.lines == ["no queues", "0 messages are not consumed, of all groups"]
    ha = await admin(embedded.namesrv, "broker", "ha", *one, "-o", "json")
    assert json.loads(ha.out)[broker]["master"] is True
    assert "master" in (await admin(embedded.namesrv, "broker", "ha", *one)).lines[1]
    refusals = (
        ("epoch", "-c", CLUSTER), ("cold-data", "get", *one), ("read-ahead", *one, "random"),
        ("cold-data", "set", *one, "--group", "G", "5"), ("flush-offset", *one, "5", "--yes"),
        ("cold-data", "remove", *one, "--group", "G"),
        ("container", "add", "--container", broker, "/b.conf"),
    )  # fmt: skip
    for words in refusals:
        ran = await admin(embedded.namesrv, "broker", *words)
        assert ran.code == 2, words
        assert "not supported" in ran.out + ran.err


async def test_cleaning_asks(embedded: Running) -> None:
    for what in ("commitlog", "topics"):
        asked = await admin(embedded.namesrv, "broker", "clean", what)
        assert asked.code == 1
        assert "--yes" in asked.err
        assert (await admin(embedded.namesrv, "broker", "clean", what, "--yes")).code == 0
    done = await admin(embedded.namesrv, "broker", "clean", "cq", "-c", CLUSTER)
    assert done.lines[1].split()[1:] == ["broker-a", "ok", "cleaned"]


async def test_exports(embedded: Running, tmp_path: Path) -> None:
    folder = ("--folder", str(tmp_path), "-c", CLUSTER)
    runs = {
        "configs.json": ("configs",), "metrics.json": ("metrics",), "metadata.json": ("metadata",),
        "topic.json": ("metadata", "--only", "topics"),
        "subscriptionGroup.json": ("metadata", "--only", "groups"),
    }  # fmt: skip
    for name, words in runs.items():
        ran = await admin(embedded.namesrv, "export", *words, *folder, "-o", "json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out) == {"file": str(tmp_path / name)}
        assert json.loads((tmp_path / name).read_text())
