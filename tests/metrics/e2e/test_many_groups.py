"""Metrics of a broker with very many groups."""

from __future__ import annotations

import pytest
import trio

from pyrmq.broker.metrics import traffic
from pyrmq.metrics.families import OTHERS
from tests.metrics.e2e.scrape import Scrape
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")


async def test_ages_are_asked_for_some_only(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST_AGES", 2)
    async with serve(metrics_exporter_type="PROM", metrics_prom_exporter_port=0) as server:
        parts = server.broker.parts
        parts.store.put("T", 0, b"x")
        parts.tables.topics.creation.create_send_back("T", 1)
        for number in range(5):
            parts.tables.offsets.keep(f"T{number}", "G", 0, 0)
            parts.store.put(f"T{number}", 0, b"x")
            parts.tables.topics.creation.create_send_back(f"T{number}", 1)
        page = await trio.to_thread.run_sync(Scrape, server.broker.metrics_address)
        assert len(page.rows("rocketmq_consumer_lag_messages", consumer_group="G")) == 5
        assert len(page.rows("rocketmq_consumer_lag_latency", consumer_group="G")) == 2


async def test_a_hundred_thousand_groups(serve: Serve) -> None:
    many, most = 100_000, 10
    async with serve(
        metrics_exporter_type="PROM", metrics_prom_exporter_port=0, metrics_max_series=most
    ) as server:
        parts = server.broker.parts
        parts.store.put("T", 0, b"x")
        parts.tables.topics.creation.create_send_back("T", 1)
        for number in range(many):
            parts.tables.offsets.keep("T", f"G{number}", 0, 0)
        page = await trio.to_thread.run_sync(Scrape, server.broker.metrics_address)
        lags = page.rows("rocketmq_consumer_lag_messages")
        assert len(lags) == most + 1
        assert sum(lags.values()) == many
        others = page.one("rocketmq_consumer_lag_messages", consumer_group=OTHERS)
        assert others == many - most
        assert page.one("pyrmq_metrics_folded_groups") == many - most
        assert len(page.text) < 100_000
