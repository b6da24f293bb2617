"""What senders and members of the groups know, and what must therefore hold.

Times are the broker's own clock, in ms. Somebody may set that clock, so `latest` is the latest time
it ever showed: what was due then may have come.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.pops import Delivery
from tests.system.simulation.model import Broken

REVIVE_MARGIN = 2000
"""ms before its deadline at which a check point may be judged: its record comes to the revive topic
a second before the deadline, and times are floored to a second."""


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

    times: int = 0
    acknowledged_end: int = -1
    """As `stored_end`, for the acknowledgement."""
    lives: int = 0
    """The life of the broker that answered it."""
    done: bool = False
    maybe: bool = False
    """An acknowledgement was sent that got no answer: it may have counted."""
    late: bool = False
    """It was acknowledged when it might come again anyway."""
    last: Delivery | None = None


@dataclass(slots=True)
class Model:
    sync: bool
    groups: tuple[str, ...]
    latest: int = 0
    messages: dict[str, Message] = field(default_factory=dict)
    given: dict[tuple[str, str], Given] = field(default_factory=dict)

    def of(self, group: str, key: str) -> Given:
        return self.given.setdefault((group, key), Given())

    def popped(self, group: str, delivery: Delivery) -> None:
        """A member got a message."""
        key = delivery.record.body.decode()
        message = self.messages.get(key)
        if message is None:
            raise Broken(f"{group} got {key}, which nobody has sent")
        if message.due is not None and self.latest < message.due:
            raise Broken(f"{group} got {key} {message.due - self.latest} ms before its time")
        if message.recalled_end >= 0:
            raise Broken(f"{group} got {key}, which was recalled")
        given = self.of(group, key)
        given.times += 1
        given.last = delivery
        if given.done and not given.late:
            raise Broken(
                f"{group} got {key} again, which it has acknowledged (handle {delivery.handle})"
            )

    def acknowledged(
        self, group: str, delivery: Delivery, log_end: int, *, first_known: int
    ) -> None:
        """The answer came. `first_known`: the latest time when the acknowledgement was sent."""
        given = self.of(group, delivery.record.body.decode())
        late = max(self.latest, first_known) >= delivery.handle.deadline - REVIVE_MARGIN
        if late and not given.done:
            given.late = True
        elif not late:
            given.late = False
        given.done = True
        given.acknowledged_end = log_end

    def asked(self, group: str, delivery: Delivery) -> None:
        """An acknowledgement was sent, and nobody knows whether it came."""
        self.of(group, delivery.record.body.decode()).maybe = True

    def power_lost(self, at: int) -> None:
        """What was acknowledged and lies behind `at` is gone: rightly, with ASYNC_FLUSH."""
        for message in self.messages.values():
            if message.stored_end > at:
                self._check_async(message.key)
                message.lost = True
            if message.recalled_end > at:
                self._check_async(f"the recall of {message.key}")
                message.recalled_end = -1
        for (group, key), given in self.given.items():
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
