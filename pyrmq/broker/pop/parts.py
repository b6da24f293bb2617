"""The parts of POP, put together, and their tasks."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

import trio

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.pop.in_flight import InFlight
from pyrmq.broker.pop.orderly import OrderlyPops
from pyrmq.broker.pop.popping import Popping
from pyrmq.broker.pop.restore import PopsInLog, restore_offsets
from pyrmq.broker.pop.revive import ReviveService, Timers
from pyrmq.broker.pop.waits import Waits
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.consumer_order import ConsumerOrder
from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import Pops, Store
from pyrmq.net.clock import now_ms
from pyrmq.net.command import Response
from pyrmq.net.server.server import RemotingServer

CLEAN = 60.0
"""Seconds between two looks for what nobody needs any more."""


@dataclass(frozen=True, slots=True)
class PopParts:
    """`waits`: where pops wait; `notices`: where notifications do."""

    engine: Pops
    popping: Popping
    order: ConsumerOrder
    orderly: OrderlyPops
    in_flight: InFlight
    waits: Waits
    notices: Waits
    tables: Tables
    revive: ReviveService
    in_log: PopsInLog

    def release_all(self) -> None:
        """Whoever waits is answered, and asks again."""
        self.waits.release_all()
        self.notices.release_all()

    def end(self, topics: Set[str], response: Callable[[str], Response]) -> None:
        """Topics are gone: so is what waits for them, and what was popped from them."""
        self.waits.end(topics, response)
        self.notices.end(topics, response)
        for key in self.order.queues():
            if key[0] in topics:
                self.order.clear(*key)
        self.in_flight.forget_all(lambda topic, _: topic in topics)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.waits.run)
            nursery.start_soon(self.notices.run)
            nursery.start_soon(self.orderly.run)
            nursery.start_soon(self._run_cleaning)
            if not self.popping.live.now.is_slave:
                nursery.start_soon(self.revive.run)

    async def _run_cleaning(self) -> None:
        topics, groups = self.tables.topics.table, self.tables.groups

        def queues(topic: str) -> int | None:
            known = topics.get(topic)
            return None if known is None else known.read_queue_nums

        def is_gone(topic: str, group: str) -> bool:
            return topics.get(topic) is None or group not in groups.groups

        while True:
            await trio.sleep(CLEAN)
            await self.order.clean(queues, groups.groups.__contains__, now_ms())
            self.in_flight.forget_all(is_gone)
            offsets = self.tables.offsets
            if offsets.pops is not None and self.in_log.is_far(offsets.pop_start):
                offsets.changed()


def pop_engine(live: LiveConfig, store: Store) -> Pops:
    """What pops, acknowledges and changes invisible times. Sessions answer acks by themselves as
    long as nobody counts what is in flight."""
    config = live.now
    engine = Pops(
        store.native,
        cluster=config.broker_cluster_name,
        broker_name=config.broker_name,
        revive_queues=config.revive_queue_num,
        precision=config.timer_precision_ms,
        max_invisible_time=1000 * config.timer_max_delay_sec,
    )

    def changed(_: BrokerConfig, now: BrokerConfig) -> None:
        engine.answer_acks(not now.enable_pop_message_threshold)

    changed(config, config)
    live.watch(changed)
    return engine


def open_pop(
    folder: Path,
    live: LiveConfig,
    store: Store,
    engine: Pops,
    tables: Tables,
    stats: BrokerStats,
    server: RemotingServer,
    timers: Timers,
) -> PopParts:
    """ConfigError if consumerOrderInfo.json cannot be read. Blocking."""
    topics = tables.topics.table
    order = ConsumerOrder(folder / "consumerOrderInfo.json")
    in_flight = InFlight(live)
    popping = Popping(live, store, engine, topics, tables.offsets, order, stats, in_flight)

    def queues(topic: str) -> int | None:
        known = topics.get(topic)
        return None if known is None else known.read_queue_nums

    def limits() -> tuple[int, int]:
        now = live.now
        return now.pop_polling_size, now.max_pop_polling_size

    in_log = PopsInLog(store, popping)
    if not live.now.is_slave:
        restore_offsets(store, engine, tables)
        tables.offsets.pops = in_log
        for key in order.queues():
            order.settle(*key, tables.offsets.query(*key) or 0)

    waits, notices = (Waits(store, queues, server.answer, limits) for _ in range(2))
    for one in (waits, notices):
        server.watch_arrivals(one.arrived)
        server.at_drain(one.stop)
        topics.watch(one)

    def visible(topic: str, group: str, queue_id: int) -> None:
        waits.visible(topic, group, queue_id)
        notices.visible(topic, group, queue_id)

    orderly = OrderlyPops(order, tables.offsets, engine, visible)
    popping.on_order = orderly.changed
    revive = ReviveService(live, store, engine, tables, timers, server.wake_parked)
    return PopParts(
        engine, popping, order, orderly, in_flight, waits, notices, tables, revive, in_log
    )
