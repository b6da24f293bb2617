"""Messages that were set aside, and whether one of them was delivered after all.

What happened since the start is remembered; what happened before is looked up in the index, once
that has everything that was in the log at the start.
"""

from __future__ import annotations

from collections import OrderedDict

from pyrmq.engine import Slice, Store
from pyrmq.errors import ResponseError, SystemBusyError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.message import UNIQ_KEY, ReceivedMessage, decode_record
from pyrmq.model.names import CHECK_MAX_TOPIC
from pyrmq.model.transaction import REAL_TOPIC

COMMIT_FLAG = 0x8
TYPE_MASK = 0xC
REMEMBERED = 100_000
"""Messages set aside, and such delivered late, that are remembered."""

Key = tuple[str, int]
"""UNIQ_KEY and bornTimestamp: all copies of one half share them."""


class _Memory(OrderedDict[Key, int]):
    def note(self, key: Key, phys: int) -> None:
        self[key] = phys
        self.move_to_end(key)
        while len(self) > REMEMBERED:
            self.popitem(last=False)


class LateDeliveries:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._end_at_start = store.stats()["maxPhyOffset"]
        self._index_complete = False
        self._aside = _Memory()
        self._delivered = _Memory()

    def set_aside(self, unique_key: str, born: int, phys: int) -> None:
        self._aside.note((unique_key, born), phys)

    def delivered(self, half: ReceivedMessage, phys: int) -> None:
        self._delivered.note(_key(half), phys)

    def resumed(self, half: ReceivedMessage) -> None:
        self._aside.pop(_key(half), None)

    def find(self, half: ReceivedMessage) -> int | None:
        """Where in the overflow topic the message of a half stands; None if it was never set aside,
        or was delivered after all. SystemBusyError while nobody can tell."""
        _, end = self._store.queue_range(CHECK_MAX_TOPIC, 0)
        if not end or not half.properties.get(UNIQ_KEY):
            return None
        known = self._aside.get(_key(half))
        if known is None:
            aside = self._older(CHECK_MAX_TOPIC, half)
            if not aside:
                return None
            known = aside[-1].commit_log_offset
        return None if self.was_delivered(half) else known

    def was_delivered(self, half: ReceivedMessage) -> bool:
        """Whether a committed message of this half stands in its real topic."""
        if _key(half) in self._delivered:
            return True
        copies = self._older(half.properties[REAL_TOPIC], half)
        return any(m.sys_flag & TYPE_MASK == COMMIT_FLAG for m in copies)

    def _older(self, topic: str, half: ReceivedMessage) -> list[ReceivedMessage]:
        """Messages of this half that stood in a topic at the start."""
        self._wait_for_index()
        found: list[Slice] = self._store.query_message(topic, half.properties[UNIQ_KEY])[0]
        messages = [decode_record(memoryview(one), inflate_body=False) for one in found]
        return [m for m in messages if m.born_timestamp == half.born_timestamp]

    def _wait_for_index(self) -> None:
        if self._index_complete or not self._end_at_start:
            return
        stats = self._store.stats()
        if stats["indexedWhere"] < self._end_at_start:
            raise SystemBusyError("the index is still being made")
        if not stats["indexFiles"]:
            raise ResponseError(
                "without an index (messageIndexEnable) it cannot be told whether this half message "
                "was set aside",
                ResponseCode.SYSTEM_ERROR,
            )
        self._index_complete = True


def _key(half: ReceivedMessage) -> Key:
    return half.properties.get(UNIQ_KEY, ""), half.born_timestamp
