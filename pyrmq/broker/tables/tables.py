"""The tables of one broker, and when they are written: soon after a change, and when it stops."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import Topics
from pyrmq.escape import escape


@dataclass(frozen=True, slots=True)
class Tables:
    """Topics, groups, offsets and SQL92 filters are in files; clients are those connected now."""

    topics: Topics
    groups: GroupTable
    offsets: OffsetTable
    filters: ConsumerFilters
    clients: ClientTable

    def rows(self) -> int:
        """How many rows they have together."""
        clients = self.clients
        return (
            len(self.topics.table.topics)
            + len(self.groups.groups)
            + self.offsets.count
            + len(clients.consumers)
            + len(clients.producers)
        )


log = logging.getLogger(__name__)

LOOK = 0.1
"""Seconds between two looks for topics and groups that changed."""
RETRY = 1.0
"""Seconds until the next look after a failure."""


class Saving:
    """Writes the tables. `metrics` are those of transactions, and `order` has the batches of
    orderly pops: a master's only."""

    def __init__(
        self, config: LiveConfig, tables: Tables, metrics: PersistentTable, order: PersistentTable
    ) -> None:
        self._config = config
        self._tables = tables
        self._metrics = metrics
        self._order = order

    async def save(self) -> None:
        """Writes every table that changed, also when one of them cannot be written."""
        tables = self._tables
        found: list[PersistentTable] = [
            tables.topics.table,
            tables.groups,
            tables.offsets,
            tables.filters,
        ]
        of_master = [] if self._config.now.is_slave else [self._order, self._metrics]
        await save_all([*found, *of_master])

    async def run(self) -> None:
        """Writes topics and groups soon after a change, offsets and filters every
        flushConsumerOffsetInterval."""
        tables = self._tables
        written = trio.current_time()
        while True:
            await trio.sleep(LOOK)
            # Who asks for an offset takes what is left, which then is little.
            await tables.offsets.take_granted_in_turns()
            try:
                changed: list[PersistentTable] = [tables.topics.table, tables.groups]
                interval = self._config.now.flush_consumer_offset_interval / 1000
                if trio.current_time() >= written + interval:
                    written = trio.current_time()
                    tables.filters.look_again()
                    changed += [tables.offsets, tables.filters]
                    changed += [] if self._config.now.is_slave else [self._order]
                await save_all(changed)
            except OSError as e:
                log.error("configuration not written, next try follows: %s", escape(e))
                await trio.sleep(RETRY)

    async def run_metrics(self) -> None:
        """Writes how many halves wait, every transactionMetricFlushInterval."""
        while True:
            await self._config.pause(lambda config: config.transaction_metric_flush_interval)
            try:
                await self._metrics.save_if_changed()
            except OSError as e:
                log.error("transactionMetrics not written, next try follows: %s", escape(e))


async def save_all(tables: Iterable[PersistentTable]) -> None:
    """Writes those that changed. If some cannot be written, the first error is raised behind the
    others."""
    errors = []
    for table in tables:
        try:
            await table.save_if_changed()
        except OSError as e:
            errors.append(e)
    if errors:
        raise errors[0]
