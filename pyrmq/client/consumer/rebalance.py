"""Which queues of a topic are this member's: asked again and again. [RebalanceImpl]

Each topic has a task of its own: one that does not exist, or whose broker hangs, holds up no other.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

import trio

from pyrmq.client.consumer.held_queues import HeldQueues
from pyrmq.client.consumer.reports import Reports
from pyrmq.client.consumer.sharing import Share, Sharing
from pyrmq.client.instance import ClientInstance
from pyrmq.errors import PyrmqError, TopicNotExistError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.names import RETRY_PREFIX
from pyrmq.model.route import TopicRoute
from pyrmq.model.topic import PERM_READ
from pyrmq.net.address import Address
from pyrmq.net.backoff import Backoff

log = logging.getLogger(__name__)

INTERVAL = 20.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
"""Seconds until the next try when something is missing."""
CHANGE_WAIT = (0.0, 0.1)
"""Seconds, at random between these, that a change of members waits for further changes: many
consumers may start at once."""
RECONNECT_WAIT = 2.5
"""After a broker came back, sharing waits so many seconds until other members have reconnected: the
broker lists only those that have. More than the longest pause of `registration`."""
REPORT_AFTER = 0.4
"""A reason for waiting is logged once the next try is this many seconds away: a topic that was
made just now takes a moment to reach the name server."""


class Rebalance:
    """`on_route` is called when the brokers of a topic are known, `assign` with each share."""

    def __init__(
        self,
        client: ClientInstance,
        held: HeldQueues,
        reports: Reports,
        sharing: Sharing,
        assign: Callable[[str, Share], Awaitable[None]],
        *,
        interval: float = INTERVAL,
        on_route: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._held = held
        self._reports = reports
        self._sharing = sharing
        self._assign = assign
        self._interval = interval
        self._on_route = on_route
        self._events: dict[str, trio.Event] = {}
        self._shared: dict[str, trio.Event] = {}
        """Set once a topic was shared, or does not exist."""
        self._others_until = float("-inf")
        self._seen: set[Address] = set()
        client.incoming.on_ids_changed.append(self.wake)
        client.on_greeted.append(self._greeted)

    def wake(self) -> None:
        """All topics are shared anew, now."""
        for event in self._events.values():
            event.set()

    def _greeted(self, address: Address) -> None:
        if address in self._seen:
            self._others_until = trio.current_time() + RECONNECT_WAIT
            self._held.doubt()
        self._seen.add(address)
        self.wake()

    async def shared(self, topic: str) -> None:
        """Returns when it is decided for the first time which queues are this member's."""
        await self._shared.setdefault(topic, trio.Event()).wait()

    async def run(self, topic: str) -> None:
        """Shares a topic until it is cancelled."""
        fresh, backoff = True, Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        shared = self._shared.setdefault(topic, trio.Event())
        while True:
            event = self._events[topic] = trio.Event()
            try:
                await self._client.routes.route(topic, fresh=fresh)
                self._on_route()
                await trio.sleep(max(self._others_until - trio.current_time(), 0))
                await self._once(topic)
            except PyrmqError as e:
                why = str(e)
                if isinstance(e, TopicNotExistError):
                    shared.set()
                    if backoff.upcoming >= REPORT_AFTER:
                        why = await self._client.routes.why_missing(e)
                self._failed(topic, why, backoff)
                fresh, wait = True, backoff.next()
            except Exception as e:
                log.exception(
                    "the strategy of topic %s failed", escape(topic), extra=about(topic=topic)
                )
                self._failed(topic, f"{type(e).__name__}: {e}", backoff)
                fresh, wait = False, backoff.next()
            else:
                self._reports.resolved(f"topic {topic}")
                shared.set()
                backoff.reset()
                fresh, wait = False, self._interval
            with trio.move_on_after(wait):
                await event.wait()
                backoff.reset()
                await trio.sleep(random.uniform(*CHANGE_WAIT))

    def _failed(self, topic: str, why: str, backoff: Backoff) -> None:
        # A retry topic is made by the broker when it hears of the group, or never.
        level = logging.INFO if topic.startswith(RETRY_PREFIX) else logging.WARNING
        if backoff.upcoming >= REPORT_AFTER:
            self._reports.waiting(f"topic {topic}", why, level)

    async def _once(self, topic: str) -> None:
        route = await self._client.routes.route(topic)
        share = await self._sharing.share(topic, route)
        self._report_share(topic, share)
        self._report_unreadable(topic, route)
        await self._assign(topic, share)
        self._held.recheck(topic)

    def _report_unreadable(self, topic: str, route: TopicRoute) -> None:
        """Says once that nothing can come from some brokers of a topic."""
        subject = f"queues of topic {topic}"
        closed = sorted({q.broker_name for q in route.queues if not q.perm & PERM_READ})
        if not closed and any(q.read_queue_nums > 0 for q in route.queues):
            self._reports.resolved(subject)
            return
        where = ", ".join(closed) or "any broker"
        self._reports.waiting(
            subject,
            f"none may be read on {where}: the permission of the topic there is without read "
            f"(`pyrmq admin topic set-perm {topic} 6 -c CLUSTER` allows reading and writing)",
        )

    def _report_share(self, topic: str, share: Share) -> None:
        subject = f"a share of topic {topic}"
        if share.why_empty:
            self._reports.waiting(subject, share.why_empty, logging.INFO)
        else:
            self._reports.resolved(subject)
