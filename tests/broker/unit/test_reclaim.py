"""What a broker keeps back for slaves, and whose word counts for tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyrmq.auth.exposure import open_to
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.reclaim import MAX_SLAVES, Slaves
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.errors import ConfigError, NoPermissionError

NOWHERE = Path("/nonexistent/consumerOffset.json")


class Replicas:
    def __init__(self) -> None:
        self.now = 0.0
        self.rows: list[dict[str, Any]] = []
        self.slaves = Slaves(lambda: self.rows, 100.0, lambda: self.now)

    def least(self, *rows: tuple[str, int]) -> tuple[int, str] | None:
        self.rows = [{"peer": peer, "ackOffset": acked} for peer, acked in rows]
        return self.slaves.least()


def test_the_slave_that_has_least_counts() -> None:
    replicas = Replicas()
    assert replicas.least() is None
    assert replicas.least(("10.0.0.1:5", 70), ("10.0.0.2:5", 50)) == (50, "10.0.0.2")
    assert replicas.least(("10.0.0.1:6", 80), ("10.0.0.2:6", 90)) == (80, "10.0.0.1")
    assert replicas.least(("10.0.0.1:6", 80), ("10.0.0.1:7", 60)) == (60, "10.0.0.1")


def test_a_slave_that_is_away_counts_for_a_while() -> None:
    replicas = Replicas()
    replicas.least(("10.0.0.1:5", 70), ("10.0.0.2:5", 50))
    replicas.now = 90.0
    assert replicas.least(("10.0.0.1:5", 80)) == (50, "10.0.0.2")
    replicas.now = 120.0
    assert replicas.least(("10.0.0.1:5", 85)) == (85, "10.0.0.1")


def test_no_more_hosts_are_remembered_than_may_be() -> None:
    replicas = Replicas()
    replicas.least(*((f"host{n}:1", 100) for n in range(MAX_SLAVES)))
    assert replicas.least(("other:1", 7)) == (7, "other"), "it counts while it is there"
    assert replicas.least() == (100, "host0")


def test_only_what_is_said_of_tables_moves_the_groups_offsets() -> None:
    table = OffsetTable(NOWHERE, 1)
    table.guard_tables("tables")
    table.commit_of_table("T", 0, 3)
    for change in (table.commit, table.commit_with_pull, table.reset):
        with pytest.raises(NoPermissionError, match="say what tables have"):
            change("T", "tables", 0, 9)
    with pytest.raises(NoPermissionError):
        table.take_over("T", "tables", 0, 9)
    assert table.query("T", "tables", 0) == 3
    table.commit_of_table("T", 0, 9)
    assert table.query("T", "tables", 0) == 9
    table.commit_of_table("T", 0, 4)
    assert table.query("T", "tables", 0) == 4, "a table that was rolled back"
    assert table.remove_group("tables") == 1, "an operator stops it"
    table.commit("T", "other", 0, 9)


async def test_what_anybody_may_have_committed_before_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"

    def opened(group: str | None) -> OffsetTable:
        table = OffsetTable(path, 1)
        if group is not None:
            table.guard_tables(group)
        return table

    table = opened(None)
    table.commit("T", "tables", 0, 1 << 40)
    table.commit("T", "other", 0, 5)
    await table.save_if_changed()
    table = opened("tables")
    assert table.query("T", "tables", 0) is None
    assert table.query("T", "other", 0) == 5
    table.commit_of_table("T", 0, 7)
    await table.save_if_changed()
    assert opened("tables").query("T", "tables", 0) == 7
    table = opened(None)  # off for a while: the group is one like others
    table.commit("T", "tables", 0, 1 << 40)
    await table.save_if_changed()
    assert opened("tables").query("T", "tables", 0) is None


def test_an_open_broker_says_at_its_start_that_strangers_can_delete() -> None:
    keys = {"storePathRootDir": "/store", "reclaimAfter": "table"}
    assert "have messages deleted" in (open_to(keys) or "")
    assert "have messages deleted" not in (open_to(keys | {"reclaimAfter": "off"}) or "")
    assert "deleted" not in (open_to(keys | {"adminAddressAllowList": "10.0.0.1"}) or "")


def test_keys() -> None:
    with pytest.raises(ConfigError, match="needs reclaimGroup"):
        BrokerConfig(reclaim_after="table")
    for group in ("a b", "CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER"):
        with pytest.raises(ConfigError, match="reclaimGroup"):
            BrokerConfig(reclaim_after="table", reclaim_group=group)
    for topics in ("a*b", "a,b/c", ",".join(map(str, range(2000)))):
        with pytest.raises(ConfigError, match="reclaimTopicsWithoutTable"):
            BrokerConfig(reclaim_topics_without_table=topics)
    with pytest.raises(ConfigError, match="reclaimAfter"):
        BrokerConfig(reclaim_after="never")
    BrokerConfig(
        reclaim_after="table", reclaim_group="tables", reclaim_topics_without_table="%DLQ%*, T"
    )
