"""Rows of replication and of gauges by names that clients choose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.metrics import families as f
from pyrmq.broker.metrics.rows import GaugeRows, TotalRows
from pyrmq.broker.metrics.state import DISK, ClientRows, HaState
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.metrics.families import OTHERS
from pyrmq.metrics.page import Format, Page

Rows = dict[tuple[str, ...], float]


def shown(page: Page, name: str) -> Rows:
    """Of a family the values of its own labels -> value."""
    text = b"".join(page.chunks(Format.OPEN_METRICS)).decode()
    return {
        tuple(v for k, v in sample.labels.items() if k != "node_id"): sample.value
        for family in parse(text)
        for sample in family.samples
        if sample.name == name
    }


def a_page() -> Page:
    return Page({"node_id": "n"})


async def test_the_largest_of_a_gauge_have_rows() -> None:
    rows = GaugeRows(f.HALVES, 2)
    values = [((f"T{number}",), number) for number in range(1, 6)]
    await rows.write(a_page(), values)  # the first ones have rows until it is chosen
    page = a_page()
    await rows.write(page, values)
    assert shown(page, "rocketmq_half_messages") == {("T4",): 4, ("T5",): 5, (OTHERS,): 6}


async def test_a_gauge_whose_names_are_gone_has_no_rows() -> None:
    rows = GaugeRows(f.HALVES, 2)
    await rows.write(a_page(), [(("T",), 1)])
    page = a_page()
    await rows.write(page, [])
    assert shown(page, "rocketmq_half_messages") == {}


async def test_labels_that_all_rows_of_a_gauge_have() -> None:
    rows = GaugeRows(f.TIMING, 1, DISK)
    page = a_page()
    await rows.write(page, [(("T",), 3), (("U",), 2), (("V",), 1)])
    own = ("local", "disk")
    assert shown(page, "rocketmq_timing_messages") == {("T", *own): 3, (OTHERS, *own): 3}


async def test_totals_of_few_have_rows_and_the_others_share_one() -> None:
    size = len(f.FINISH.bounds)
    rows = TotalRows({f.COMMITS: 0, f.FINISH: 0, f.ROLLBACKS: size + 3}, size + 4, 2)

    def totals(seconds: int, times: int, rollbacks: int) -> tuple[int, ...]:
        """All commits took as long: the second bucket, above 5 s."""
        return times, 0, times, *[0] * (size - 1), seconds * times, rollbacks

    values = [((f"T{n}",), totals(10, n, 7)) for n in range(1, 5)]
    await rows.write(a_page(), values)  # the first two have rows until it is chosen
    more = [((f"T{n}",), totals(10, 2 * n, 7)) for n in range(1, 5)]
    page = a_page()
    await rows.write(page, more)
    assert shown(page, "rocketmq_commit_messages_total") == {
        ("T2",): 4, ("T4",): 4, (OTHERS,): 4 + 6 + 1,
    }  # fmt: skip
    assert shown(page, "rocketmq_rollback_messages_total")[(OTHERS,)] == 7 + 7
    assert shown(page, "rocketmq_finish_message_latency_sum")[("T4",)] == 40
    buckets = shown(page, "rocketmq_finish_message_latency_bucket")
    assert [buckets["T4", bound] for bound in ("5.0", "60.0", "+Inf")] == [0, 4, 4]


async def test_totals_that_nobody_has_have_no_rows() -> None:
    page = a_page()
    await TotalRows({f.REVIVE_IN: 0}, 1, 2).write(page, [])
    assert shown(page, "rocketmq_pop_revive_in_message_total") == {}


def client(language: int = 0, version: int = 479) -> Any:
    return SimpleNamespace(language=language, version=version)


async def test_connections_of_hostile_versions_share_a_row() -> None:
    members = {number: client(version=-number, language=999) for number in range(100)}
    table = SimpleNamespace(producers={"P": members}, consumers={})
    page = a_page()
    await ClientRows(cast(ClientTable, table), 3)(page)
    found = shown(page, "rocketmq_producer_connections")
    assert len(found) == 4
    assert sum(found.values()) == 100
    assert found[OTHERS, OTHERS, OTHERS] == 97


async def ha(role: str, values: dict[str, Any], following: bool | None) -> Page:
    replicating = SimpleNamespace(
        replication=None if following is None else object(), has_master=lambda: following
    )
    config = BrokerConfig(broker_role=role, broker_id=int(role == "SLAVE"))
    page = a_page()
    await HaState(LiveConfig(config), cast(Replicating, replicating), lambda: values)(page)
    return page


async def test_a_master_and_its_slaves() -> None:
    slaves = [
        {"addr": "10.0.0.2:5", "diff": 70, "behindMillis": 1500},
        {"addr": "10.0.0.3:5", "diff": -5, "behindMillis": 0},
    ]
    values = {"haConnectionInfo": slaves, "inSyncSlaveNums": 1}
    page = await ha("SYNC_MASTER", values, None)
    assert shown(page, "pyrmq_ha_role") == {("sync_master",): 1}
    assert shown(page, "pyrmq_ha_slaves") == {(): 2}
    assert shown(page, "pyrmq_ha_in_sync_slaves") == {(): 1}
    assert shown(page, "pyrmq_ha_slave_lag_bytes") == {("10.0.0.2:5",): 70, ("10.0.0.3:5",): 0}
    assert shown(page, "pyrmq_ha_slave_lag_seconds")[("10.0.0.2:5",)] == 1.5
    assert shown(page, "pyrmq_ha_following") == {}


async def test_a_slave() -> None:
    own = {"masterFlushOffset": 500, "maxOffset": 480, "transferredByteInSecond": 9}
    page = await ha("SLAVE", {"haClientRuntimeInfo": own}, True)
    assert shown(page, "pyrmq_ha_role") == {("slave",): 1}
    assert shown(page, "pyrmq_ha_following") == {(): 1}
    assert shown(page, "pyrmq_ha_master_lag_bytes") == {(): 20}
    assert shown(page, "pyrmq_ha_received_bytes_per_second") == {(): 9}
    assert shown(page, "pyrmq_ha_slaves") == {}
