"""What a consumer holds of one queue between pulling and consuming. [ProcessQueue]"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import islice

import trio

from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue, ReceivedMessage

MAX_MESSAGES = 1000
MAX_BYTES = 100 << 20
MAX_SPAN = 2000
"""pullThresholdForQueue, pullThresholdSizeForQueue, consumeConcurrentlyMaxSpan."""


class State(Enum):
    """Where a queue is on its way through a member of a group."""

    TAKING = "the member is acquiring its lock and its start offset"
    HELD = "it is pulled from and consumed"
    LEAVING = "it is no longer this member's: what runs comes to an end, its offset is written"
    GONE = "another member may have it"


class Event(Enum):
    """What moves a queue on."""

    TAKEN = "its start is known"
    DROPPED = "it goes to another member, or is to be taken anew"
    RELEASED = "offset and lock are given up"


TRANSITIONS = {
    (State.TAKING, Event.TAKEN): State.HELD,
    (State.TAKING, Event.DROPPED): State.LEAVING,
    (State.HELD, Event.DROPPED): State.LEAVING,
    (State.LEAVING, Event.DROPPED): State.LEAVING,
    (State.LEAVING, Event.RELEASED): State.GONE,
}
"""All that can happen to a queue. What is not here is a fault of the client."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may wait of one queue before pulling pauses: messages, bytes of their bodies, and the
    distance from the first that is not consumed to the next to be pulled (None: any, for queues
    that are consumed in order)."""

    messages: int = MAX_MESSAGES
    size: int = MAX_BYTES
    span: int | None = MAX_SPAN


DEFAULT_LIMITS = Limits()


class ProcessQueue:
    """Messages that were pulled and are not consumed yet, by offset.

    `commit_offset` is the offset below which everything is consumed: a message that is still
    worked on holds it back, whatever was finished behind it. `scope` is that of its pulls.
    """

    def __init__(
        self, queue: MessageQueue, start: int = 0, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.queue = queue
        self.state = State.TAKING
        self.dropped = False
        """Not this member's any more: results of its messages count for nothing."""
        self.begun = False
        """Its start is known."""
        self.next_offset = start
        self.scope = trio.CancelScope()
        self.writing = trio.Lock()
        """Its offset is being written."""
        self.committed: int | None = None
        """What the store of offsets has, as far as this member knows."""
        self.keeper = ""
        """Who has it: a broker, of several that it may be written to, or a file."""
        self.restart: int | None = None
        """The offset to write when it is given up, whatever was consumed."""
        self.seek: int | None = None
        """Where it is taken again at once when it is given up, whatever its store has."""
        self.paused = False
        """The user wants nothing to be pulled."""
        self.forfeited = False
        """Another member has it already: nothing is written when it is given up."""
        self.again = False
        """It is wanted again once it is gone."""
        self.running = 0
        """Calls of the listener with messages of it."""
        self.locked_at = float("-inf")
        """When its lock was taken or renewed, on trio's clock."""
        self.scheduled = False
        """A worker consumes it in order, or will."""
        self.last_pull = self.last_consume = self.last_lock = 0
        """Times, ms since 1970."""
        self.paused_by: dict[str, int] = {}
        """How often pulling paused, by the limit that was reached."""
        self._limits = limits
        self._pending: dict[int, tuple[ReceivedMessage, int]] = {}
        """Messages and the sizes that their bodies had: listeners may change them."""
        self._bytes = 0
        self._consumed = start
        self._room = trio.Event()
        self._idle = trio.Event()

    def move(self, event: Event) -> None:
        """Something happened to the queue. ClientError if it cannot have."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise ClientError(f"{self.queue}: {event.name} in the state {self.state.name}")
        self.state = following
        if event is Event.DROPPED:
            self.dropped = True
            self.scope.cancel()

    def begin(self, start: int) -> None:
        """The queue is taken from an offset on."""
        self.begun = True
        self.next_offset = self._consumed = start

    def put(self, messages: Iterable[ReceivedMessage]) -> None:
        """Takes pulled messages, in order of their offsets."""
        for m in messages:
            size = len(m.raw_body)
            self._pending[m.queue_offset] = m, size
            self._bytes += size

    def advance(self, offset: int) -> None:
        """Everything below `offset` was pulled (or is not wanted)."""
        self.next_offset = offset

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether this very message waits here to be consumed."""
        found = self._pending.get(message.queue_offset)
        return found is not None and found[0] is message

    def first(self, count: int) -> list[ReceivedMessage]:
        """The first messages that are not consumed, in order; as many as there are."""
        return [message for message, _ in islice(self._pending.values(), count)]

    def finish(self, offset: int) -> None:
        """A message is consumed."""
        found = self._pending.pop(offset, None)
        if found is not None:
            self._bytes -= found[1]
            self._room.set()

    def commit_offset(self) -> int:
        """Next offset to consume, for the store. It never goes back."""
        first = next(iter(self._pending), self.next_offset)
        self._consumed = max(self._consumed, first)
        return self._consumed

    @property
    def waiting(self) -> int:
        """Messages that are not consumed."""
        return len(self._pending)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of their bodies, as far as they could be decompressed."""
        return self._bytes

    def bounds(self) -> tuple[int, int]:
        """The first and the last offset that waits; zeros if none does."""
        if not self._pending:
            return 0, 0
        return next(iter(self._pending)), next(reversed(self._pending))

    def pause(self, paused: bool) -> None:
        """Nothing is pulled from now on, or again."""
        self.paused = paused
        self._room.set()

    def full(self) -> str | None:
        """The limit that is exceeded, None while there is room."""
        limits = self._limits
        if self.paused:
            return "user"
        if len(self._pending) > limits.messages:
            return "messages"
        if self._bytes > limits.size:
            return "size"
        if limits.span is not None:
            first = next(iter(self._pending), self.next_offset)
            if self.next_offset - first > limits.span:
                return "span"
        return None

    def is_full(self) -> bool:
        return self.full() is not None

    async def wait_for_room(self) -> None:
        """Returns when enough was consumed for the next pull."""
        while (limit := self.full()) is not None:
            self.paused_by[limit] = self.paused_by.get(limit, 0) + 1
            self._room = trio.Event()
            await self._room.wait()

    def started(self) -> None:
        """The listener is called with messages of it."""
        self.running += 1

    def ended(self) -> None:
        """A call of the listener has ended."""
        self.running -= 1
        if not self.running:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Returns when no call of the listener is under way."""
        while self.running:
            self._idle = trio.Event()
            await self._idle.wait()
