"""Long polling: pulls that found nothing wait here for a message or their time.
[PullRequestHoldService]"""

from __future__ import annotations

import heapq
import itertools
import logging
from array import array
from collections.abc import Callable
from dataclasses import dataclass

import trio

from pyrmq.engine import Command, Store
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import Response
from pyrmq.net.connection import Connection

log = logging.getLogger(__name__)

Key = tuple[str, int]
MAX_HELD = 262_144
MAX_PER_CONNECTION = 16_384
"""Most pulls that are held; one more is answered at once."""
MAX_READS = 64
"""Reads for one pull at a time, of some hundred queue entries each; after that the client is told
to pull on from there."""
SCAN_INTERVAL = 5.0
"""Longest sleep of the task that watches deadlines, seconds."""


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull as it was checked: what it takes to read again and to answer."""

    connection: Connection
    command: Command
    topic: str
    queue_id: int
    offset: int
    max_count: int
    tags: array[int]


class HeldPulls:
    """Held pulls by queue, and their deadlines.

    `read` reads once; `answer` sends. A queue on which a pull waits is marked in the engine,
    which reports its next message once.
    """

    def __init__(self, store: Store, answer: Callable[[HeldPull, Response], None]) -> None:
        self._store = store
        self._answer = answer
        self.read: Callable[[HeldPull], Response] | None = None
        self._held: dict[Key, set[HeldPull]] = {}
        self._of_connection: dict[Connection, set[HeldPull]] = {}
        self._deadlines: list[tuple[float, int, HeldPull]] = []
        self._number = itertools.count()
        self._sooner = trio.Event()
        self.count = 0

    def hold(self, pull: HeldPull, seconds: float) -> bool:
        """Keeps a pull for at most `seconds`; False if too many are held already."""
        mine = self._of_connection.get(pull.connection, ())
        if self.count >= MAX_HELD or len(mine) >= MAX_PER_CONNECTION:
            return False
        key = (pull.topic, pull.queue_id)
        deadline = trio.current_time() + min(seconds, 3600)
        self._held.setdefault(key, set()).add(pull)
        self._of_connection.setdefault(pull.connection, set()).add(pull)
        if self.connection_gone not in pull.connection.on_close:
            pull.connection.on_close.append(self.connection_gone)
        self.count += 1
        if not self._deadlines or deadline < self._deadlines[0][0]:
            self._sooner.set()
        heapq.heappush(self._deadlines, (deadline, next(self._number), pull))
        self._store.notify_on_arrival(pull.topic, pull.queue_id)
        # A message may have come between reading and asking.
        if self._store.queue_range(pull.topic, pull.queue_id)[1] > pull.offset:
            self._try(key)
        if len(self._deadlines) > 4 * self.count + 1024:
            self._deadlines = [d for d in self._deadlines if self._is_held(d[2])]
            heapq.heapify(self._deadlines)
        return True

    def arrived(self) -> None:
        """Looks at the queues that the engine reports."""
        for key in self._store.drain_arrivals():
            self._try(key)

    def _try(self, key: Key) -> None:
        if key in self._held:
            # First, so that what comes while we read is reported.
            self._store.notify_on_arrival(*key)
        for pull in list(self._held.get(key, ())):
            response = self._read(pull)
            for _ in range(MAX_READS):
                if response.code != ResponseCode.PULL_RETRY_IMMEDIATELY:
                    break
                # Nothing of what came is wanted: wait on from behind it.
                pull.offset = int(response.ext["nextBeginOffset"])
                response = self._read(pull)
            if response.code != ResponseCode.PULL_NOT_FOUND:
                self._finish(pull, response)

    def _read(self, pull: HeldPull) -> Response:
        assert self.read is not None
        try:
            return self.read(pull)
        except Exception as e:
            log.exception("held pull of %s-%d", pull.topic, pull.queue_id)
            return Response(ResponseCode.SYSTEM_ERROR, str(e))

    def _finish(self, pull: HeldPull, response: Response) -> None:
        if self._forget(pull):
            self._answer(pull, response)

    def _forget(self, pull: HeldPull) -> bool:
        if not self._is_held(pull):
            return False
        key = (pull.topic, pull.queue_id)
        pulls = self._held[key]
        pulls.discard(pull)
        self.count -= 1
        if not pulls:
            del self._held[key]
        mine = self._of_connection[pull.connection]
        mine.discard(pull)
        if not mine:
            del self._of_connection[pull.connection]
        return True

    def connection_gone(self, connection: Connection) -> None:
        """Forgets the pulls of a connection that ended."""
        for pull in list(self._of_connection.get(connection, ())):
            self._forget(pull)

    def flush(self) -> None:
        """Answers everything that is held (the broker stops)."""
        for pulls in list(self._held.values()):
            for pull in list(pulls):
                self._finish(pull, self._read(pull))

    async def run(self) -> None:
        """Answers pulls whose time is over, until cancelled."""
        while True:
            now = trio.current_time()
            while self._deadlines and self._deadlines[0][0] <= now:
                _, _, pull = heapq.heappop(self._deadlines)
                if self._is_held(pull):
                    self._finish(pull, self._read(pull))
            wait = self._deadlines[0][0] - now if self._deadlines else SCAN_INTERVAL
            self._sooner = trio.Event()
            with trio.move_on_after(min(max(wait, 0.001), SCAN_INTERVAL)):
                await self._sooner.wait()

    def _is_held(self, pull: HeldPull) -> bool:
        return pull in self._held.get((pull.topic, pull.queue_id), ())
