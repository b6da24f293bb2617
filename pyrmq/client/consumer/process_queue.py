"""What a consumer holds of one queue between pulling and consuming. [ProcessQueue]"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import islice

import trio

from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue, ReceivedMessage
from pyrmq.net.clock import now_ms

MAX_MESSAGES = 1000
MAX_BYTES = 100 << 20
MAX_SPAN = 2000
"""pullThresholdForQueue, pullThresholdSizeForQueue, consumeConcurrentlyMaxSpan."""


class State(Enum):
    """Where a queue is on its way through a member of a group."""

    TAKING = "the member is acquiring the lock and the start offset"
    HELD = "the member pulls from it and consumes it"
    # It is being given up, and nothing follows.
    ABANDONED = "nothing was consumed, so nothing is written"
    LEAVING = "the offset of what was consumed is written"
    RESET = "the offset that an operator gave is written"
    FORFEITED = "another member may have had it, so nothing is written"
    # It is being given up, and then the member takes it again.
    RETRYING = "as ABANDONED, then it is taken from the stored offset"
    RETURNING = "as LEAVING, then it is taken from the stored offset"
    RESETTING = "as RESET, then it is taken from the stored offset"
    RENEWING = "as FORFEITED, then it is taken from the stored offset"
    SEEKING = "nothing is written, then it is taken from an offset that the user chose"
    GONE = "another member may have it"


class Event(Enum):
    """What happens to a queue."""

    FOUND = "its start offset is known"
    ASSIGNED = "it is this member's (again)"
    UNASSIGNED = "it goes to another member"
    ENDED = "its pulling has ended"
    LOST = "another member may have had it: it is taken again"
    RESET = "an operator, or a broker, says where the group goes on"
    SOUGHT = "the user says where this member goes on"
    RELEASED = "offset and lock are given up"


_TABLE = """\
          FOUND      ASSIGNED   UNASSIGNED ENDED      LOST       RESET      SOUGHT     RELEASED
TAKING    HELD       TAKING     ABANDONED  ABANDONED  RENEWING   RESETTING  SEEKING    .
HELD      .          HELD       LEAVING    LEAVING    RENEWING   RESETTING  SEEKING    .
ABANDONED .          RETRYING   ABANDONED  ABANDONED  RENEWING   RESETTING  SEEKING    GONE
LEAVING   .          RETURNING  LEAVING    LEAVING    RENEWING   RESETTING  SEEKING    GONE
RESET     .          RESETTING  RESET      RESET      RENEWING   RESETTING  SEEKING    GONE
FORFEITED .          RENEWING   FORFEITED  FORFEITED  RENEWING   RENEWING   SEEKING    GONE
RETRYING  .          RETRYING   ABANDONED  RETRYING   RENEWING   RESETTING  SEEKING    GONE
RETURNING .          RETURNING  LEAVING    RETURNING  RENEWING   RESETTING  SEEKING    GONE
RESETTING .          RESETTING  RESET      RESETTING  RENEWING   RESETTING  SEEKING    GONE
RENEWING  .          RENEWING   FORFEITED  RENEWING   RENEWING   RENEWING   SEEKING    GONE
SEEKING   .          SEEKING    FORFEITED  SEEKING    SEEKING    SEEKING    SEEKING    GONE
GONE      .          .          .          .          .          .          .          .
"""


def _read(table: str) -> dict[State, dict[Event, State]]:
    header, *rows = (line.split() for line in table.splitlines())
    events = [Event[name] for name in header]
    return {
        State[name]: {
            event: State[following]
            for event, following in zip(events, cells, strict=True)
            if following != "."
        }
        for name, *cells in rows
    }


TRANSITIONS = _read(_TABLE)
"""All that can happen to a queue: a row for each state, with the state that follows each event.
Where there is a dot, the event is a fault of the client.

The rules:
- Once another member may have had a queue, nothing is written for it: that member keeps the offset.
- Until then the offset that an operator gave counts more than what was consumed.
- An offset that the user chose is not written. The queue is taken again there, unless it goes to
  another member.
- UNASSIGNED has a queue not taken again; ASSIGNED, LOST, RESET and SOUGHT have it taken again. The
  last one counts."""
RETAKEN = {State.RETRYING, State.RETURNING, State.RESETTING, State.RENEWING}
"""States after which a queue is taken again, from the stored offset."""
WANTED = RETAKEN | {State.TAKING, State.HELD, State.SEEKING}
"""States of queues that are this member's, or will be again."""
_FORFEITED = {State.FORFEITED, State.RENEWING, State.SEEKING}
_CONSUMED = {State.HELD, State.LEAVING, State.RETURNING}
_GIVEN = {State.RESET, State.RESETTING}
NEVER = float("-inf")
"""When a queue was locked that is not."""


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
    """One queue of a member: its state, and the messages that were pulled and are not consumed yet,
    by offset. Only its methods change it; others read its attributes.

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
        self.next_offset = start
        self.scope = trio.CancelScope()
        self.writing = trio.Lock()
        """Its offset is being written."""
        self.committed: int | None = None
        """What the store of offsets has, as far as this member knows."""
        self.keeper = ""
        """Who has it: a broker, of several that it may be written to, or a file."""
        self.sought = 0
        """The offset that the user chose last."""
        self.paused = False
        """The user wants nothing to be pulled."""
        self.running = 0
        """Calls of the listener with messages of it."""
        self.locked_at = NEVER
        """When its lock was taken or renewed, on trio's clock."""
        self.last_pull = self.last_lock = 0
        """Times, ms since 1970."""
        self.last_consume = now_ms()
        """The same; a queue that was just taken is not blocked. [ProcessQueue]"""
        self.paused_by: dict[str, int] = {}
        """How often pulling paused, by the limit that was reached."""
        self._reset = 0
        """The offset that an operator gave last."""
        self._limits = limits
        self._pending: dict[int, tuple[ReceivedMessage, int]] = {}
        """Messages and the sizes that their bodies had: listeners may change them."""
        self._bytes = 0
        self._consumed = start
        self._room = trio.Event()
        self._idle = trio.Event()

    # Its way through the member.

    def _move(self, event: Event) -> None:
        """ClientError if this cannot happen now."""
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise ClientError(f"{self.queue}: {event.name} in the state {self.state.name}")
        self.state = following
        if following is not State.TAKING and following is not State.HELD:
            self.dropped = True
            self.scope.cancel()

    def found(self, start: int) -> None:
        """The queue is pulled from an offset on."""
        self._move(Event.FOUND)
        self.next_offset = self._consumed = start

    def assigned(self) -> None:
        """The queue is this member's; if it is being given up, it is taken again then."""
        self._move(Event.ASSIGNED)

    def unassigned(self) -> None:
        """The queue goes to another member."""
        self._move(Event.UNASSIGNED)

    def ended(self) -> None:
        """Nothing is pulled any more, for whatever reason."""
        self._move(Event.ENDED)

    def lost(self) -> None:
        """Another member may have had the queue: it is given up and taken again, and nothing is
        written."""
        self._move(Event.LOST)

    def reset(self, offset: int) -> None:
        """The group goes on at an offset, whatever was consumed: the queue is given up and taken
        again."""
        self._reset = offset
        self._move(Event.RESET)

    def seek(self, offset: int) -> None:
        """This member goes on at an offset; nothing is written for it now."""
        self.sought = offset
        self._move(Event.SOUGHT)

    def released(self) -> State:
        """Offset and lock are given up. Returns the state before that."""
        before = self.state
        self._move(Event.RELEASED)
        return before

    @property
    def wanted(self) -> bool:
        """Whether it is this member's, or will be again."""
        return self.state in WANTED

    @property
    def forfeited(self) -> bool:
        """Whether nothing is written any more when it is given up."""
        return self.state in _FORFEITED

    def offset_to_write(self, automatic: bool) -> int | None:
        """What the store is to have now; None: nothing is written. `automatic`: what was consumed
        counts, also if nobody commits it."""
        if self.state in _GIVEN:
            return self._reset
        return self.commit_offset() if automatic and self.state in _CONSUMED else None

    def is_reset(self) -> bool:
        """Whether the offset to write is one that an operator gave."""
        return self.state in _GIVEN

    def stored(self, offset: int | None, keeper: str | None = None) -> None:
        """The store has this offset; `keeper` says who has it, None: the same as before."""
        self.committed = offset
        if keeper is not None:
            self.keeper = keeper

    def locked(self, at: float) -> None:
        """Its lock was taken or renewed, at this time of trio's clock."""
        self.locked_at = at
        self.last_lock = now_ms()

    def unlocked(self) -> None:
        """Its lock is given up, or another member has it."""
        self.locked_at, self.last_lock = NEVER, 0

    def pull_began(self) -> None:
        """A pull is sent."""
        self.last_pull = now_ms()

    def consume_began(self) -> None:
        """Messages of it are about to be consumed."""
        self.last_consume = now_ms()

    # Its messages.

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

    def call_began(self) -> None:
        """The listener is called with messages of it, in order."""
        self.running += 1

    def call_ended(self) -> None:
        """A call of the listener has ended."""
        self.running -= 1
        if not self.running:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Returns when no call of the listener is under way."""
        while self.running:
            self._idle = trio.Event()
            await self._idle.wait()
