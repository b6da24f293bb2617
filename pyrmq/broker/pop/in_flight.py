"""How many messages of a queue a group has popped without an ack, for popInflightMessageThreshold.
[PopInflightMessageCounter]

What is not acknowledged counts until it becomes visible again: then it goes to the retry topic.
"""

from __future__ import annotations

from collections.abc import Callable

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.offset_file import QueueOfGroup
from pyrmq.net.clock import now_ms


class InFlight:
    """Counts since the start of the broker, only while enablePopMessageThreshold is set. Times are
    ms."""

    def __init__(self, live: LiveConfig, now: Callable[[], int] = now_ms) -> None:
        self._live = live
        self._now = now
        self._out: dict[QueueOfGroup, dict[int, int]] = {}
        """By queue: when messages become visible, and how many then. Pops of a queue end with more
        than the threshold, so there are not many times."""

    def _count(self, key: QueueOfGroup) -> int:
        out = self._out.get(key)
        if out is None:
            return 0
        now = self._now()
        for at in [at for at in out if at <= now]:
            del out[at]
        if not out:
            del self._out[key]
        return sum(out.values())

    def is_full(self, key: QueueOfGroup) -> bool:
        config = self._live.now
        if not config.enable_pop_message_threshold:
            self._out.clear()
            return False
        return self._count(key) > config.pop_inflight_message_threshold

    def popped(self, key: QueueOfGroup, messages: int, visible_at: int) -> None:
        if self._live.now.enable_pop_message_threshold:
            out = self._out.setdefault(key, {})
            out[visible_at] = out.get(visible_at, 0) + messages

    def done(self, key: QueueOfGroup, messages: int, visible_at: int) -> bool:
        """Messages are out no more. Whether pops that were held back may go on."""
        before = self._count(key)
        out = self._out.get(key)
        if out is None or visible_at not in out:
            return False
        out[visible_at] -= messages
        if out[visible_at] <= 0:
            del out[visible_at]
        return self._count(key) <= self._live.now.pop_inflight_message_threshold < before

    def moved(self, key: QueueOfGroup, before: int, after: int) -> None:
        """A message becomes visible at another time. One that is not counted (its handle may be
        forged, or late) is not counted now: so there are no more times than messages that were
        popped."""
        self._count(key)
        out = self._out.get(key)
        if out is None or before not in out:
            return
        out[before] -= 1
        if out[before] <= 0:
            del out[before]
        out[after] = out.get(after, 0) + 1

    def forget(self, key: QueueOfGroup) -> None:
        self._out.pop(key, None)

    def forget_all(self, gone: Callable[[str, str], bool]) -> None:
        """Forgets the (topic, group) that are `gone`."""
        for key in [key for key in self._out if gone(key[0], key[1])]:
            del self._out[key]
