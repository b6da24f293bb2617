"""How the broker is now: its tables, clients, store, transactions, timers, pops and replication."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.delay import DelayService
from pyrmq.broker.metrics import families as f
from pyrmq.broker.metrics.traffic import Choices
from pyrmq.broker.pop.parts import PopParts
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.broker.requests.runtime import EarliestTime, why_it_refuses
from pyrmq.broker.stats.disk_use import read_disk
from pyrmq.broker.tables.clients import ClientTable, ConsumerGroup
from pyrmq.broker.tables.groups import is_own
from pyrmq.broker.tables.tables import Tables
from pyrmq.broker.timer import TimerService
from pyrmq.engine import Store
from pyrmq.metrics.families import OTHERS, Family, flag, label_text
from pyrmq.metrics.folding import Folding
from pyrmq.metrics.page import Page
from pyrmq.model.codes import LANGUAGES, version_name
from pyrmq.net.clock import now_ms
from pyrmq.net.server.server import RemotingServer
from pyrmq.net.server.turns import in_turns
from pyrmq.txn import TransactionService

DISK = {"storage_type": "local", "storage_medium": "disk"}
_INDEX_HEADER, _INDEX_SLOT, _INDEX_ENTRY = 40, 4, 20
"""Bytes of an index file's parts."""
_MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}


class GaugeRows:
    """A gauge by topic, or by other names that clients choose: the largest have rows, the others
    share one."""

    def __init__(self, family: Family, most: int) -> None:
        self._family = family
        self._rows: Folding[tuple[str, ...]] = Folding(most, 1)
        self._choices = Choices()

    async def write(self, page: Page, values: Iterable[tuple[tuple[str, ...], int]]) -> None:
        """`values`: of the labels' values, in the order of the family, how much."""
        family, rows = self._family, self._rows
        add_row = page.rows(family).add
        rows.begin()
        shared = 0

        def add(row: tuple[tuple[str, ...], int]) -> None:
            nonlocal shared
            item = rows.see(row[0], (0,))
            item.weight = row[1]
            if item.kept:
                names = zip(family.labels, row[0], strict=True)
                item.labels = item.labels or label_text(dict(names))
                add_row(item.labels, row[1])
            else:
                shared += row[1]

        await in_turns(list(values), add, 16)
        await rows.end()
        if rows.folded:
            add_row(label_text(dict.fromkeys(family.labels, OTHERS)), shared)
        await self._choices.look(rows)


class BrokerState:
    """The broker itself, and what waits there. `waiting`: by processor how many requests wait."""

    def __init__(
        self,
        live: LiveConfig,
        store: Store,
        tables: Tables,
        server: RemotingServer,
        waiting: Mapping[str, Callable[[], int]],
    ) -> None:
        self._live = live
        self._store = store
        self._tables = tables
        self._server = server
        self._waiting = waiting

    async def __call__(self, page: Page) -> None:
        page.add(f.PERMISSION, self._live.now.broker_permission)
        page.add(f.TOPICS, len(self._tables.topics.table.topics))
        page.add(f.GROUPS, len(self._tables.groups.groups))
        for name, count in self._waiting.items():
            page.add(f.WATERMARK, count(), processor=name)
        page.add(f.CONNECTIONS, len(self._server.connections))
        page.add(f.REFUSES, bool(why_it_refuses(self._live.now, self._store)))


class ClientRows:
    """Who is connected."""

    def __init__(self, clients: ClientTable, most: int) -> None:
        self._clients = clients
        self._producers = GaugeRows(f.PRODUCERS, most)
        self._consumers = GaugeRows(f.CONSUMERS, most)

    async def __call__(self, page: Page) -> None:
        producers: dict[tuple[str, ...], int] = {}
        consumers: dict[tuple[str, ...], int] = {}

        def count_producers(name: str) -> None:
            for client in self._clients.producers.get(name, {}).values():
                key = (_language(client.language), _version(client.version), "remoting")
                producers[key] = producers.get(key, 0) + 1

        def count_consumers(group: ConsumerGroup) -> None:
            mode = _MODES.get(group.consume_type, "push")
            own = flag(is_own(group.name))
            for client in group.clients.values():
                language, version = _language(client.language), _version(client.version)
                key = (group.name, language, version, mode, "remoting", own)
                consumers[key] = consumers.get(key, 0) + 1

        await in_turns(list(self._clients.producers), count_producers)
        await in_turns(list(self._clients.consumers.values()), count_consumers)
        await self._producers.write(page, producers.items())
        await self._consumers.write(page, consumers.items())


def _language(number: int) -> str:
    return LANGUAGES[number].lower() if 0 <= number < len(LANGUAGES) else "other"


def _version(number: int) -> str:
    return version_name(number).lower()


class TransactionRows:
    """Halves, and what became of them."""

    def __init__(self, transactions: TransactionService, most: int) -> None:
        self._service = transactions
        self._halves = GaugeRows(f.HALVES, most)

    async def __call__(self, page: Page) -> None:
        pending = self._service.engine.pending_by_topic()
        await self._halves.write(page, (((topic,), count) for topic, count in pending))
        stats = self._service.stats()
        page.add(f.COMMITS, stats["commits"])
        page.add(f.ROLLBACKS, stats["rollbacks"])
        page.add(f.HALVES_TAKEN, stats["halves"])
        page.add(f.CHECKS, stats["checks"])
        page.add(f.DISCARDED, stats["discarded"])
        page.add(f.OLDEST_HALF, stats["oldestPendingAgeMs"] / 1000)
        page.add(f.UNREACHABLE, stats["unreachable"])


class StoreState:
    """Log, queues, index and their disks. `stalled_ms`: how long a write takes so far."""

    def __init__(self, live: LiveConfig, store: Store, stalled_ms: Callable[[], int]) -> None:
        self._live = live
        self._store = store
        self._stalled_ms = stalled_ms
        self._earliest = EarliestTime(store)

    async def __call__(self, page: Page) -> None:
        stats = self._store.stats()
        end = stats["maxPhyOffset"]
        page.add(f.SIZE, self._size(stats), **DISK)
        page.add(f.FLUSH_BEHIND, max(end - stats["flushedWhere"], 0), **DISK)
        page.add(f.DISPATCH_BEHIND, max(end - stats["indexedWhere"], 0), **DISK)
        page.add(f.LOG_END, end)
        page.add(f.LOG_START, stats["minPhyOffset"])
        page.add(f.CONFIRMED, self._store.confirmed())
        page.add(f.FAILED, self._store.failure() is not None)
        page.add(f.STALL, self._stalled_ms() / 1000)
        page.add(f.QUEUES, stats["queues"])
        config = self._live.now
        folders = [config.store_path_root_dir, *config.commit_log_dirs]
        earliest, disks = await trio.to_thread.run_sync(self._disk, folders)
        page.add(f.RESERVED, max(now_ms() - earliest, 0) if earliest else 0, **DISK)
        for folder, used, free in disks:
            page.add(f.DISK_USED, used, path=folder)
            page.add(f.DISK_FREE, free, path=folder)

    def _size(self, stats: Mapping[str, int]) -> int:
        config = self._live.now
        index_file = (
            _INDEX_HEADER
            + _INDEX_SLOT * config.max_hash_slot_num
            + _INDEX_ENTRY * config.max_index_num
        )
        return (
            stats["maxPhyOffset"]
            - stats["minPhyOffset"]
            + stats["queueFiles"] * config.mapped_file_size_consume_queue
            + stats["indexFiles"] * index_file
        )

    def _disk(self, folders: list[Path]) -> tuple[int | None, list[tuple[str, float, int]]]:
        """What the disk is asked for, in a thread: the store time of the first message, and how
        full the disks of the folders are."""
        try:
            earliest = self._earliest()
        except OSError:  # the file was deleted meanwhile
            earliest = None
        found = []
        for folder in dict.fromkeys(folders):
            try:
                disk = read_disk(folder)
            except OSError:
                continue
            found.append((disk.path, disk.used_part, disk.free))
        return earliest, found


class LaterRows:
    """Messages that are delivered later: delay levels, timers; and pops that come again."""

    def __init__(
        self, delays: DelayService, timers: TimerService, pop: PopParts, most: int
    ) -> None:
        self._delays = delays
        self._timers = timers
        self._pop = pop
        self._timing = GaugeRows(f.TIMING, most)

    async def __call__(self, page: Page) -> None:
        for level, (offset, end) in enumerate(self._delays.engine.levels(), 1):
            page.add(f.DELAY_BEHIND, max(end - offset, 0), level=level)
        figures = self._timers.engine.figures(now_ms())
        page.add(f.ENQUEUE_LAG, max(figures["queueEnd"] - figures["queueOffset"], 0), **DISK)
        behind = figures["storedAt"] - figures["enqueuedAt"]
        page.add(f.ENQUEUE_LATENCY, max(behind, 0), **DISK)
        page.add(f.DEQUEUE_LATENCY, max(figures["late"], 0), **DISK)
        page.add(f.TIMERS_IN, figures["enqueued"])
        page.add(f.TIMERS_OUT, figures["dequeued"])
        page.add(f.TIMERS_LOST, figures["lost"])
        topics = self._timers.engine.topics()
        await self._timing.write(page, (((topic,), max(n, 0)) for topic, n, _ in topics))
        self._add_pops(page)

    def _add_pops(self, page: Page) -> None:
        lags = self._pop.revive.engine.lags()
        page.add(f.POP_CHECK_POINTS, sum(points for _, _, points in lags))
        for queue, (records, ms, _) in enumerate(lags):
            page.add(f.REVIVE_LAG, records, queue_id=queue)
            page.add(f.REVIVE_LATENCY, ms, queue_id=queue)
        page.add(f.REVIVED, self._pop.revive.totals.revived)
        page.add(f.JUDGED, self._pop.revive.totals.judged)


class HaState:
    """The broker's role, and how far slaves are behind. `values`: of GET_BROKER_HA_STATUS."""

    def __init__(
        self,
        live: LiveConfig,
        replicating: Replicating,
        values: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._live = live
        self._replicating = replicating
        self._values = values

    async def __call__(self, page: Page) -> None:
        page.add(f.ROLE, 1, role=self._live.now.broker_role.lower())
        values = self._values()
        if self._replicating.replication is None:
            slaves = values["haConnectionInfo"]
            page.add(f.SLAVES, len(slaves))
            page.add(f.IN_SYNC, values["inSyncSlaveNums"])
            for row in slaves:
                page.add(f.SLAVE_LAG, max(row["diff"], 0), slave=row["addr"])
                page.add(f.SLAVE_BEHIND, row["behindMillis"] / 1000, slave=row["addr"])
            return
        own = values["haClientRuntimeInfo"]
        page.add(f.FOLLOWING, self._replicating.has_master())
        page.add(f.MASTER_LAG, max(own["masterFlushOffset"] - own["maxOffset"], 0))
        page.add(f.HA_RATE, own["transferredByteInSecond"])
