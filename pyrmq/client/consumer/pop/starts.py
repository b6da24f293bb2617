"""Where a group begins in queues that it pops. [ConsumeInitMode]"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import trio

from pyrmq.client.consumer.offsets import OffsetStore, StartRule
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import ClientError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import MessageQueue
from pyrmq.net.client.pop_requests import ANY_QUEUE

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Found:
    """`left`: queues without a known start; None: it is not known which queues there are."""

    left: list[MessageQueue] | None = None
    lock: trio.Lock = field(default_factory=trio.Lock)


class PopStarts:
    """Writes the offsets where a group begins before it pops. A broker would choose them when it
    first looks into each queue, which may be much later, and knows no times. A queue that is added
    after that is popped from its first message."""

    def __init__(self, client: ClientInstance, store: OffsetStore, rule: StartRule) -> None:
        self._client = client
        self._store = store
        self._rule = rule
        self._found: dict[MessageQueue, _Found] = {}
        """By what is popped."""

    def is_known(self, queue: MessageQueue) -> bool:
        """Whether `begin` has returned before."""
        found = self._found.get(queue)
        return found is not None and found.left == []

    async def begin(self, queue: MessageQueue) -> None:
        """Returns when the group has an offset in a queue, or in all of a broker (ANY_QUEUE). After
        an error another call goes on where this one stopped. PyrmqError."""
        found = self._found.setdefault(queue, _Found())
        async with found.lock:
            if found.left is None:
                found.left = await self._queues_of(queue)
            while found.left:
                await self._begin_in(found.left[-1])
                found.left.pop()

    async def _queues_of(self, queue: MessageQueue) -> list[MessageQueue]:
        if queue.queue_id != ANY_QUEUE:
            return [queue]
        route = await self._client.routes.route(queue.topic)
        queues = route.subscribe_queues(queue.topic)
        return sorted(q for q in queues if q.broker_name == queue.broker_name)

    async def _begin_in(self, queue: MessageQueue) -> None:
        if await self._store.read(queue) is None:
            start = await self._rule.start(queue, None)
            log.info("%s is popped from offset %d", escape(queue), start, extra=about(queue=queue))
            if not await self._store.write(queue, start):
                raise ClientError(f"the offset of {queue} is not written")
