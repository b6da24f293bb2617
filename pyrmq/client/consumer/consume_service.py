"""What both ways of consuming with workers share: how they come to their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import trio

from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.model.message import ReceivedMessage


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
