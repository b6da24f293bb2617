"""What a member does with its share of a topic: queues that it pulls from now on, and queues that
it pops. [RebalanceImpl.updateMessageQueueAssignment]"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from pyrmq.client.consumer.held_queues import HeldQueues
from pyrmq.client.consumer.pop.pop_queues import PopQueues
from pyrmq.client.consumer.sharing import Share
from pyrmq.client.instance import ClientInstance
from pyrmq.model.names import RETRY_PREFIX
from pyrmq.model.pop import retry_topic_v1, retry_topic_v2
from pyrmq.model.subscription import ALL, Subscription
from pyrmq.net.clock import now_ms
from pyrmq.net.tasks import Tasks

SWITCH_WAIT = 5.0
"""Seconds that a topic which is popped from now on waits for the offsets of its pulled queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentEvents:
    """What shares a topic among the group from now on, and what ends that."""

    share: Callable[[str], None]
    unshare: Callable[[str], None]


class Assignments:
    """Those of one member. `switches`: a broker may have a topic pulled and popped by turns."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        subscriptions: dict[str, Subscription],
        tasks: Tasks,
        held: HeldQueues,
        pops: PopQueues | None,
        events: AssignmentEvents,
        *,
        switches: bool,
    ) -> None:
        self._client = client
        self._group = group
        self._subs = subscriptions
        self._tasks = tasks
        self._held = held
        self._pops = pops
        self._events = events
        self._switches = switches

    async def assign(self, topic: str, share: Share) -> None:
        """From now on this is the member's share. If the topic was pulled and is popped now, the
        offsets of what was consumed are written first, because pops begin there. If it was popped
        and is pulled now, what was popped is still consumed."""
        self._held.assign(topic, share.pulled)
        if self._pops is None:
            return
        if share.popped:
            with trio.move_on_after(SWITCH_WAIT):  # or else some messages come twice
                await self._held.given_up(topic)
        self._pops.assign(topic, share.popped)
        if self._switches and bool(share.popped) != bool(share.pulled):
            self._share_retries(topic, pulled=not share.popped)

    def _share_retries(self, topic: str, *, pulled: bool) -> None:
        """Messages that were popped and not acknowledged come to a retry topic of their own. A pop
        of the topic reads that as well, a pull does not."""
        if topic.startswith(RETRY_PREFIX):
            return
        for name in (retry_topic_v1(topic, self._group), retry_topic_v2(topic, self._group)):
            if pulled == (name in self._subs):
                continue
            if pulled:
                self._subs[name] = Subscription.parse(name, ALL, now_ms())
                self._events.share(name)
            else:
                self._events.unshare(name)
                del self._subs[name]
            self._tasks.start_soon(self._client.heartbeat)
