"""Removes what nobody uses: silent clients, unused groups, offsets of deleted topics, cached pages.

[ClientHousekeepingService; the rest is ours] With pageCacheDropBehind the kernel gives up log files
that all connected consumers have read. That is for machines whose memory others need: what is read
again then comes from the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.clients import Client, ClientTable
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_removal import TopicDeletion
from pyrmq.broker.tables.topics import TopicTable
from pyrmq.engine import Store
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.names import DLQ_PREFIX, LMQ_PREFIX, RETRY_PREFIX, retry_topic
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import in_turns

log = logging.getLogger(__name__)

CLIENT_SCAN = 10.0
"""Seconds between looks for clients without heartbeats."""
GROUP_SCAN = 600.0
"""Seconds between looks for groups that nobody uses, at most."""
OFFSET_SCAN = 3600.0
"""Seconds between looks for offsets of topics that are gone."""
AT_ONCE = 256
"""Topics that are examined before other tasks run."""
DROP_INTERVAL = 10
"""Seconds between two passes of `PageCache`."""
LOOK = 64
"""Groups between two looks at the clock."""
OFFSETS_AT_ONCE = 1000
"""Offsets that are looked up in one go."""

Next = tuple[str, int, int]
"""Topic, queue id, next offset of a consumer."""


class Housekeeping:
    """`close` closes a connection."""

    def __init__(
        self,
        config: LiveConfig,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        clients: ClientTable,
        deletion: TopicDeletion,
        close: Callable[[Connection], None],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._deletion = deletion
        self._close = close

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._scan_clients)
            if not self._config.now.is_slave:  # there they are its master's
                nursery.start_soon(self._scan_groups)
                nursery.start_soon(self._scan_offsets)

    async def _scan_clients(self) -> None:
        while True:
            await trio.sleep(CLIENT_SCAN)
            await self.expire_clients()

    async def expire_clients(self) -> None:
        """Closes connections without a heartbeat for channelExpiredTimeout."""
        limit = self._config.now.channel_expired_timeout / 1000
        before = trio.current_time() - limit

        def look(members: dict[Connection, Client]) -> None:
            for connection in [c for c, client in members.items() if client.last_seen < before]:
                log.info(
                    "%s sent no heartbeat for %g s",
                    connection.peer,
                    limit,
                    extra=about(connection=connection.peer),
                )
                self._close(connection)

        await in_turns(list(self._clients.producers.values()), look, LOOK)
        consumers = list(self._clients.consumers.values())
        await in_turns(consumers, lambda group: look(group.clients), LOOK)

    async def _scan_groups(self) -> None:
        while True:
            await trio.sleep(self._pause())
            try:
                await self.expire_groups()
            except (PyrmqError, OSError) as e:
                log.error("groups that nobody uses stay for now: %s", escape(e))

    def _pause(self) -> float:
        if not self._config.now.auto_created_group_expire_time:
            return GROUP_SCAN
        return min(max(self._groups.expire_step / 1000, 0.1), GROUP_SCAN)

    async def expire_groups(self) -> None:
        """Removes groups that consumers made and that nobody has used for long, with their retry
        and dead-letter topics. A group with members, with offsets or with messages to retry is in
        use."""
        await self._groups.note_used(await self._offsets.take_pullers())
        expired: set[str] = set()

        def look(name: str) -> None:
            if not self._groups.is_unused(name) or name in self._clients.consumers:
                return
            if self._offsets.topics_of(name) or self._has_messages(retry_topic(name)):
                return
            log.info("group %s expires: nobody used it", escape(name), extra=about(group=name))
            self._groups.remove(name)
            self._clients.forget_group(name)
            expired.add(name)

        await in_turns(self._groups.auto_created(), look, LOOK)
        if expired:
            topics = [prefix + name for name in expired for prefix in (RETRY_PREFIX, DLQ_PREFIX)]
            await self._deletion.remove(sorted(topics), self._is_used)
            await self._offsets.forget(lambda _, group: group in expired)

    def _is_used(self, topic: str) -> bool:
        """Whether a topic of a group that expired is not there, or has become of use again."""
        group = topic.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
        known = self._topics.get(topic) is not None
        return not known or group in self._groups.groups or self._has_messages(topic)

    def _has_messages(self, topic: str) -> bool:
        known = self._topics.get(topic)
        queues = 0 if known is None else max(known.read_queue_nums, known.write_queue_nums)
        bounds = (self._store.queue_range(topic, queue_id) for queue_id in range(queues))
        return any(low < high for low, high in bounds)

    async def _scan_offsets(self) -> None:
        while True:
            await trio.sleep(OFFSET_SCAN)
            await self.drop_offsets()

    async def drop_offsets(self) -> None:
        """Removes offsets of topics that are not there and that no member of the group wants.

        RocketMQ's scanUnsubscribedTopic, which nothing calls, would also remove offsets of topics
        that are there, if they are not ahead of what is still stored. Those stay here: a group that
        comes back would begin at the end and miss messages.
        """
        topics = self._offsets.topics()
        for start in range(0, len(topics), AT_ONCE):
            for topic in topics[start : start + AT_ONCE]:
                if not self._is_gone(topic):
                    continue
                for group in self._offsets.groups_of(topic):
                    if self._clients.subscription(group, topic) is None:
                        log.info(
                            "offsets of %s in %s are removed",
                            escape(group),
                            escape(topic),
                            extra=about(topic=topic, group=group),
                        )
                        self._offsets.remove(topic, group)
            await trio.lowlevel.checkpoint()
        await self._offsets.forget(lambda topic, group: self._is_gone(topic))

    def _is_gone(self, topic: str) -> bool:
        # Light queues, of which RocketMQ keeps offsets, are no topics.
        known = self._topics.get(topic) is not None or self._topics.keeps(topic)
        return not known and not topic.startswith(LMQ_PREFIX)


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
            await trio.sleep(DROP_INTERVAL)
            try:
                await self.drop()
            except (OSError, PyrmqError) as e:
                log.warning("pages of the log are not given up, next try follows: %s", escape(e))

    async def drop(self) -> int:
        """One pass; how many files were given up."""
        await self._offsets.take_granted_in_turns()
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
        for topic, group in list(self._offsets.offsets):
            if group not in self._clients.consumers:
                continue
            queues = self._offsets.offsets.get((topic, group), {})
            some += [(topic, queue_id, offset) for queue_id, offset in queues.items()]
            if len(some) >= OFFSETS_AT_ONCE:
                yield some
                some = []
        if some:
            yield some
