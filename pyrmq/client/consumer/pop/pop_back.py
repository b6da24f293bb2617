"""What becomes of popped messages that a listener failed on: they stay invisible for a while, or go
to the group's dead-letter topic. [ConsumeMessagePopConcurrentlyService]

RocketMQ's client acknowledges a message that was delivered too often, so that it is gone. Here it
goes to the dead-letter topic first, as it does from consumers that pull.
"""

from __future__ import annotations

import logging

from pyrmq.client.consumer.pop.acks import Acks
from pyrmq.client.consumer.pop.popped import Popped
from pyrmq.client.consumer.send_back import BROKERS_CHOICE, NEVER, SendBack
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import ReceivedMessage

log = logging.getLogger(__name__)

STEPS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds that a message stays invisible, by its delay level or the number of its deliveries.
[popDelayLevel]"""


class PopBack:
    """Gives popped messages back. `max_times`: deliveries after the first one."""

    def __init__(self, acks: Acks, send_back: SendBack, max_times: int) -> None:
        self._acks = acks
        self._send_back = send_back
        self._max_times = max_times

    def is_dead(self, message: ReceivedMessage, level: int = BROKERS_CHOICE) -> bool:
        """Whether a failed message goes to the dead-letter topic."""
        return level == NEVER or message.reconsume_times >= self._max_times

    def is_overdue(self, message: ReceivedMessage) -> bool:
        """Whether a message is not consumed any more: it should be a dead letter already."""
        return message.reconsume_times > self._max_times

    async def __call__(
        self, popped: Popped, message: ReceivedMessage, level: int = BROKERS_CHOICE
    ) -> None:
        """Returns when the broker has answered, or the invisible time is over."""
        offset = message.queue_offset
        if self.is_dead(message, level):
            try:
                await self._send_back(popped.queue, message, NEVER)
            except PyrmqError as e:
                log.warning(
                    "message %s is not put aside, it comes again: %s",
                    escape(message.msg_id),
                    escape(e),
                    extra=about(message_id=message.msg_id),
                )
            else:
                popped.finish(offset)
                return
        step = level if level > 0 else message.reconsume_times
        await self._acks.change(popped, offset, STEPS[min(step, len(STEPS) - 1)])
        popped.release(offset)
