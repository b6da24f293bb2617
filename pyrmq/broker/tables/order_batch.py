"""One batch of an orderly pop: which of its messages are acknowledged, and when the others become
visible. Decides; keeps no clock and does no I/O. [ConsumerOrderInfoManager.OrderInfo]

A queue of a group has one batch at a time. It moves between these states:

    state    means                                         left by
    blocked  a message without ack is invisible still      its time; ack of the last such message
    free     messages without ack, all of them visible     the next pop, which replaces the batch
    done     every message is acknowledged                 the next pop
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any, Self

from pyrmq.model.topic import as_int

MAX_MESSAGES = 63
"""Messages of a batch: each has a bit of a Java long that is never negative. A pop takes 32 at
most."""
MAX_ATTEMPT_ID = 255
"""Characters of an attempt id that are kept."""
MAX_COUNT = (1 << 31) - 1
"""How often a message was consumed, at most: a Java int."""
_MAX = (1 << 63) - 1
_NONE = -1
UNKNOWN = -1
"""Of an ack: the batch has no such offset."""
OTHER_POP = -2
"""Of an ack: it is of another pop than the batch, and changes nothing."""


class State(Enum):
    BLOCKED = "blocked"
    FREE = "free"
    DONE = "done"


@dataclass(slots=True)
class Batch:
    """Times are ms. `offsets` are in order, and there is at least one."""

    pop_time: int
    invisible_time: int
    """0 in the file of a broker that did not keep it: the next pop says what it was."""
    offsets: list[int]
    last_consumed: int
    """When it was popped."""
    attempt_id: str | None = None
    acked: int = 0
    """A bit by message, the first one lowest."""
    visible: dict[int, int] = field(default_factory=dict)
    """By offset when the message becomes visible, where a consumer changed that."""
    consumed: dict[int, int] = field(default_factory=dict)
    """By offset how often the message was popped before; none that were not."""

    def state(self, now: int) -> State:
        at = self.free_at()
        if at is None:
            return State.DONE
        return State.BLOCKED if now < at else State.FREE

    def free_at(self) -> int | None:
        """When the last message without ack becomes visible; None: there is none."""
        normal = self.pop_time + self.invisible_time
        return max((self.visible.get(offset, normal) for offset in self._waiting()), default=None)

    def _waiting(self) -> list[int]:
        return [offset for i, offset in enumerate(self.offsets) if not self.acked >> i & 1]

    def next_offset(self) -> int:
        """The offset to commit: the first without ack, or behind the last."""
        return next(iter(self._waiting()), self.offsets[-1] + 1)

    def ack(self, offset: int, pop_time: int) -> int:
        """The offset to commit now; UNKNOWN or OTHER_POP."""
        if pop_time != self.pop_time:
            return OTHER_POP
        if offset not in self.offsets:
            return UNKNOWN
        self.acked |= 1 << self.offsets.index(offset)
        return self.next_offset()

    def settle(self, committed: int) -> bool:
        """Whatever stands before the committed offset is acknowledged; whether that is new."""
        before = self.acked
        for i, offset in enumerate(self.offsets):
            if offset < committed:
                self.acked |= 1 << i
        return self.acked != before

    def change(self, offset: int, pop_time: int, visible_at: int) -> bool:
        """Sets when a message becomes visible; False if it is of another pop or batch."""
        if pop_time != self.pop_time or offset not in self.offsets:
            return False
        self.visible[offset] = min(max(visible_at, 0), _MAX)
        return True

    def counts_after(self, before: Batch) -> dict[int, int]:
        """How often messages of this batch were popped, `before` being the one that it replaces. A
        pop that repeats an attempt counts for nothing."""
        known = {o: before.consumed.get(o, 0) for o in self.offsets if o in before.offsets}
        if self.attempt_id is not None and self.attempt_id == before.attempt_id:
            return {offset: count for offset, count in known.items() if count}
        return {offset: min(count + 1, MAX_COUNT) for offset, count in known.items()}

    def to_json(self) -> dict[str, Any]:
        """The members in the order in which fastjson writes them. Offsets behind the first are
        distances from it."""
        first = self.offsets[0]
        row = {
            "a": self.attempt_id,
            "cm": self.acked,
            "i": self.invisible_time,
            "l": self.last_consumed,
            "o": [first, *(offset - first for offset in self.offsets[1:])],
            "oc": self.consumed,
            "ot": self.visible or None,
            "popTime": self.pop_time,
        }
        return {key: value for key, value in row.items() if value is not None}

    @classmethod
    def from_json(cls, value: Any) -> Self | None:
        """The batch of a file, None for what is none."""
        if not isinstance(value, dict):
            return None
        offsets = _offsets(value.get("o"))
        times = [as_int(value.get(k), _NONE) for k in ("popTime", "l")]
        bits, attempt = as_int(value.get("cm", 0), _NONE), value.get("a")
        if not offsets or min(*times, bits) < 0 or max(*times, bits) > _MAX:
            return None
        return cls(
            pop_time=times[0],
            invisible_time=min(max(as_int(value.get("i"), 0), 0), _MAX),
            offsets=offsets,
            last_consumed=times[1],
            attempt_id=attempt[:MAX_ATTEMPT_ID] if isinstance(attempt, str) else None,
            acked=bits & ((1 << len(offsets)) - 1),
            visible=_by_offset(value.get("ot"), offsets, _MAX),
            consumed=_by_offset(value.get("oc"), offsets, MAX_COUNT),
        )


def is_batch(offsets: Sequence[int]) -> bool:
    """Whether these can be the offsets of a batch: some, few enough, growing."""
    return (
        0 < len(offsets) <= MAX_MESSAGES
        and offsets[0] >= 0
        and offsets[-1] < _MAX
        and all(a < b for a, b in pairwise(offsets))
    )


def _offsets(value: Any) -> list[int]:
    """The offsets of a file's row, [] if they are none."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_MESSAGES:
        return []
    numbers = [as_int(v, _NONE) for v in value]
    found = [numbers[0], *(numbers[0] + distance for distance in numbers[1:])]
    return found if is_batch(found) else []


def _by_offset(value: Any, offsets: Iterable[int], most: int) -> dict[int, int]:
    if not isinstance(value, Mapping):
        return {}
    wanted = set(offsets)
    rows = ((as_int(k, _NONE), as_int(v, _NONE)) for k, v in value.items())
    return {offset: min(number, most) for offset, number in rows if offset in wanted and number > 0}
