"""What must hold of a group that pops in order: nothing comes before all earlier messages of its
queue were acknowledged, or come with it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests.support.pops import Delivery
from tests.system.simulation.model import Broken


@dataclass(slots=True)
class _Queue:
    asked: set[int] = field(default_factory=set)
    """Offsets of messages that somebody has acknowledged, whether or not it counted."""
    done: int = 0
    """Everything before it is acknowledged for good."""
    waiting: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By offset the pop time and the key of what was acknowledged behind a message that was not."""


@dataclass(slots=True)
class Order:
    queues: dict[int, _Queue] = field(default_factory=lambda: defaultdict(_Queue))
    life: int = 0
    """ms; when the broker began. It knows nothing of batches that were popped before."""
    _began: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """By queue and pop time the life in which a batch was popped, and its first offset."""

    def starts(self) -> None:
        """The broker starts anew: of acknowledgements behind a hole it knows nothing."""
        self.life += 1
        for queue in self.queues.values():
            queue.waiting.clear()

    def power_lost(self) -> None:
        """Offsets may be those of other messages from now on."""
        for queue in self.queues.values():
            queue.done = 0

    def popped(self, got: list[Delivery]) -> None:
        by_queue: dict[int, list[Delivery]] = defaultdict(list)
        for each in got:
            by_queue[each.handle.queue_id].append(each)
        for queue_id, batch in by_queue.items():
            queue = self.queues[queue_id]
            offsets = [each.handle.offset for each in batch]
            first, handle = offsets[0], batch[0].handle
            if offsets != list(range(first, first + len(offsets))):
                raise Broken(f"the messages {offsets} of queue {queue_id} are not in order")
            missing = set(range(first)) - queue.asked
            if missing:
                raise Broken(
                    f"{first} of queue {queue_id} comes, nobody has acknowledged {sorted(missing)}"
                )
            self._began.setdefault((queue_id, handle.pop_time), (self.life, first))
            queue.waiting = {o: w for o, w in queue.waiting.items() if w[0] == handle.pop_time}

    def asked(self, delivery: Delivery) -> None:
        """Somebody has acknowledged it, or has tried to."""
        self.queues[delivery.handle.queue_id].asked.add(delivery.handle.offset)

    def acknowledged(self, delivery: Delivery) -> list[str]:
        """It was acknowledged in time. Returns the messages that are so for good now."""
        handle = delivery.handle
        queue = self.queues[handle.queue_id]
        life, first = self._began[handle.queue_id, handle.pop_time]
        if life != self.life:
            return []
        queue.waiting[handle.offset] = handle.pop_time, delivery.record.body.decode()
        queue.done = max(queue.done, first)
        found = []
        while (at := queue.waiting.get(queue.done)) is not None and at[0] == handle.pop_time:
            found.append(at[1])
            del queue.waiting[queue.done]
            queue.done += 1
        return found
