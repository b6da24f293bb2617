"""Orderly pops: what an ack or a change of the invisible time does to a queue's batch, and the task
that wakes pops when messages become visible again. [ConsumerOrderInfoManager, QueueLockManager]

An ack that moves the committed offset leaves a record in the log, so a kill does not take it back.
One behind a message without ack moves nothing yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio

from pyrmq.broker.tables.consumer_order import OTHER_POP, UNKNOWN, ConsumerOrder
from pyrmq.broker.tables.offset_file import QueueOfGroup
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.engine import Pops
from pyrmq.errors import MessageIllegalError
from pyrmq.net.clock import now_ms


class OrderlyPops:
    """`visible(topic, group, queue_id)` wakes the pops that wait for a queue."""

    def __init__(
        self,
        order: ConsumerOrder,
        offsets: OffsetTable,
        pops: Pops,
        visible: Callable[[str, str, int], None],
    ) -> None:
        self.order = order
        self._offsets = offsets
        self._pops = pops
        self._visible = visible
        self._news = trio.Event()
        self._end = 0
        """Where the last record ends: an ack that comes twice waits for the first one."""

    def changed(self) -> None:
        """A batch was recorded or changed: a queue may become free sooner."""
        self._news.set()

    def ack(self, key: QueueOfGroup, offset: int, pop_time: int) -> int:
        """A message is done. Returns what the log has to be confirmed up to, 0 for nothing.
        MESSAGE_ILLEGAL for a message that is in no batch."""
        committed = self._offsets.query(*key)
        if committed is None or offset < committed:
            return self._end
        following = self.order.ack(*key, offset, pop_time, committed)
        if following == OTHER_POP:
            return 0
        topic, group, queue_id = key
        if following == UNKNOWN:
            raise MessageIllegalError(
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{committed}, "
                f"commit:{offset}: it was not popped in order"
            )
        end = 0
        if following > committed:
            end = self._pops.done_in_order(topic, queue_id, group, following, now_ms())
            self._end = end
            self._offsets.commit(topic, group, queue_id, following)
        self.changed()
        if not self.order.is_blocked(*key, now_ms()):
            self._visible(*key)
        return end

    def change(self, key: QueueOfGroup, offset: int, pop_time: int, visible_at: int) -> bool:
        """A message becomes visible at another time; False if it is done, or of another pop."""
        committed = self._offsets.query(*key)
        if committed is None or offset < committed:
            return False
        if not self.order.change(*key, offset, pop_time, visible_at):
            return False
        self.changed()
        if not self.order.is_blocked(*key, now_ms()):
            self._visible(*key)
        return True

    async def run(self) -> None:
        """Wakes the pops of a queue as its messages become visible, until cancelled."""
        while True:
            self._news = trio.Event()
            for key in self.order.take_free(now_ms()):
                self._visible(*key)
            at = self.order.next_free()
            wait = math.inf if at is None else max(at - now_ms(), 1) / 1000
            with trio.move_on_after(min(wait, 5.0)):
                await self._news.wait()
