"""What senders and members of the groups know, and what must therefore hold.

Times are the broker's own clock, in ms. Somebody may set that clock, so `latest` is the latest time
it ever showed: what was due then may have come.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.pops import Delivery
from tests.support.records import Record
from tests.system.simulation.model import Broken
from tests.system.simulation.pops.order import Order

REVIVE_MARGIN = 2000
"""ms before its deadline at which a check point may be judged: its record comes to the revive topic
a second before the deadline, and times are floored to a second."""

TIMER_MARGIN = 2500
"""ms after its time at which a timer message comes at the latest: timerPrecisionMs, and the pauses
of the task."""
ORDERED = "GO"
"""The group that pops in order."""


@dataclass(eq=False, slots=True)
class Message:
    key: str
    queue_id: int
    due: int | None = None
    """The time that the sender asked for, if it asked for one."""
    stored_end: int = -1
    """The log ended here, at most, when the send was acknowledged; -1: it was not."""
    lost: bool = False
    """The machine lost its power before the acknowledged message was on disk."""
    recalled_end: int = -1
    """The same for a recall that was acknowledged long before the message was due."""
    asked_back: bool = False
    """A recall was sent, which may have counted."""


@dataclass(eq=False, slots=True)
class Given:
    """What one group has to do with one message."""

    acknowledged_end: int = -1
    """As `stored_end`, for the acknowledgement."""
    done: bool = False
    maybe: bool = False
    """An acknowledgement was sent that got no answer: it may have counted."""
    late: bool = False
    """It was acknowledged when it might come again anyway."""
    twice: bool = False
    """A change of its invisible time got no answer: a kill may have cut it between its two records,
    so that the message is in both check points. Or the change came too late."""
    changed_end: int = -1
    """As `acknowledged_end`, for the last change of the invisible time."""
    popped_at: int = 0
    """The pop time of what was acknowledged. An answer to an earlier pop may be slow."""
    counts: set[int] = field(default_factory=set)
    """The retry counts with which it came since the log lost something last."""


@dataclass(slots=True)
class Model:
    sync: bool
    groups: tuple[str, ...]
    latest: int = 0
    messages: dict[str, Message] = field(default_factory=dict)
    given: dict[tuple[str, str], Given] = field(default_factory=dict)
    order: Order = field(default_factory=Order)
    late_by: int = 0
    """How late the latest timer message came, ms."""
    _starts: list[int] = field(default_factory=list)
    """When the broker started."""
    _jumped: bool = False
    _behind: bool = False
    """The broker started when its clock was behind what it had shown: what came in that time may
    come again."""

    def of(self, group: str, key: str) -> Given:
        return self.given.setdefault((group, key), Given())

    def starts(self, now: int) -> None:
        """The broker begins to serve."""
        self._starts.append(now)
        self._behind |= now < self.latest - 1000
        self.order.starts()

    def jumps(self) -> None:
        """Its clock is set."""
        self._jumped = True

    def _started(self, record: Record) -> list[int]:
        return [start for start in self._starts if start <= record.store_timestamp]

    def popped(self, group: str, got: list[Delivery], *, ordered: bool) -> None:
        """A member got messages with one pop."""
        for each in got:
            self._popped(group, each)
        if ordered:
            self.order.popped(got)

    def _popped(self, group: str, delivery: Delivery) -> None:
        key = delivery.record.body.decode()
        message = self.messages.get(key)
        if message is None:
            raise Broken(f"{group} got {key}, which nobody has sent")
        if message.due is not None:
            self._check_time(group, key, message.due, delivery)
        if message.recalled_end >= 0:
            raise Broken(f"{group} got {key}, which was recalled")
        given = self.of(group, key)
        if given.twice or self._behind:
            return
        if given.done and not given.late and delivery.handle.pop_time > given.popped_at:
            raise Broken(
                f"{group} got {key} again, which it has acknowledged (handle {delivery.handle})"
            )
        if group != ORDERED:
            self._check_count(group, key, given, delivery)

    def _check_time(self, group: str, key: str, due: int, delivery: Delivery) -> None:
        if self.latest < due:
            raise Broken(f"{group} got {key} {due - self.latest} ms before its time")
        record = delivery.record
        if record.reconsume_times or "TIMER_OUT_MS" not in record.properties:
            return
        if self._jumped:
            return  # store times follow a clock that was set back later
        late = record.store_timestamp - max(due, *self._started(record), enqueued(record))
        self.late_by = max(self.late_by, late)
        if late > TIMER_MARGIN:
            raise Broken(f"{key} came {late} ms after its time")

    def _check_count(self, group: str, key: str, given: Given, delivery: Delivery) -> None:
        """A message comes once with each count, and its copies in the retry topic have one."""
        count = delivery.record.reconsume_times
        if (count > 0) != (delivery.handle.retry != "0"):
            raise Broken(f"{group} got {key} with count {count}: {delivery.handle}")
        if count in given.counts:
            raise Broken(f"{group} got {key} twice with count {count}: {delivery.handle}")
        given.counts.add(count)

    def acknowledged(
        self, group: str, delivery: Delivery, log_end: int, *, first_known: int
    ) -> None:
        """The answer came. `first_known`: the latest time when the acknowledgement was sent."""
        given = self.of(group, delivery.record.body.decode())
        late = first_known >= self._judged_at(delivery) or self.is_late(delivery)
        if late and not given.done:
            given.late = True
        elif not late:
            given.late = False
        given.done = True
        given.acknowledged_end = log_end
        given.popped_at = max(given.popped_at, delivery.handle.pop_time)

    def _judged_at(self, delivery: Delivery) -> int:
        return delivery.handle.deadline - REVIVE_MARGIN

    def is_late(self, delivery: Delivery) -> bool:
        """Whether the message may come again, whatever is said of this delivery."""
        return self.latest >= self._judged_at(delivery)

    def acknowledged_in_order(self, group: str, delivery: Delivery, log_end: int) -> None:
        """The answer came to an acknowledgement of an orderly pop. It counts for good once those of
        all earlier messages of the queue do."""
        if self.latest >= delivery.handle.deadline:
            return
        for key in self.order.acknowledged(delivery):
            given = self.of(group, key)
            if not given.done:
                given.done, given.acknowledged_end = True, log_end
                given.popped_at = delivery.handle.pop_time

    def asked(self, group: str, delivery: Delivery) -> None:
        """An acknowledgement was sent, and nobody knows whether it came."""
        self.of(group, delivery.record.body.decode()).maybe = True
        if group == ORDERED:
            self.order.asked(delivery)

    def power_lost(self, at: int) -> None:
        """What was acknowledged and lies behind `at` is gone: rightly, with ASYNC_FLUSH."""
        self.order.power_lost()
        for message in self.messages.values():
            if message.stored_end > at:
                self._check_async(message.key)
                message.lost = True
            if message.recalled_end > at:
                self._check_async(f"the recall of {message.key}")
                message.recalled_end = -1
        for (group, key), given in self.given.items():
            if not self.sync:
                given.counts.clear()
                given.twice |= given.changed_end > at  # the cut may lie between its two records
            if given.acknowledged_end > at:
                self._check_async(f"the acknowledgement of {key} by {group}")
                given.done, given.acknowledged_end = False, -1

    def _check_async(self, what: str) -> None:
        if self.sync:
            raise Broken(f"{what} was answered before it was on disk, and is lost")

    def open(self) -> list[tuple[str, str]]:
        """Groups and messages that are stored and not acknowledged."""
        return [
            (group, message.key)
            for group in self.groups
            for message in self.messages.values()
            if message.stored_end >= 0
            and not message.lost
            and not message.asked_back
            and not self.of(group, message.key).done
            and not self.of(group, message.key).maybe
        ]


def enqueued(record: Record) -> int:
    """When the timer of a record was set: it may have been sent after its time."""
    return int(record.properties.get("TIMER_ENQUEUE_MS", 0))
