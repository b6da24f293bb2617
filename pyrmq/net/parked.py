"""Long polling: pulls that found nothing are parked here until a message comes or their time is
over. [PullRequestHoldService]"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable, Set
from dataclasses import dataclass

import trio

from pyrmq.engine import Command, Store
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode
from pyrmq.net.answers import Pull, send_answer
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection

log = logging.getLogger(__name__)

Key = tuple[str, int]
MAX_PARKED = 262_144
MAX_PER_CONNECTION = 16_384
"""Most pulls that are parked; one more is answered at once."""
MAX_SECONDS = 3600.0
"""Longest time that a pull is parked."""
SCAN_INTERVAL = 5.0
"""Longest sleep of the task that watches deadlines, seconds."""


@dataclass(slots=True, eq=False)
class Parked:
    """A pull that waits, and whom its answer is for."""

    connection: Connection
    command: Command
    pull: Pull

    @property
    def key(self) -> Key:
        return self.pull.topic, self.pull.queue_id


class ParkedPulls:
    """Parked pulls by queue, and their deadlines.

    A queue on which a pull waits is marked in the engine, which reports its next message once. The
    report leads straight to the read and the answer.
    """

    def __init__(
        self,
        store: Store,
        answer: Callable[[Connection, Command, Response], None] = send_answer,
    ) -> None:
        self._store = store
        self._answer = answer
        self._parked: dict[Key, set[Parked]] = {}
        self._of_connection: dict[Connection, set[Parked]] = {}
        self._deadlines: list[tuple[float, int, Parked]] = []
        self._number = itertools.count()
        self._sooner = trio.Event()
        self._flushed = False
        self.count = 0

    def park(self, connection: Connection, command: Command, pull: Pull, seconds: float) -> bool:
        """Keeps a pull for at most `seconds`; False if too many are parked already, or the server
        stops. Keeps nothing where the queue cannot be opened: raises what the store does."""
        mine = self._of_connection.get(connection, ())
        if self._flushed or self.count >= MAX_PARKED or len(mine) >= MAX_PER_CONNECTION:
            return False
        parked = Parked(connection, command, pull)
        key = parked.key
        self._store.notify_on_arrival(*key)
        # A message may have come between reading and asking for a report.
        has_come = self._store.queue_range(*key)[1] > pull.offset
        deadline = trio.current_time() + min(seconds, MAX_SECONDS)
        self._parked.setdefault(key, set()).add(parked)
        self._of_connection.setdefault(connection, set()).add(parked)
        connection.call_on_close(self.connection_gone)
        self.count += 1
        if not self._deadlines or deadline < self._deadlines[0][0]:
            self._sooner.set()
        heapq.heappush(self._deadlines, (deadline, next(self._number), parked))
        if has_come:
            self._wake(key)
        if len(self._deadlines) > 4 * self.count + 1024:
            self._deadlines = [d for d in self._deadlines if self._is_parked(d[2])]
            heapq.heapify(self._deadlines)
        return True

    def wake(self) -> None:
        """Answers what waits on the queues that the engine reports."""
        for key in self._store.drain_arrivals():
            self._wake(key)

    def _wake(self, key: Key) -> None:
        if key in self._parked:
            self._store.notify_on_arrival(*key)  # first: what comes meanwhile is reported
        for parked in list(self._parked.get(key, ())):
            response = self._read(parked, parked.pull.read_on)
            if response is not None:
                self._finish(parked, response)

    def _read(self, parked: Parked, read: Callable[[], Response | None]) -> Response | None:
        try:
            return read()
        except Exception as e:
            log.exception("parked pull of %s-%d", escape(parked.pull.topic), parked.pull.queue_id)
            return Response(ResponseCode.SYSTEM_ERROR, str(e))

    def _finish(self, parked: Parked, response: Response) -> None:
        if self._forget(parked):
            self._answer(parked.connection, parked.command, response)

    def _read_and_finish(self, parked: Parked) -> None:
        response = self._read(parked, parked.pull.read)
        assert response is not None
        self._finish(parked, response)

    def _forget(self, parked: Parked) -> bool:
        if not self._is_parked(parked):
            return False
        pulls = self._parked[parked.key]
        pulls.discard(parked)
        self.count -= 1
        if not pulls:
            del self._parked[parked.key]
        mine = self._of_connection[parked.connection]
        mine.discard(parked)
        if not mine:
            del self._of_connection[parked.connection]
        return True

    def release(self, key: Key) -> None:
        """Answers everything that is parked on a queue."""
        for parked in list(self._parked.get(key, ())):
            self._read_and_finish(parked)

    def end(self, topics: Set[str], response: Callable[[str], Response]) -> None:
        """Answers what is parked on the queues of these topics with `response(topic)`."""
        for key in [key for key in self._parked if key[0] in topics]:
            for parked in list(self._parked.get(key, ())):
                self._finish(parked, response(key[0]))

    def connection_gone(self, connection: Connection) -> None:
        """Forgets the pulls of a connection that ended."""
        for parked in list(self._of_connection.get(connection, ())):
            self._forget(parked)

    def flush(self) -> None:
        """Answers everything that is parked, and parks nothing more: the server stops."""
        self._flushed = True
        for key in list(self._parked):
            self.release(key)

    async def run(self) -> None:
        """Answers pulls whose time is over, until cancelled."""
        while True:
            now = trio.current_time()
            while self._deadlines and self._deadlines[0][0] <= now:
                _, _, parked = heapq.heappop(self._deadlines)
                if self._is_parked(parked):
                    self._read_and_finish(parked)
            wait = self._deadlines[0][0] - now if self._deadlines else SCAN_INTERVAL
            self._sooner = trio.Event()
            with trio.move_on_after(min(max(wait, 0.001), SCAN_INTERVAL)):
                await self._sooner.wait()

    def _is_parked(self, parked: Parked) -> bool:
        return parked in self._parked.get(parked.key, ())
