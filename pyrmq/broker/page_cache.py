"""pageCacheDropBehind: the kernel gives up log files that all connected consumers have read.

For machines whose memory others need: what is read again then comes from the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import trio

from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.engine import Store
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

INTERVAL = 10
"""Seconds between two rounds."""
AT_ONCE = 1000
"""Offsets that are looked up in one go."""

Next = tuple[str, int, int]
"""Topic, queue id, next offset of a consumer."""


class PageCache:
    """Gives up what is behind all consumers.

    Groups count that have a connected member and an offset here. Members that broadcast keep their
    offsets themselves and do not count.
    """

    def __init__(self, store: Store, offsets: OffsetTable, clients: ClientTable) -> None:
        self._store = store
        self._offsets = offsets
        self._clients = clients
        self._thread = trio.CapacityLimiter(1)

    async def run(self) -> None:
        while True:
            await trio.sleep(INTERVAL)
            try:
                await self.drop()
            except (OSError, PyrmqError) as e:
                log.warning("pages of the log are not given up, next try follows: %s", escape(e))

    async def drop(self) -> int:
        """One round; how many files were given up."""
        before = await self._consumed_to([])
        for some in self._next_offsets():
            before = min(before, await self._consumed_to(some))
        return await trio.to_thread.run_sync(
            self._store.give_up_cache, before, limiter=self._thread
        )

    async def _consumed_to(self, some: list[Next]) -> int:
        return await trio.to_thread.run_sync(self._store.consumed_to, some, limiter=self._thread)

    def _next_offsets(self) -> Iterator[list[Next]]:
        """The next offsets of connected groups, some at a time: the tables change in between."""
        some: list[Next] = []
        self._offsets.take_granted()
        for topic, group in list(self._offsets.offsets):
            if group not in self._clients.consumers:
                continue
            queues = self._offsets.offsets.get((topic, group), {})
            some += [(topic, queue_id, offset) for queue_id, offset in queues.items()]
            if len(some) >= AT_ONCE:
                yield some
                some = []
        if some:
            yield some
