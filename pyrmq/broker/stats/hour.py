"""What the broker's history has besides connections, log and disk: CPU, how late the event loop
runs, what groups have not consumed, how far replication is behind."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from pyrmq.broker.metrics.lag import Lags
from pyrmq.broker.stats.folding import LOOK
from pyrmq.broker.tables.groups import is_own
from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import Store
from pyrmq.net.server.turns import in_turns

LOOK_EVERY = 1.0
"""Seconds between two looks at how late the event loop is."""
PAIRS = 4096
"""Pairs of topic and group that every sample may count. With more of them, the backlog is counted
at every second sample, every third one, and so on."""
SELDOM = 12
"""It is counted at every twelfth sample at least: each two minutes."""


class HourState:
    """`state`: the rest of the figures. `ha`: how replication stands, as GET_BROKER_HA_STATUS
    answers. `run` has to run for `loopLateMs`."""

    def __init__(
        self,
        state: Callable[[], Awaitable[dict[str, int]]],
        store: Store,
        tables: Tables,
        ha: Callable[[], Mapping[str, Any]],
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._state = state
        self._store = store
        self._tables = tables
        self._ha = ha
        self._cpu = cpu
        self._cpu_before = cpu()
        self._late = 0.0
        self._backlog = 0
        self._until_count = 0

    async def run(self) -> None:
        """Looks at the event loop until cancelled."""
        due = trio.current_time()
        while True:
            due = max(due + LOOK_EVERY, trio.current_time())
            await trio.sleep_until(due)
            self._late = max(self._late, trio.current_time() - due)

    async def __call__(self) -> dict[str, int]:
        """cpuMs: CPU time of this process since the last call. loopLateMs: how late the loop ran at
        most since then. backlog: the lag of all groups of clients together, as
        GET_BROKER_CONSUME_STATS tells it. slaveBehind: bytes that a slave lacks; of a master those
        of the slave that lacks most. It is left out while no slave is connected."""
        found = await self._state()
        cpu = self._cpu()
        found["cpuMs"] = round((cpu - self._cpu_before) * 1000)
        found["loopLateMs"] = round(self._late * 1000)
        self._cpu_before, self._late = cpu, 0.0
        behind = self._behind()
        if behind is not None:
            found["slaveBehind"] = behind
        found["backlog"] = await self._counted()
        return found

    def _behind(self) -> int | None:
        values = self._ha()
        if values["master"]:
            lacks = [max(int(row["diff"]), 0) for row in values["haConnectionInfo"]]
            return max(lacks, default=None)
        own = values["haClientRuntimeInfo"]
        if not own["activated"]:
            return None
        return max(int(own["masterFlushOffset"]) - int(own["maxOffset"]), 0)

    async def _counted(self) -> int:
        if self._until_count > 0:
            self._until_count -= 1
            return self._backlog
        lags = Lags(self._store, self._tables)
        groups = self._tables.groups.groups
        is_system = self._tables.topics.table.is_system
        total = 0

        def add(pair: tuple[str, str]) -> None:
            nonlocal total
            topic, group = pair
            if group not in groups or is_own(group) or is_system(topic) or not lags.exists(topic):
                return
            if lags.is_wanted(topic, group):
                total += lags.not_consumed(topic, group)

        await self._tables.offsets.take_granted_in_turns()
        pairs = list(self._tables.offsets.offsets)
        await in_turns(pairs, add, LOOK)
        self._until_count = min(len(pairs) // PAIRS, SELDOM - 1)
        self._backlog = total
        return total
