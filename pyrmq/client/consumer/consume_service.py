"""What both ways of consuming with a listener share: how the listener is called, what its answer
means, and how workers end."""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import trio

from pyrmq.client.checks import check_whole
from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.client.user_functions import call_in_thread, is_async
from pyrmq.errors import ClientError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import ReceivedMessage

log = logging.getLogger(__name__)

Listener = Callable[[Any], Any]
"""A function of a message, or of a list of messages with a batch size."""
MAX_LEVEL = 2**31 - 1


class ConsumeResult(Enum):
    """A listener may return it; None means SUCCESS, and any other value is a failure.
    [ConsumeConcurrentlyStatus, ConsumeOrderlyStatus]"""

    SUCCESS = "consumed"
    RECONSUME_LATER = "it comes again later, from the broker"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "the same comes again after a moment, and nothing before it"

    def __str__(self) -> str:
        return self.name


class ReconsumeLater(Exception):
    """A listener raises it to get its message again later, without a traceback in the log.

    delay_level: as `Message.delay_time_level`; 0: the broker chooses by the number of deliveries;
    -1: the message goes to the group's dead-letter topic at once. Raises ClientError if the level
    is invalid.
    """

    def __init__(self, text: str = "", *, delay_level: int = 0) -> None:
        super().__init__(text)
        check_whole("delay_level", delay_level, -1, MAX_LEVEL)
        self.delay_level = delay_level


class Caller:
    """Calls a listener: an async one in the worker's task, a plain one in a thread; there are as
    many threads as workers. A cancellation leaves such a thread running."""

    def __init__(self, listener: Listener, group: str, *, batch: bool, workers: int) -> None:
        self._listener = listener
        self._group = group
        self.batch = batch
        """Whether the listener gets lists, also for one message."""
        self._async = is_async(listener)
        self.direct = listener if self._async and not batch else None
        """The listener itself, if the worker's task calls it with each message."""
        self._threads = trio.CapacityLimiter(workers)

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> object:
        argument = list(messages) if self.batch else messages[0]
        if self._async:
            return await self._listener(argument)
        answer = await call_in_thread(self._listener, argument, limiter=self._threads, abandon=True)
        return await answer if inspect.isawaitable(answer) else answer

    def failed(self, messages: Sequence[ReceivedMessage]) -> None:
        """Logs the current exception as an error of the listener."""
        first, others = messages[0], len(messages) - 1
        text = described(first) + (f" and {others} after it" if others else "")
        log.exception(
            "listener of group %s failed on %s (delivery %d)",
            escape(self._group),
            escape(text),
            first.reconsume_times + 1,
            extra=about(
                queue=first.queue_id, topic=first.topic, group=self._group, message_id=first.msg_id
            ),
        )


def described(message: ReceivedMessage) -> str:
    """A message's name in logs; escape it."""
    keys = f", keys {' '.join(message.keys):.200}" if message.keys else ""
    place = f"broker {message.broker_name}, queue {message.queue_id}, offset {message.queue_offset}"
    return f"message {message.msg_id:.100} of topic {message.topic} ({place}{keys})"


def consumed(answer: object, count: int, batch: bool) -> int:
    """The number of consumed messages, counted from the first of `count`, that a listener's result
    means. A listener for batches may return that number (the index of the first unacknowledged
    message), also for a batch of one. Raises ClientError for an invalid result; then no message is
    consumed."""
    if answer is None or answer is ConsumeResult.SUCCESS:
        return count
    if isinstance(answer, ConsumeResult):
        return 0
    if batch and type(answer) is int and 0 <= answer <= count:
        return answer
    number = f", or how many of the messages are consumed (0 to {count})" if batch else ""
    raise ClientError(
        f"the listener returned {answer!r:.200}, so its messages count as failed: it must return "
        f"None or ConsumeResult.SUCCESS for what is consumed, ConsumeResult.RECONSUME_LATER for "
        f"what is to come again{number}"
    )


class ConsumeService(ABC):
    """Workers look at `closing` and call `rested` whenever something of theirs has ended."""

    def __init__(self) -> None:
        self.closing = False
        self._resting = trio.Event()

    @abstractmethod
    def is_busy(self) -> bool:
        """Whether something is under way that has to end first."""

    @abstractmethod
    def start(self) -> None:
        """Starts the workers."""

    @abstractmethod
    def deliver(self, process: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Messages of one queue, in order."""

    def rested(self) -> None:
        if not self.is_busy():
            self._resting.set()

    async def close(self, grace: float) -> None:
        """No listener is called any more; returns when those under way have returned, or time is
        up."""
        self.closing = True
        self._resting = trio.Event()
        self.rested()
        with trio.move_on_after(grace):
            await self._resting.wait()
