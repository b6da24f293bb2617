"""What a name server shows, with a broker that is registered there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from pyrmq.broker import Broker, BrokerConfig
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.namesrv.metrics import FAMILIES
from tests.metrics.e2e.scrape import Scrape, get
from tests.support.client import Client

pytestmark = pytest.mark.usefixtures("deadline")
GET_ROUTEINFO_BY_TOPIC = 105
PUT_KV_CONFIG = 100


@asynccontextmanager
async def running(server: NameServer) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield
        nursery.cancel_scope.cancel()


async def test_a_name_server(tmp_path: Path) -> None:
    names = NamesrvConfig(
        listen_port=0,
        bind_address="127.0.0.1",
        kv_config_path=tmp_path / "kv.json",
        metrics_exporter_type="PROM",
        metrics_prom_exporter_port=0,
    )
    broker = BrokerConfig(
        store_path_root_dir=tmp_path / "store",
        bind_address="127.0.0.1",
        broker_ip1="127.0.0.1",
        listen_port=0,
        mapped_file_size_commit_log=1 << 20,
    )
    server = NameServer(names)
    own = replace(broker, namesrv_addr=server.reachable)
    async with running(server), Broker.serving(own):
        where = server.metrics_address
        assert where is not None

        def ask() -> Scrape:
            with Client(server.address) as client:
                client.call(GET_ROUTEINFO_BY_TOPIC, topic="nowhere")
                client.call(GET_ROUTEINFO_BY_TOPIC, topic="nowhere")
                client.call(PUT_KV_CONFIG, namespace="n", key="k", value="v")
                return Scrape(where)

        page = await trio.to_thread.run_sync(ask)
        assert page.one("pyrmq_namesrv_brokers") == 1
        assert page.one("pyrmq_namesrv_broker_names") == 1
        assert page.one("pyrmq_namesrv_broker_names_without_master") == 0
        assert page.one("pyrmq_namesrv_clusters") == 1
        assert page.one("pyrmq_namesrv_topics") >= 1
        assert page.one("pyrmq_namesrv_kv_values") == 1
        assert page.one("pyrmq_connections") >= 1
        codes = "rocketmq_rpc_latency_count"
        assert (
            page.one(codes, request_code="get_routeinfo_by_topic", response_code="topic_not_exist")
            == 2
        )
        assert page.one(codes, request_code="register_broker") >= 1
        node = {"node_type": "nameserver", "node_id": server.reachable}
        assert all(node.items() <= sample.labels.items() for sample in page.samples)
        assert {family.stem for family in FAMILIES} <= page.families.keys()
        status, text = await trio.to_thread.run_sync(get, where, "/healthz")
        assert (status, json.loads(text)["status"]) == (200, "ok")
