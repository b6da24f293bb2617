"""Discarded messages, which may still be decided: by a late COMMIT, or taken up again.

What stands in TRANS_CHECK_MAX_TIME_TOPIC is remembered, from the topic itself at start. What became
of such a message before the start is looked up in the index, once that has everything that was in
the log then.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from pyrmq.engine import Slice, Store
from pyrmq.errors import ProtocolError, ResponseError, SystemBusyError
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import ReceivedMessage, decode_record, decode_records
from pyrmq.model.transaction import PRODUCER_GROUP, REAL_TOPIC

log = logging.getLogger(__name__)

COMMIT_FLAG = 0x8
TYPE_MASK = 0xC
REMEMBERED = 100_000
"""Messages that are remembered; older ones are looked up in the index."""

Key = tuple[str, int, str, str]
"""UNIQ_KEY, bornTimestamp, producer group and real topic: all copies of one half share them."""


class _Memory(OrderedDict[Key, int]):
    full = False

    def note(self, key: Key, phys: int) -> None:
        self[key] = phys
        self.move_to_end(key)
        if len(self) > REMEMBERED:
            self.full = True
            self.popitem(last=False)


class Discarded:
    """Physical offsets in TRANS_CHECK_MAX_TIME_TOPIC of messages that nobody has decided yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._end_at_start = store.stats()["maxPhyOffset"]
        self._index_complete = False
        self._open = _Memory()
        self._closed = _Memory()
        self._read_topic()

    def _read_topic(self) -> None:
        offset, end = self._store.queue_range(CHECK_MAX_TOPIC, 0)
        if end - offset > REMEMBERED:
            self._open.full = True
            offset = end - REMEMBERED
        while offset < end:
            got = self._store.get(CHECK_MAX_TOPIC, 0, offset)
            for piece in got.slices:
                for message in decode_records(memoryview(piece), _log_damage, inflate_body=False):
                    self._open.note(key_of(message), message.commit_log_offset)
            if got.next_offset <= offset:
                return
            offset = got.next_offset

    def add(self, key: Key, phys: int) -> None:
        self._closed.pop(key, None)
        self._open.note(key, phys)

    def close(self, half: ReceivedMessage) -> None:
        """It was delivered, taken up again or rolled back."""
        key = key_of(half)
        self._closed.note(key, self._open.pop(key, 0))

    def find(self, half: ReceivedMessage) -> int | None:
        """Physical offset in TRANS_CHECK_MAX_TIME_TOPIC of the message of a half (or of one of that
        topic); None if it was never discarded or is decided. SystemBusyError while that is not
        known."""
        key = key_of(half)
        if not key[0] or key in self._closed:
            return None
        phys = self._open.get(key)
        if phys is None and self._open.full:
            phys = max(self._places(CHECK_MAX_TOPIC, half), default=None)
        if phys is None:
            return None
        if phys < self._end_at_start and self._decided_before(half, phys):
            self.close(half)
            return None
        return phys

    def delivered(self, half: ReceivedMessage) -> bool | None:
        """Whether the index has the committed message of a half; None while it cannot say."""
        try:
            return bool(self._places(half.properties[REAL_TOPIC], half, committed=True))
        except ResponseError:
            return None

    def _decided_before(self, half: ReceivedMessage, phys: int) -> bool:
        """Whether a message that was discarded before the start was delivered or taken up again."""
        delivered = self._places(half.properties[REAL_TOPIC], half, committed=True)
        again = self._places(HALF_TOPIC, half)
        return bool(delivered) or any(place > phys for place in again)

    def _places(self, topic: str, half: ReceivedMessage, *, committed: bool = False) -> list[int]:
        """Physical offsets of the copies of a half in a topic, by the index."""
        self._wait_for_index()
        found: list[Slice] = self._store.query_message(topic, half.properties[UNIQ_KEY])[0]
        messages = [decode_record(memoryview(one), inflate_body=False) for one in found]
        return [
            m.commit_log_offset
            for m in messages
            if key_of(m) == key_of(half)
            and (not committed or m.sys_flag & TYPE_MASK == COMMIT_FLAG)
        ]

    def _wait_for_index(self) -> None:
        if self._index_complete:
            return
        stats = self._store.stats()
        if stats["indexedWhere"] < self._end_at_start:
            raise SystemBusyError("the index is still being made")
        if not stats["indexFiles"]:
            raise ResponseError(
                "without an index (messageIndexEnable) it is not known whether this message was "
                "decided about after it was discarded",
                ResponseCode.SYSTEM_ERROR,
            )
        self._index_complete = True


def key_of(half: ReceivedMessage) -> Key:
    p = half.properties
    return (
        p.get(UNIQ_KEY, ""),
        half.born_timestamp,
        p.get(PRODUCER_GROUP, ""),
        p.get(REAL_TOPIC, ""),
    )


def _log_damage(damage: ProtocolError) -> None:
    log.error("a message of %s cannot be read: %s", CHECK_MAX_TOPIC, escape(damage))
