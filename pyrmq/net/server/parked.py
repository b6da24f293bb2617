"""Long polling: pulls that found nothing are parked here until a message comes or their time is
over. [PullRequestHoldService]"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass, field

import trio

from pyrmq.engine import Store
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import ReplyTo, Response
from pyrmq.net.server.answers import Pull, send_answer
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import TURN_SECONDS

log = logging.getLogger(__name__)

Key = tuple[str, int]
MAX_PARKED = 262_144
MAX_PER_CONNECTION = 16_384
"""Most pulls that are parked; one more is answered at once."""
MAX_BYTES = 512 << 20
MAX_BYTES_PER_CONNECTION = 32 << 20
"""Bytes that they take at most, about: tags and expressions may be long."""
MAX_SECONDS = 3600.0
"""Longest time that a pull is parked."""
SCAN_INTERVAL = 5.0
"""Longest sleep of the task that watches deadlines, seconds."""


@dataclass(slots=True, eq=False)
class Parked:
    """A pull that waits, and whom its answer is for."""

    number: int
    connection: Connection
    command: ReplyTo
    pull: Pull
    cost: int
    """Bytes that it takes, about."""

    @property
    def key(self) -> Key:
        return self.pull.topic, self.pull.queue_id


@dataclass(slots=True)
class _Mine:
    """The pulls of one connection."""

    pulls: set[Parked] = field(default_factory=set)
    bytes: int = 0


class ParkedPulls:
    """Parked pulls by queue, and their deadlines.

    The engine marks each queue on which a pull waits, and reports its next message once. The report
    leads straight to the read and the answer. Many pulls are answered in turns of TURN_SECONDS.
    """

    def __init__(
        self,
        store: Store,
        answer: Callable[[Connection, ReplyTo, Response], None] = send_answer,
    ) -> None:
        self._store = store
        self._answer = answer
        self._parked: dict[Key, set[Parked]] = {}
        self._by_number: dict[int, Parked] = {}
        self._of_connection: dict[Connection, _Mine] = {}
        self._bytes = 0
        """What all of them take, about."""
        self._deadlines: list[tuple[float, int]] = []
        """Times and numbers, also of pulls that are answered: they keep nothing else of them."""
        self._number = itertools.count()
        self._sooner = trio.Event()
        self.watchers: list[Callable[[Key], None]] = []
        """Called with each queue that the engine reports: others have asked for reports as well."""
        self._flushed = False
        self._work: deque[tuple[Key | None, list[Parked], Callable[[Parked], None]]] = deque()
        """What is to be done, in turns: with which pulls, and the queue if messages came there."""
        self._waking: dict[Key, bool] = {}
        """Queues whose pulls are being read; True if messages have come since."""

    @property
    def count(self) -> int:
        return len(self._by_number)

    def park(self, connection: Connection, command: ReplyTo, pull: Pull, seconds: float) -> bool:
        """Keeps a pull for at most `seconds`; False if too many are parked already, or the server
        stops. Keeps nothing where the queue cannot be opened: raises what the store does."""
        mine = self._of_connection.get(connection) or _Mine()
        cost = pull.cost
        if (
            self._flushed
            or self.count >= MAX_PARKED
            or self._bytes + cost > MAX_BYTES
            or len(mine.pulls) >= MAX_PER_CONNECTION
            or mine.bytes + cost > MAX_BYTES_PER_CONNECTION
        ):
            return False
        parked = Parked(next(self._number), connection, command, pull, cost)
        key = parked.key
        self._store.notify_on_arrival(*key)
        # A message may have come between reading and asking for a report.
        has_come = self._store.queue_range(*key)[1] > pull.offset
        deadline = trio.current_time() + min(seconds, MAX_SECONDS)
        self._parked.setdefault(key, set()).add(parked)
        self._of_connection[connection] = mine
        mine.pulls.add(parked)
        mine.bytes += cost
        self._bytes += cost
        self._by_number[parked.number] = parked
        connection.call_on_close(self.connection_gone)
        if not self._deadlines or deadline < self._deadlines[0][0]:
            self._sooner.set()
        heapq.heappush(self._deadlines, (deadline, parked.number))
        if has_come:
            self._read_on(parked)
        if len(self._deadlines) > 4 * self.count + 1024:
            self._deadlines = [d for d in self._deadlines if d[1] in self._by_number]
            heapq.heapify(self._deadlines)
        return True

    def wake(self) -> None:
        """Answers what waits on the queues that the engine reports."""
        for key in self._store.drain_arrivals():
            self._wake(key)
            for watcher in self.watchers:
                watcher(key)
        if self._work:
            self._do_some()

    def _wake(self, key: Key) -> None:
        if key in self._waking:
            self._waking[key] = True
        elif key in self._parked:
            self._store.notify_on_arrival(*key)  # first: what comes meanwhile is reported
            self._waking[key] = False
            self._work.append((key, list(self._parked[key]), self._read_on))

    def _do_some(self) -> None:
        """Works for one turn; `run` does what is left."""
        end = time.monotonic() + TURN_SECONDS
        while self._work:
            key, pulls, do = self._work[0]
            if not pulls:
                self._work.popleft()
                if key is not None and self._waking.pop(key):
                    self._wake(key)
                continue
            parked = pulls.pop()
            if parked.number in self._by_number:
                do(parked)
                if time.monotonic() >= end:
                    self._sooner.set()
                    return

    def _read_on(self, parked: Parked) -> None:
        response = self._read(parked, parked.pull.read_on)
        if response is not None:
            self._finish(parked, response)

    def _read(self, parked: Parked, read: Callable[[], Response | None]) -> Response | None:
        try:
            return read()
        except Exception as e:
            log.exception(
                "parked pull of %s-%d",
                escape(parked.pull.topic),
                parked.pull.queue_id,
                extra=about(queue=parked.pull.queue_id, topic=parked.pull.topic),
            )
            return Response(ResponseCode.SYSTEM_ERROR, str(e))

    def _finish(self, parked: Parked, response: Response) -> None:
        if self._forget(parked):
            self._answer(parked.connection, parked.command, response)

    def _read_and_finish(self, parked: Parked) -> None:
        response = self._read(parked, parked.pull.read)
        assert response is not None
        self._finish(parked, response)

    def _forget(self, parked: Parked) -> bool:
        if self._by_number.pop(parked.number, None) is None:
            return False
        pulls = self._parked[parked.key]
        pulls.discard(parked)
        if not pulls:
            del self._parked[parked.key]
        mine = self._of_connection[parked.connection]
        mine.pulls.discard(parked)
        mine.bytes -= parked.cost
        self._bytes -= parked.cost
        if not mine.pulls:
            del self._of_connection[parked.connection]
        return True

    def release(self, key: Key) -> None:
        """Answers everything that is parked on a queue."""
        self._begin([key], self._read_and_finish)

    def release_all(self) -> None:
        """Answers everything that is parked."""
        self._begin(list(self._parked), self._read_and_finish)

    def end(self, topics: Set[str], response: Callable[[str], Response]) -> None:
        """Answers what is parked on the queues of these topics with `response(topic)`."""
        keys = [key for key in self._parked if key[0] in topics]
        self._begin(keys, lambda parked: self._finish(parked, response(parked.pull.topic)))

    def _begin(self, keys: list[Key], do: Callable[[Parked], None]) -> None:
        """Calls `do` with all pulls of these queues, in turns."""
        pulls = [parked for key in keys for parked in self._parked.get(key, ())]
        if pulls:
            self._work.appendleft((None, pulls, do))  # before what waits only for messages
            self._do_some()

    def connection_gone(self, connection: Connection) -> None:
        """Forgets the pulls of a connection that ended."""
        mine = self._of_connection.get(connection)
        for parked in list(mine.pulls) if mine is not None else ():
            self._forget(parked)

    def flush(self) -> None:
        """Answers everything that is parked, and parks nothing more: the server stops."""
        self._flushed = True
        for parked in list(self._by_number.values()):
            self._read_and_finish(parked)

    async def run(self) -> None:
        """Answers pulls whose time is over, until cancelled."""
        while True:
            self._sooner = trio.Event()
            now, end = trio.current_time(), time.monotonic() + TURN_SECONDS
            while self._deadlines and self._deadlines[0][0] <= now and time.monotonic() < end:
                _, number = heapq.heappop(self._deadlines)
                if (parked := self._by_number.get(number)) is not None:
                    self._read_and_finish(parked)
            self._do_some()
            wait = self._deadlines[0][0] - now if self._deadlines else SCAN_INTERVAL
            if wait <= 0 or self._work:
                await trio.lowlevel.checkpoint()
                continue
            with trio.move_on_after(min(max(wait, 0.001), SCAN_INTERVAL)):
                await self._sooner.wait()
