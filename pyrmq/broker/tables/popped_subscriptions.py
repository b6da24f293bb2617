"""What groups without members want: pops state it themselves, for want of a heartbeat.
[ConsumerManager.compensateSubscribeData]"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import trio

from pyrmq.model.subscription import Subscription

KEPT = 600.0
"""Seconds behind the last pop for which it is known. [subscriptionExpiredTimeout]"""
MAX_POPPED = 10_000
"""Groups of topics; those that have not popped for longest go."""
MAX_SHOWN = 1024
"""Longer expressions, in characters, are not kept."""


class PoppedSubscriptions:
    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], tuple[float, Subscription]] = OrderedDict()

    def note(self, group: str, subscription: Subscription) -> None:
        """A group has popped so."""
        if len(subscription.sub_string) > MAX_SHOWN:
            return
        key = group, subscription.topic
        self._known[key] = self._clock() + KEPT, subscription
        self._known.move_to_end(key)
        if len(self._known) > MAX_POPPED:
            self._known.popitem(last=False)

    def find(self, group: str, topic: str) -> Subscription | None:
        known = self._known.get((group, topic))
        return known[1] if known is not None and self._clock() < known[0] else None
