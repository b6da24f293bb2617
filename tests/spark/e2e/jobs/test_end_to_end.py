"""Every job on a store that a broker wrote, through the source, and as a command."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from spark_ext.jobs import local
from tests.spark.e2e.jobs.samples import sample_module

sample = sample_module()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return sample.make(tmp_path_factory.mktemp("shop") / "broker-a")


def run(*arguments: object) -> str:
    """`pyrmq pipeline …` in this process, with its session."""
    result = CliRunner().invoke(main, ["pipeline", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def rows_of(folder: Path, kind: str = "parquet") -> list[Any]:
    """A table that a job wrote."""
    here = local.engine()
    found = here.sql(f"SELECT * FROM read_{kind}('{folder}/*.{kind}', union_by_name = true)")
    return found.collect()


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG\r\n")


def test_hot(shop: Any, tmp_path: Path) -> None:
    picture, table = tmp_path / "hot.png", tmp_path / "hot"
    text = run("hot", shop.store, "--out", table, "--plot", picture, "--top", 5)
    assert f"{sample.ORDERS + 10 + sample.DEAD} messages" in text
    assert "customer-0" in text
    assert is_png(picture)
    rows = rows_of(table)
    counts = {row.topic: row.messages for row in rows if row.scope == "topic"}
    assert (counts["Orders"], counts["Payments"]) == (sample.ORDERS, sample.PAYMENTS // 3)
    tags = {row.tag: row.messages for row in rows if row.scope == "tag" and row.topic == "Orders"}
    assert tags == {"large": sample.ORDERS // 10, "small": sample.ORDERS * 9 // 10}
    keys = {row.key: row.messages for row in rows if row.scope == "key"}
    assert keys["customer-0"] == sample.ORDERS // 2
    queues = Counter(sent.queue.queue_id for sent in shop.orders)
    assert queues == {
        row.queueId: row.messages for row in rows if row.scope == "queue" and row.topic == "Orders"
    }


def test_lag(shop: Any, tmp_path: Path) -> None:
    table, picture = tmp_path / "lag", tmp_path / "lag.png"
    arguments = ("lag", shop.store, "--format", "json", "--out", table, "--plot", picture)
    named = ("--broker-name", "broker-a")
    text = run(*arguments, *named)
    assert f"{sample.ORDERS - sample.CONSUMED} messages behind" in text
    run(*arguments, *named, "--group", sample.GROUP)
    assert is_png(picture)
    rows = rows_of(table, "json")
    behind: Counter[Any] = Counter()
    for row in rows:
        behind[row.measuredAt] += row.backlog
    assert len(behind) == 2, "each measurement is appended"
    assert set(behind.values()) == {sample.ORDERS - sample.CONSUMED}
    heads = Counter(sent.queue.queue_id for sent in shop.orders)
    orders = [row for row in rows if row.topic == "Orders"]
    assert {row.queueId: row.headOffset for row in orders} == heads


def test_trace(shop: Any, tmp_path: Path) -> None:
    table, picture = tmp_path / "trace", tmp_path / "trace.svg"
    text = run("trace", shop.store, "--out", table, "--plot", picture)
    count = sample.TRACE
    assert f"{3 * count} trace records: {count} Pub" in text
    rows = {row.kind: row for row in rows_of(table)}
    send, consume = rows["send"], rows["consume"]
    assert (send["count"], send.failed, send.maxMs, send.topic) == (count, 0, 10, "Orders")
    assert (consume["count"], consume.failed, consume.maxMs) == (count, count // 25, 30)
    assert (consume.waitP50Ms, consume.waitMaxMs, consume.topic) == (5, 5, "Orders")
    assert b"<svg" in picture.read_bytes()


def test_transactions(shop: Any, tmp_path: Path) -> None:
    table, picture = tmp_path / "tx", tmp_path / "tx.png"
    text = run("transactions", shop.store, "--out", table, "--plot", picture, "--format", "csv")
    third = sample.PAYMENTS // 3
    assert f"{third} pending, {third} committed, {third} rolled back, 0 discarded" in text
    assert is_png(picture)
    rows = rows_of(table, "csv")
    assert Counter(row.state for row in rows) == dict.fromkeys(
        ("pending", "committed", "rolledBack"), third
    )
    assert {(row.topic, row.producerGroup, row.deliveries) for row in rows} == {
        ("Payments", "bank", 0),
        ("Payments", "bank", 1),
    }


def test_deadletters(shop: Any, tmp_path: Path) -> None:
    table, picture = tmp_path / "dead", tmp_path / "dead.png"
    text = run("deadletters", shop.store, "--out", table, "--plot", picture, "--bodies")
    assert f"{sample.DEAD} dead letters of 1 group; {sample.DEAD} originals" in text
    assert is_png(picture)
    rows = rows_of(table)
    wanted = {
        sent.msg_id: (sent.queue.queue_id, sent.queue_offset) for sent in shop.orders[: sample.DEAD]
    }
    assert wanted == {r.uniqueKey: (r.originalQueueId, r.originalQueueOffset) for r in rows}
    assert {(r.group, r.topic, r.cause) for r in rows} == {(sample.GROUP, "Orders", "refused")}
    assert {bytes(row.body) for row in rows} == {sample.order(n).body for n in range(sample.DEAD)}


def test_archive(shop: Any, tmp_path: Path) -> None:
    from spark_ext.jobs.archive_read import read_archive

    root, picture = tmp_path / "archive", tmp_path / "days.png"
    command = ("archive", shop.store, "--to", root, "-t", "Orders", "-t", "Payments")
    bad = failure("archive", shop.store, "--to", tmp_path / "a", "--columns", "x")
    assert "no such columns" in bad
    assert "is no archive" in failure("restore", tmp_path, "--dry-run")
    text = run(*command, "--plot", picture, "--broker-name", "broker-a")
    assert f"added {sample.ORDERS + 10} messages" in text
    assert is_png(picture)
    assert "added 0 messages" in run(*command, "--broker-name", "broker-a")
    assert "every file is as its manifest says" in run("archive", "--to", root, "--verify")
    frame = read_archive(local.engine(), str(root), topics=["Orders"])
    found = {(r.queueId, r.queueOffset): bytes(r.body) for r in frame.collect()}
    assert found == {
        (sent.queue.queue_id, sent.queue_offset): sample.order(n).body
        for n, sent in enumerate(shop.orders)
    }
    assert "600 messages would be sent" in run("restore", root, "--dry-run", "-t", "Orders")


def failure(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["pipeline", *map(str, arguments)])
    assert result.exit_code == 1, result.output
    assert len(result.output.strip().splitlines()) == 1, result.output
    return result.output


def test_errors_are_one_line(shop: Any, tmp_path: Path) -> None:
    assert "no-such-store" in failure("hot", tmp_path / "no-such-store")
    assert "Orders" in failure("hot", shop.store, "-t", "Order")
    assert "subExpression" in failure("hot", shop.store, "-o", "subExpresion=A")
    assert "name the stores to read" in failure("hot")
    nobody = failure("lag", shop.store, "-g", "nobody")
    assert "not a group" in nobody
    assert sample.GROUP in nobody
    assert f"is it {sample.GROUP}?" in failure("lag", shop.store, "-g", sample.GROUP[:-1])
    taken = tmp_path / "taken"
    taken.mkdir()
    assert "choose the mode" in failure("trace", shop.store, "--out", taken)
    assert "traceTopicEnable=true" in failure("trace", shop.store, "--topic", "none")
    assert "no folder" in failure("hot", shop.store, "--plot", tmp_path / "none" / "plot.png")
    assert "ends in one of" in failure("trace", shop.store, "--plot", tmp_path / "plot.docx")


def test_the_sample_is_not_touched(shop: Any, tmp_path: Path) -> None:
    """Jobs only read: a copy of the store is the same afterwards."""
    copy = tmp_path / "copy"
    shutil.copytree(shop.store, copy)
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*")}
    run("transactions", copy, "--broker-name", "broker-a")
    assert {p: p.stat().st_mtime_ns for p in copy.rglob("*")} == before
    assert os.listdir(copy)
