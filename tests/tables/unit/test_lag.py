"""`pyrmq pipeline table lag`: what a table lacks, by queue."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyrmq.segments.store import open_stores
from pyrmq.tables import behind, history
from pyrmq.tables.behind import QueueLag
from pyrmq.tables.catalog import open_catalog
from spark_ext.jobs import table_lag
from tests.tables.tailing import TABLE, Log, commit
from tests.tables.tailing import catalog_folder as catalog_folder
from tests.tables.tailing import open_log as open_log


def found(log: Log, catalog: Path) -> dict[int, QueueLag]:
    pinned = history.pin(open_catalog(str(catalog)), TABLE)
    stores = open_stores([str(log.root)], ["b"])
    return {one.queueId: one for one in behind.of_stores(pinned, stores)}


def run(log: Log, catalog: Path, *more: str) -> Any:
    words = [str(log.root), "--broker-name", "b", "--table", TABLE, "--catalog", str(catalog)]
    return CliRunner().invoke(table_lag.command, [*words, *more])


def test_what_a_table_lacks(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    nothing = found(log, catalog)
    assert nothing[0] == QueueLag("b", 0, 100, 100, 0, 0, 0, None)
    assert nothing[0].behind(10**15) == 0
    log.put(30, queue=1)
    log.put(5, queue=9)
    lags = found(log, catalog)
    assert lags[0] == nothing[0]
    assert (lags[1].tableEnd, lags[1].logEnd, lags[1].messages) == (100, 130, 30)
    assert (lags[9].tableEnd, lags[9].logEnd, lags[9].messages) == (0, 5, 5)
    assert lags[1].bytes is not None
    assert lags[1].bytes > 30 * 90  # of records, which are longer than bodies
    oldest = lags[1].oldestTimestamp
    assert oldest is not None
    assert lags[1].behind(oldest + 5) == 5
    assert lags[1].behind(oldest - 5) == 0  # a clock was set back


def test_what_is_lost_is_counted(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    log.put(1500)
    assert log.delete_first_files(3) == 3
    lags = found(log, catalog)
    there = log.kept()
    for queue, lag in lags.items():
        own = sorted(offset for _, q, offset in there if q == queue)
        assert (lag.messages, lag.logEnd, lag.gone) == (len(own), 600, own[0] - 100)


def test_the_command(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    done = run(log, catalog, "--max-age", "1s")
    assert (done.exit_code, done.output.splitlines()[0]) == (
        0,
        "mq.orders of topic orders has all messages",
    )
    log.put(30)
    done = run(log, catalog)
    assert done.exit_code == 0
    assert "30 messages behind" in done.output
    said = json.loads(run(log, catalog, "--json").output)
    assert (said["messages"], said["gone"], len(said["queues"])) == (30, 0, 3)
    assert said["bytes"] > 0
    assert said["behindMs"] == max(queue["behindMs"] for queue in said["queues"])


def test_a_limit(log: Log, catalog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.put(300)
    commit(catalog, [log.root])
    log.put(30)
    assert run(log, catalog, "--max-age", "1d").exit_code == 0
    monkeypatch.setattr(QueueLag, "behind", lambda self, now: 3_600_001)
    assert run(log, catalog, "--max-age", "2h").exit_code == 0
    assert run(log, catalog, "--max-age", "1h").exit_code == table_lag.LATE
    assert run(log, catalog, "--max-age", "1h", "--json").exit_code == table_lag.LATE


def test_lost_messages_are_beyond_any_limit(log: Log, catalog: Path) -> None:
    log.put(300)
    commit(catalog, [log.root])
    log.put(1500)
    log.delete_first_files(3)
    done = run(log, catalog, "--max-age", "30d")
    assert done.exit_code == table_lag.LATE
    assert "they are lost" in done.output


def test_brokers_without_pyspark(log: Log, catalog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.put(3)
    commit(catalog, [log.root])
    monkeypatch.setitem(sys.modules, "spark_ext.history_brokers", None)
    words = ["-n", "127.0.0.1:9876", "--table", TABLE, "--catalog", str(catalog)]
    done = CliRunner().invoke(table_lag.command, words)
    assert "PySpark is not installed" in str(done.exception)


def test_bad_input(log: Log, catalog: Path) -> None:
    log.put(30)
    assert "has no catalog.db" in str(run(log, catalog).exception)
    commit(catalog, [log.root])
    for more, text in (
        (["-o", "subscribe=orders"], "leave out"),
        (["-o", "batchRows=10"], "does not take"),
        (["-o", "storageOptions=[]"], "no JSON object"),
        (["--since", "2026-01-01"], "leave out"),
    ):
        assert text in str(run(log, catalog, *more).exception), more
    assert run(log, catalog, "--max-age", "soon").exit_code == 2
