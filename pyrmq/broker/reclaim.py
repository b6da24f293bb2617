"""reclaimAfter=table: says up to where the log may be deleted before fileReservedTime.

A look finds the first record of the log that somebody needs (`reclaim_rules` has who that may be)
and tells the engine, whose retention then counts the files before as expired. A look that fails
takes back what was said before. What is told holds after a kill as well: the files with the offsets
are on disk before.

Slaves delete by the usual rules: they do not know what of their timers and pops is needed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import trio

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.config.reclaim_keys import patterns
from pyrmq.broker.delay import DelayService
from pyrmq.broker.pop.parts import PopParts
from pyrmq.broker.reclaim_rules import Known, Row
from pyrmq.broker.tables.clients import BROADCASTING, ClientTable
from pyrmq.broker.tables.tables import Tables
from pyrmq.broker.timer import TimerService
from pyrmq.engine import (
    HaMaster,
    Store,
    log_bounds,
    needed_from,
    oldest_popped,
    reclaim_to,
    stored_topics,
    timers_needed_from,
)
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.names import REVIVE_GROUP
from pyrmq.net.address import parse_address
from pyrmq.net.server.turns import in_turns

log = logging.getLogger(__name__)

MAX_CHECK_POINTS = 1 << 18
"""Most check points of POP that a look reads; with more nothing is deleted early."""
MAX_SLAVES = 1024
"""Hosts of slaves that are remembered while they are away."""
HOUR = 3600.0
LOOKING = "the broker has not looked yet"


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """What the last look found: files that end at physical offset `to` or before may go. `why`
    nothing behind that may."""

    to: int = 0
    why: str = LOOKING


class Slaves:
    """Up to where slaves have the log, also those that are away. A host that has not been connected
    for fileReservedTime is forgotten: by then its files would be gone anyway."""

    def __init__(
        self,
        rows: Callable[[], Iterable[dict[str, Any]]],
        keep: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`rows`: the connected ones, as `HaMaster.replicas`. `keep`: seconds."""
        self._rows = rows
        self.keep = keep
        """Seconds after which one that is away is forgotten; it may change."""
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}

    def least(self) -> tuple[int, str] | None:
        """Up to where the slave has the log that has least, and its host. None without slaves."""
        now = self._clock()
        connected: dict[str, int] = {}
        for row in self._rows():
            host, acked = parse_address(row["peer"])[0], int(row["ackOffset"])
            connected[host] = min(acked, connected.get(host, acked))
        for host, acked in connected.items():
            if host in self._known or len(self._known) < MAX_SLAVES:
                self._known[host] = acked, now
        for host in [h for h, (_, seen) in self._known.items() if now - seen > self.keep]:
            del self._known[host]
        found = {host: acked for host, (acked, _) in self._known.items()} | connected
        if not found:
            return None
        host = min(found, key=lambda one: (found[one], one))
        return found[host], host


class Reclaim:
    """Looks every cleanResourceInterval, as long as it runs."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        tables: Tables,
        delays: DelayService,
        timers: TimerService,
        pop: PopParts,
        slaves: Slaves,
    ) -> None:
        self._config = config
        self._store = store
        self._tables = tables
        self._delays = delays
        self._timers = timers
        self._pop = pop
        self._slaves = slaves
        self._patterns = patterns(config.reclaim_topics_without_table)
        self._thread = trio.CapacityLimiter(1)
        self._failure = ""
        self.found = Reclaimable()

    def configure(self, config: BrokerConfig) -> None:
        """fileReservedTime may have changed."""
        self._slaves.keep = config.file_reserved_time * HOUR

    async def run(self) -> None:
        pause = min(self._config.clean_resource_interval / 1000, 1.0)
        while True:
            await trio.sleep(pause)
            pause = self._config.clean_resource_interval / 1000
            try:
                await self.look()
                self._failure = ""
            except (PyrmqError, OSError) as e:
                if str(e) != self._failure:
                    self._failure = str(e)
                    log.error("no file of the log is deleted early: %s", escape(e))
            except Exception:  # the broker goes on, and deletes nothing early
                log.exception("no file of the log is deleted early")

    async def look(self) -> Reclaimable:
        """One look. PyrmqError, OSError: nothing is deleted early then."""
        try:
            found = await self._look()
            # What a start reads must not be older than what was deleted.
            await self._tables.offsets.save_if_changed()
            await self._delays.save()
        except BaseException:
            reclaim_to(self._store.native, 0)
            self.found = Reclaimable(0, "the last look failed: the log of the broker says why")
            raise
        reclaim_to(self._store.native, found.to)
        self.found = found
        return found

    async def _look(self) -> Reclaimable:
        known = self._known()
        rows = await self._rows(known)
        native = self._store.native
        # The order counts. How far readers are comes first: what is appended, popped or delivered
        # after that stands behind it. The engine's own come behind the log's end, which has to be
        # older than what is looked for in the queues.
        _, since, *_ = log_bounds(native)
        to, by = await self._run(needed_from, native, rows)
        why = "by nobody, when the broker last looked" if by is None else known.why(*by)
        found = Reclaimable(to, why)
        begin = log_bounds(native)[0]
        if to < begin + self._config.mapped_file_size_commit_log:
            return found  # not even one file: what follows would change nothing
        waiting = await self._run(timers_needed_from, self._timers.engine)
        found = _least(found, waiting, "timer messages that wait")
        unsettled = since if waiting is None else min(waiting, since)
        revive_topic = self._pop.engine.revive_topic
        kept = self._tables.offsets.all_of(revive_topic, REVIVE_GROUP)
        places = [kept.get(q, 0) for q in range(max(kept, default=-1) + 1)]
        popped = await self._run(
            oldest_popped, self._pop.engine, unsettled, places, MAX_CHECK_POINTS
        )
        found = _least(found, popped, "popped messages that are not settled")
        slave = self._slaves.least()
        if slave is not None:
            found = _least(found, slave[0], f"the slave at {slave[1]} has no more of the log")
        return found

    async def _run(self, work: Callable[..., Any], *args: Any) -> Any:
        return await trio.to_thread.run_sync(work, *args, limiter=self._thread)

    def _known(self) -> Known:
        offsets = self._tables.offsets
        return Known(
            self._config.reclaim_group,
            self._patterns,
            offsets.groups_of,
            lambda topic, group: dict(offsets.all_of(topic, group)),
            _waiting(self._tables.clients),
            self._delays.kept(),
        )

    async def _rows(self, known: Known) -> list[Row]:
        rows: list[Row] = []
        await in_turns(
            stored_topics(self._store.native), lambda topic: rows.extend(known.rows(topic))
        )
        return rows


def open_reclaim(
    config: BrokerConfig,
    store: Store,
    tables: Tables,
    delays: DelayService,
    timers: TimerService,
    pop: PopParts,
    master: HaMaster | None,
) -> Reclaim | None:
    """As the configuration wants it; None without reclaimAfter=table, and at a slave, which has no
    `master` that serves slaves."""
    if config.reclaim_after != "table" or master is None:
        return None
    slaves = Slaves(master.replicas, config.file_reserved_time * HOUR)
    return Reclaim(config, store, tables, delays, timers, pop, slaves)


def _least(found: Reclaimable, other: int | None, why: str) -> Reclaimable:
    return found if other is None or other >= found.to else Reclaimable(other, why)


def _waiting(clients: ClientTable) -> dict[str, list[str]]:
    """By topic the groups that subscribe to it. Members that broadcast keep their offsets
    themselves: they do not count."""
    found: dict[str, list[str]] = {}
    for name, group in clients.consumers.items():
        if group.message_model != BROADCASTING:
            for topic in group.subscriptions:
                found.setdefault(topic, []).append(name)
    return found
