"""How the broker is now: its tables, clients, store, transactions and replication."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.metrics import families as f
from pyrmq.broker.metrics.rows import GaugeRows, TotalRows
from pyrmq.broker.replication.replicating import Replicating
from pyrmq.broker.requests.runtime import EarliestTime, why_it_refuses
from pyrmq.broker.stats.create_times import CreateTimes
from pyrmq.broker.stats.disk_use import read_disk
from pyrmq.broker.tables.clients import ClientTable, ConsumerGroup
from pyrmq.broker.tables.groups import is_own
from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import Store
from pyrmq.metrics.families import flag, label_text
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


_STATUS = ("failure", "success")
"""[InvocationStatus]"""


class BrokerState:
    """The broker itself, and what waits there. `waiting`: by processor how many requests wait."""

    def __init__(
        self,
        live: LiveConfig,
        store: Store,
        tables: Tables,
        server: RemotingServer,
        waiting: Mapping[str, Callable[[], int]],
        times: CreateTimes,
    ) -> None:
        self._live = live
        self._store = store
        self._tables = tables
        self._server = server
        self._waiting = waiting
        self._times = times

    async def __call__(self, page: Page) -> None:
        page.add(f.PERMISSION, self._live.now.broker_permission)
        page.add(f.TOPICS, len(self._tables.topics.table.topics))
        page.add(f.GROUPS, len(self._tables.groups.groups))
        for name, count in self._waiting.items():
            page.add(f.WATERMARK, count(), processor=name)
        page.add(f.CONNECTIONS, len(self._server.connections))
        page.add(f.REFUSES, bool(why_it_refuses(self._live.now, self._store)))
        for (succeeded, is_system), times in self._times.topics.items():
            labels = {"invocation_status": _STATUS[succeeded], "is_system": flag(is_system)}
            page.rows(f.TOPIC_CREATE).add_histogram(label_text(labels), *times.row)
        for succeeded, times in self._times.groups.items():
            labels = {"invocation_status": _STATUS[succeeded]}
            page.rows(f.GROUP_CREATE).add_histogram(label_text(labels), *times.row)


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

    def __init__(self, store: Store, transactions: TransactionService, most: int) -> None:
        self._store = store
        self._service = transactions
        self._halves = GaugeRows(f.HALVES, most)
        # committed, buckets, sum; rolled back
        numbers = {f.COMMITS: 0, f.FINISH: 0, f.ROLLBACKS: len(f.FINISH.bounds) + 3}
        self._ends = TotalRows(numbers, len(f.FINISH.bounds) + 4, most)

    async def __call__(self, page: Page) -> None:
        pending = self._service.engine.pending_by_topic()
        await self._halves.write(page, (((topic,), count) for topic, count in pending))
        ends = self._store.finished_halves()
        await self._ends.write(page, (((t,), (*row, rollbacks)) for t, row, rollbacks in ends))
        stats = self._service.stats()
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
