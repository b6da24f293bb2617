"""Saving offsets and registering topics, beside json.dumps of the same content.

How long the loop is held is the longest time by which a task that sleeps for 1 ms comes late.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.registration import Registration
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Store
from pyrmq.model.topic import TopicConfig

TOPICS = 20_000
NAP = 0.001


class Watched:
    """Calls of the broker on a loop of their own, with a task beside them that notes how late it
    is."""

    def __init__(self) -> None:
        self.late: list[float] = []

    def run(self, call: Callable[[], Awaitable[object]]) -> None:
        trio.run(self.watch, call)

    async def watch(self, call: Callable[[], Awaitable[object]]) -> None:
        late = [0.0]
        last = time.perf_counter()

        def note() -> None:
            nonlocal last
            now = time.perf_counter()
            late.append(now - last - NAP)
            last = now

        async def watch() -> None:
            while True:
                await trio.sleep(NAP)
                note()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await call()
            note()
            nursery.cancel_scope.cancel()
        self.late.append(max(late))

    @property
    def figure(self) -> str:
        return f"loop held for {max(self.late) * 1e3:.1f} ms"


@pytest.mark.parametrize("changed", ["all", "one"])
@pytest.mark.parametrize(
    ("groups", "queues"), [(1000, 160), (160_000, 1)], ids=["1000x160", "160000x1"]
)
@pytest.mark.benchmark(group="saving 160,000 consumer offsets")
def test_offsets(groups: int, queues: int, changed: str, folder: Path, paired, report) -> None:
    table = OffsetTable(folder / "consumerOffset.json", 500)
    keys = [(f"TopicNumber{n // 10:06d}", f"consumer-group-{n % 10}") for n in range(groups)]
    offset = 1_000_000_000

    def commit(some: list[tuple[str, str]]) -> None:
        nonlocal offset
        offset += 1000
        for topic, group in some:
            for queue in range(queues):
                table.commit(topic, group, queue, offset + queue)

    commit(keys)
    trio.run(table.save_if_changed)
    content = config_file.load(table.path)
    watched = Watched()
    result = paired(
        lambda: watched.run(table.save_if_changed),
        lambda: json.dumps(content),
        rounds=5,
        before=lambda: commit(keys if changed == "all" else keys[:1]),
    )
    report(f"{result.speed:.2f} times the speed of json.dumps, with the file")
    report(watched.figure, "<= 10 ms")


@pytest.mark.parametrize("changed", ["all", "one"])
@pytest.mark.benchmark(group=f"registering {TOPICS:,} topics")
def test_registration(changed: str, folder: Path, paired, report) -> None:
    store = Store(folder / "store", commit_log_file_size=1 << 20)
    config = BrokerConfig(broker_name="b", namesrv_addr="", store_path_root_dir=folder)
    topics = open_topics(folder / "topics.json", LiveConfig(config), store)
    registration = Registration(LiveConfig(config), topics.table, ("127.0.0.1", 10911))
    queues = 0

    def update(count: int) -> None:
        nonlocal queues
        queues = queues % 16 + 1
        for n in range(count):
            topics.creation.update(TopicConfig(f"TopicNumber{n:06d}", queues, queues))

    update(TOPICS)
    content = {name: topic.to_json() for name, topic in topics.table.topics.items()}
    watched = Watched()
    result = paired(
        lambda: watched.run(registration._body),
        lambda: json.dumps(content),
        rounds=5,
        before=lambda: update(TOPICS if changed == "all" else 1),
    )
    store.close()
    report(f"{result.speed:.2f} times the speed of json.dumps")
    report(watched.figure, "<= 10 ms")
