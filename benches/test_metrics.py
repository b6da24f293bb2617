"""A scrape of a broker's metrics: the CPU that it takes, and how long it holds the event loop.

Between two scrapes a tenth of the topics get messages and a tenth of the groups commit. A scrape is
the page, and its text with all chunks.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from benches.test_config_file import Watched
from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.metrics.traffic import PairRows, TopicRows
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.clients import ClientTable, ConsumerGroup
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.tables import Tables
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Store
from pyrmq.http.messages import Request
from pyrmq.metrics import exposition as exposition_module
from pyrmq.metrics.exposition import Exposition
from pyrmq.metrics.process import ProcessFigures
from pyrmq.model.topic import TopicConfig

TOPICS, QUEUES = 5000, 4
INTERVAL = 15.0
"""Seconds between two scrapes."""
ROUNDS = 7


class Broker:
    """The parts of a broker that rows are made of: `groups` groups consume each topic."""

    def __init__(self, folder: Path, groups: int, most: int) -> None:
        self.store = Store(
            folder / "store", commit_log_file_size=1 << 26, consume_queue_file_size=20 * 64
        )
        config = BrokerConfig(namesrv_addr="", store_path_root_dir=folder)
        live = LiveConfig(config)
        topics = open_topics(folder / "topics.json", live, self.store)
        self.topics = [f"TopicNumber{n:06d}" for n in range(TOPICS)]
        for name in self.topics:
            topics.table.put(TopicConfig(name, QUEUES, QUEUES))
        offsets = OffsetTable(folder / "consumerOffset.json", 500)
        clients = ClientTable(lambda group: None)
        self.tables = Tables(
            topics,
            GroupTable(folder / "subscriptionGroup.json", live),
            offsets,
            ConsumerFilters(folder / "consumerFilter.json", config, self.store),
            clients,
        )
        self.stats = BrokerStats(
            config.broker_cluster_name,
            self.store,
            topics.table,
            self.tables.groups,
            offsets.take_granted,
        )
        self.groups = [f"consumer-group-{n}" for n in range(groups)]
        for group in self.groups:
            clients.consumers[group] = ConsumerGroup(group)
        for topic in self.topics:
            self.send(topic)
            for group in self.groups:
                self.consume(topic, group, 0)
        sources = [
            TopicRows(self.store, self.tables, most),
            PairRows(self.store, self.tables, self.stats, most),
            ProcessFigures(),
        ]
        node = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
        self.exposition = Exposition(node, sources)
        self.bytes = 0

    def send(self, topic: str) -> None:
        for queue in range(QUEUES):
            self.store.put(topic, queue, b"x" * 100)

    def consume(self, topic: str, group: str, behind: int) -> None:
        for queue in range(QUEUES):
            end = self.store.native.queue_end(topic, queue)
            self.tables.offsets.keep(topic, group, queue, max(end - behind, 0))
            self.tables.offsets.pulled((topic, group, queue), end)
        self.stats.pulled(topic, group, 1, QUEUES, QUEUES * 200)

    def load(self) -> None:
        for topic in random.sample(self.topics, TOPICS // 10):
            self.send(topic)
            for group in self.groups:
                self.consume(topic, group, random.choice((0, 0, 0, 1)))

    async def scrape(self) -> None:
        accept = {"accept": "application/openmetrics-text"}
        reply = await self.exposition(Request("GET", "/metrics", headers=accept))
        assert not isinstance(reply.chunks, bytes)
        self.bytes = 0
        async for chunk in reply.chunks:
            self.bytes += len(chunk)
            await trio.lowlevel.checkpoint()  # sending it


class Collecting:
    """The longest run of Python's garbage collector within it: it holds the loop too, by what all
    objects of the process are."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        gc.callbacks.append(self._note)

    def __exit__(self, *error: object) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.longest = max(self.longest, time.perf_counter() - self._began)


@pytest.mark.parametrize("most", [1000, 100_000], ids=["folded", "all-rows"])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.benchmark(group=f"metrics of {TOPICS:,} topics")
def test_scrape(
    groups: int,
    most: int,
    folder: Path,
    benchmark: Callable[..., object],
    report: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition_module, "FRESH", 0.0)
    monkeypatch.setattr(exposition_module, "MOST_FRESH", 0.0)
    broker = Broker(folder, groups, most)
    cpu: list[float] = []
    watched = Watched()

    async def rounds() -> None:
        for number in range(ROUNDS + 1):
            broker.load()
            began = time.process_time()
            await broker.scrape()
            if number:  # the first one makes the labels
                cpu.append(time.process_time() - began)

    collecting = Collecting()

    async def watched_rounds() -> None:
        for _ in range(ROUNDS):
            broker.load()
            with collecting:
                await watched.watch(broker.scrape)

    gc.collect()
    gc.freeze()  # as a server does at its start
    try:
        benchmark.pedantic(trio.run, args=(rounds,), rounds=1)  # type: ignore[attr-defined]
        trio.run(watched_rounds)
    finally:
        gc.unfreeze()
        broker.store.close()
    share = sorted(cpu)[len(cpu) // 2] / INTERVAL
    report(f"{share:.2%} of a core, {broker.bytes / 1e6:.2f} MB", "<= 1 %")
    report(f"{watched.figure}, by gc {collecting.longest * 1e3:.1f} ms", "<= 10 ms")
