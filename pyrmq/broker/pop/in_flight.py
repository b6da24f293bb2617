"""How many messages of a queue a group has popped without an ack, for popInflightMessageThreshold.
[PopInflightMessageCounter]"""

from __future__ import annotations

from collections.abc import Callable

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.tables.offset_file import QueueOfGroup


class InFlight:
    """Counts since the start of the broker, only while enablePopMessageThreshold is set."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live
        self._counts: dict[QueueOfGroup, int] = {}

    def is_full(self, key: QueueOfGroup) -> bool:
        config = self._live.now
        if not config.enable_pop_message_threshold:
            self._counts.clear()
            return False
        return self._counts.get(key, 0) > config.pop_inflight_message_threshold

    def popped(self, key: QueueOfGroup, messages: int) -> None:
        if self._live.now.enable_pop_message_threshold:
            self._counts[key] = self._counts.get(key, 0) + messages

    def done(self, key: QueueOfGroup, messages: int) -> bool:
        """Messages were acknowledged, or went to the retry topic. Whether pops that were held back
        may go on."""
        before = self._counts.get(key)
        if before is None:
            return False
        left = before - messages
        if left > 0:
            self._counts[key] = left
        else:
            del self._counts[key]
        most = self._live.now.pop_inflight_message_threshold
        return left <= most < before

    def forget(self, key: QueueOfGroup) -> None:
        self._counts.pop(key, None)

    def forget_all(self, gone: Callable[[str, str], bool]) -> None:
        """Forgets the (topic, group) that are `gone`."""
        for key in [key for key in self._counts if gone(key[0], key[1])]:
            del self._counts[key]
