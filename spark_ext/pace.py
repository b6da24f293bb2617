"""When a micro-batch is due that waits for messages: minOffsetsPerTrigger and maxTriggerDelay."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_ext.options import Options


class Pace:
    """Holds micro-batches back until there are `least` messages, but none longer than `delay` ms
    since the last one that was let go.

    The first one of a query waits for nothing, nor does any of Trigger.AvailableNow: what is there
    then is all that it may read. [KafkaMicroBatchStream.delayBatch, KafkaSourceProvider]
    """

    def __init__(
        self, least: int | None, delay: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.least = least
        self._delay = delay / 1000
        self._clock = clock
        self._let_go: float | None = None
        self._pinned = False

    @classmethod
    def of(cls, options: Options) -> Pace:
        return cls(options["minOffsetsPerTrigger"], options["maxTriggerDelay"])

    def __reduce__(self) -> tuple[type[Pace], tuple[int | None, int]]:
        # Travels to workers with its reader, where it is not used.
        return Pace, (self.least, round(self._delay * 1000))

    def pin(self) -> None:
        """From now on everything that is there is read."""
        self._pinned = True

    def holds(self, count: Callable[[int], int]) -> bool:
        """Whether to wait. `count(n)` is how many messages there are, counted up to n at least."""
        if self.least is None or self._pinned:
            return False
        now = self._clock()
        late = self._let_go is None or now >= self._let_go + self._delay
        found = count(1 if late else self.least)
        if found < (1 if late else self.least):
            return True
        self._let_go = now
        return False
