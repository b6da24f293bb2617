"""Messages that were set aside, and whether one of them was delivered after all.

What was set aside is remembered, from its topic at start. Whether it was delivered is remembered as
well; what happened before the start is looked up in the index, once that has everything that was in
the log then.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from pyrmq.engine import Slice, Store
from pyrmq.errors import ResponseError, SystemBusyError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.message import UNIQ_KEY, ReceivedMessage, decode_record, decode_records
from pyrmq.model.names import CHECK_MAX_TOPIC
from pyrmq.model.transaction import REAL_TOPIC

log = logging.getLogger(__name__)

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
        self._read_aside()

    def _read_aside(self) -> None:
        """The newest messages of the overflow topic."""
        offset, end = self._store.queue_range(CHECK_MAX_TOPIC, 0)
        offset = max(offset, end - REMEMBERED)
        while offset < end:
            got = self._store.get(CHECK_MAX_TOPIC, 0, offset)
            for piece in got.slices:
                for message in decode_records(
                    memoryview(piece),
                    lambda e: log.error("overflow topic: %s", e),
                    inflate_body=False,
                ):
                    self._aside.note(_key(message), message.commit_log_offset)
            if got.next_offset <= offset:
                return
            offset = got.next_offset

    def set_aside(self, unique_key: str, born: int, phys: int) -> None:
        self._aside.note((unique_key, born), phys)

    def delivered(self, half: ReceivedMessage, phys: int) -> None:
        self._delivered.note(_key(half), phys)

    def resumed(self, half: ReceivedMessage) -> None:
        self._aside.pop(_key(half), None)

    def find(self, half: ReceivedMessage) -> int | None:
        """Where in the overflow topic the message of a half stands; None if it was never set aside,
        or was delivered after all."""
        phys = self._aside.get(_key(half))
        return None if phys is None or self.was_delivered(half, phys) else phys

    def was_delivered(self, half: ReceivedMessage, aside: int) -> bool:
        """Whether a committed message stands in the real topic of a half that was set aside at a
        physical offset. SystemBusyError while nobody can tell."""
        if _key(half) in self._delivered:
            return True
        if aside >= self._end_at_start:
            return False  # set aside since the start, and not delivered since
        self._wait_for_index()
        topic, key = half.properties[REAL_TOPIC], half.properties[UNIQ_KEY]
        found: list[Slice] = self._store.query_message(topic, key)[0]
        copies = [decode_record(memoryview(one), inflate_body=False) for one in found]
        return any(
            m.born_timestamp == half.born_timestamp and m.sys_flag & TYPE_MASK == COMMIT_FLAG
            for m in copies
        )

    def _wait_for_index(self) -> None:
        if self._index_complete:
            return
        stats = self._store.stats()
        if stats["indexedWhere"] < self._end_at_start:
            raise SystemBusyError("the index is still being made")
        if not stats["indexFiles"]:
            raise ResponseError(
                "without an index (messageIndexEnable) it cannot be told whether this message was "
                "delivered after it was set aside",
                ResponseCode.SYSTEM_ERROR,
            )
        self._index_complete = True


def _key(half: ReceivedMessage) -> Key:
    return half.properties.get(UNIQ_KEY, ""), half.born_timestamp
