"""Long polling of POP: requests that found nothing wait here until their time is over.
[PopLongPollingService]

A pop waits for any queue of a topic, or for one, and for the retry topic of its group. Those that
wait for the same stand in one line. A message wakes the first of a line, which takes what there is;
only if something is left the next one is woken. So a message does not have a thousand pops read.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from typing import Protocol

import trio

from pyrmq.engine import Store
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import ReplyTo, Response
from pyrmq.net.server.answers import WhenConfirmed
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import TURN_SECONDS

log = logging.getLogger(__name__)

Key = tuple[str, str, int]
"""Topic, group and queue (below 0: any)."""
Queue = tuple[str, int]
MAX_BYTES = 256 << 20
MAX_BYTES_PER_CONNECTION = 32 << 20
"""Bytes that those that wait take at most, about."""
MAX_SECONDS = 3600.0
"""Longest time that one waits."""
LONGEST_SLEEP = 5.0
Done = Response | WhenConfirmed


class Request(Protocol):
    """A checked request that found nothing."""

    key: Key

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics whose messages it waits for: its own first."""

    @property
    def cost(self) -> int:
        """About how many bytes it takes while it waits."""

    def again(self, nth: int) -> tuple[Done | None, bool]:
        """Reads again: the answer, None if there still is nothing; and whether the next one that
        waits for the same would find something. `nth`: how many were woken before it by the same
        messages."""

    def over(self) -> Done:
        """The answer when its time is over."""


@dataclass(slots=True, eq=False)
class _Waiter:
    number: int
    connection: Connection
    to: ReplyTo
    request: Request
    cost: int


@dataclass(slots=True, eq=False)
class _Line:
    key: Key
    topics: set[str]
    waiters: OrderedDict[int, _Waiter] = field(default_factory=OrderedDict)
    again: bool | None = None
    """None: nobody is being woken; True: messages have come since somebody was."""

    def wants(self, topic: str, queue_id: int) -> bool:
        return topic != self.key[0] or self.key[2] < 0 or self.key[2] == queue_id


@dataclass(slots=True)
class _Mine:
    """What waits of one connection."""

    waiters: set[_Waiter] = field(default_factory=set)
    bytes: int = 0


class Waits:
    """`queues(topic)`: how many queues a topic is read from, None if it is not there. `answer`
    sends an answer. `limits`: how many may wait in one line, and in all."""

    def __init__(
        self,
        store: Store,
        queues: Callable[[str], int | None],
        answer: Callable[[Connection, ReplyTo, Done], None],
        limits: Callable[[], tuple[int, int]],
    ) -> None:
        self._store = store
        self._queues = queues
        self._answer = answer
        self._limits = limits
        self._lines: dict[Key, _Line] = {}
        self._lines_of: dict[str, dict[Key, _Line]] = {}
        """By topic whose messages a line waits for."""
        self._waiters: dict[int, _Waiter] = {}
        self._of_connection: dict[Connection, _Mine] = {}
        self._bytes = 0
        self._marked: dict[str, set[int]] = {}
        """Queues of which the engine reports the next message."""
        self.reports = 0
        """How many reports there were: a request that read in a thread may have missed one."""
        self._deadlines: list[tuple[float, int]] = []
        self._number = itertools.count()
        self._sooner = trio.Event()
        self._stopped = False
        self._work: deque[tuple[_Line, int]] = deque()
        self._working = False

    def __len__(self) -> int:
        return len(self._waiters)

    def waiting(self, key: Key) -> int:
        """How many wait in one line."""
        line = self._lines.get(key)
        return 0 if line is None else len(line.waiters)

    def park(
        self,
        connection: Connection,
        to: ReplyTo,
        request: Request,
        seconds: float,
        seen: int,
        full: Done,
    ) -> None:
        """Keeps a request for at most `seconds`; answers it with `full` if too many wait already.
        `seen`: `reports` when it began to read."""
        mine = self._of_connection.get(connection) or _Mine()
        cost = request.cost
        most_in_line, most = self._limits()
        if (
            self._stopped
            or len(self._waiters) >= most
            or self.waiting(request.key) >= most_in_line
            or self._bytes + cost > MAX_BYTES
            or mine.bytes + cost > MAX_BYTES_PER_CONNECTION
        ):
            self._answer(connection, to, full)
            return
        waiter = _Waiter(next(self._number), connection, to, request, cost)
        line = self._lines.setdefault(request.key, _Line(request.key, set()))
        for topic in request.topics:
            if topic not in line.topics:
                line.topics.add(topic)
                self._lines_of.setdefault(topic, {})[line.key] = line
        line.waiters[waiter.number] = waiter
        self._waiters[waiter.number] = waiter
        self._of_connection[connection] = mine
        mine.waiters.add(waiter)
        mine.bytes += cost
        self._bytes += cost
        connection.call_on_close(self.connection_gone)
        deadline = trio.current_time() + min(seconds, MAX_SECONDS)
        if not self._deadlines or deadline < self._deadlines[0][0]:
            self._sooner.set()
        heapq.heappush(self._deadlines, (deadline, waiter.number))
        if len(self._deadlines) > 4 * len(self._waiters) + 1024:
            self._deadlines = [d for d in self._deadlines if d[1] in self._waiters]
            heapq.heapify(self._deadlines)
        # A message may have come between reading and asking for a report.
        if self._mark_all(request.topics) or self.reports != seen:
            self._wake(line)
            self._do_some()

    def wake(self, key: Key) -> None:
        """There may be something for the first in a line."""
        if (line := self._lines.get(key)) is not None:
            self._wake(line)
            self._do_some()

    def _mark_all(self, topics: Iterable[str]) -> bool:
        """Has the engine report the next message of every queue; whether any of that is new."""
        new = False
        for topic in topics:
            count = self._queues(topic)
            if count is None:
                continue
            marked = self._marked.setdefault(topic, set())
            if len(marked) < count:
                for queue_id in set(range(count)) - marked:
                    self._store.notify_on_arrival(topic, queue_id)
                    marked.add(queue_id)
                    new = True
        return new

    def topics_changed(self) -> None:
        """Topics may have come, or have more queues: retry topics are made when they are needed."""
        for topic, lines in list(self._lines_of.items()):
            if self._mark_all((topic,)):
                for line in list(lines.values()):
                    self._wake(line)
        self._sooner.set()

    async def told(self) -> None:
        """For `TopicTable.watch`: nobody waits for it."""

    def arrived(self, queue: Queue) -> None:
        """A queue has grown, as the engine reports."""
        topic, queue_id = queue
        marked = self._marked.get(topic)
        if marked is None or queue_id not in marked:
            return
        self.reports += 1
        lines = self._lines_of.get(topic)
        if not lines:
            marked.discard(queue_id)
            if not marked:
                del self._marked[topic]
            return
        self._store.notify_on_arrival(topic, queue_id)  # first: what comes meanwhile is reported
        for line in list(lines.values()):
            if line.wants(topic, queue_id):
                self._wake(line)
        self._do_some()

    def visible(self, topic: str, group: str, queue_id: int) -> None:
        """Messages of a queue may be popped again that were not to be."""
        for key in ((topic, group, -1), (topic, group, queue_id)):
            if (line := self._lines.get(key)) is not None:
                self._wake(line)
        for line in list(self._lines_of.get(topic, {}).values()):
            if line.key[0] != topic and line.key[1] == group:
                self._wake(line)
        self._do_some()

    def _wake(self, line: _Line) -> None:
        if line.again is None:
            line.again = False
            self._work.append((line, 0))
        else:
            line.again = True

    def _do_some(self) -> None:
        """Works for one turn; `run` does what is left."""
        if self._working:
            return
        self._working = True
        end = time.monotonic() + TURN_SECONDS
        try:
            while self._work:
                self._try_one(*self._work.popleft())
                if time.monotonic() >= end:
                    break
        finally:
            self._working = False
        if self._work:
            self._sooner.set()

    def _try_one(self, line: _Line, nth: int) -> None:
        goes_on = False
        if line.waiters:
            waiter = next(iter(line.waiters.values()))
            answer, goes_on = self._again(waiter, nth)
            if answer is not None:
                self._finish(waiter, answer)
            elif waiter.number in line.waiters:
                line.waiters.move_to_end(waiter.number)
        if goes_on and line.waiters:
            self._work.append((line, nth + 1))
        elif line.again and line.waiters:
            line.again = False
            self._work.append((line, 0))
        else:
            line.again = None

    def _again(self, waiter: _Waiter, nth: int) -> tuple[Done | None, bool]:
        try:
            return waiter.request.again(nth)
        except PyrmqError as e:
            return Response(e.code or ResponseCode.SYSTEM_ERROR, str(e.args[0])), True
        except Exception:
            log.exception(
                "a pop of %s that waits",
                escape(waiter.request.key[0]),
                extra=about(topic=waiter.request.key[0]),
            )
            text = f"request {waiter.to.code} failed: the log of the broker says why"
            return Response(ResponseCode.SYSTEM_ERROR, text), True

    def _finish(self, waiter: _Waiter, answer: Done) -> None:
        if self._forget(waiter):
            self._answer(waiter.connection, waiter.to, answer)

    def _forget(self, waiter: _Waiter) -> bool:
        if self._waiters.pop(waiter.number, None) is None:
            return False
        line = self._lines[waiter.request.key]
        del line.waiters[waiter.number]
        if not line.waiters:
            del self._lines[line.key]
            for topic in line.topics:
                lines = self._lines_of[topic]
                del lines[line.key]
                if not lines:
                    del self._lines_of[topic]
        mine = self._of_connection[waiter.connection]
        mine.waiters.discard(waiter)
        mine.bytes -= waiter.cost
        self._bytes -= waiter.cost
        if not mine.waiters:
            del self._of_connection[waiter.connection]
        return True

    def end(self, topics: Set[str], response: Callable[[str], Response]) -> None:
        """Answers what waits for these topics with `response(topic)`: they are gone."""
        for waiter in list(self._waiters.values()):
            topic = waiter.request.key[0]
            if topic in topics:
                self._finish(waiter, response(topic))
        for topic in topics:
            self._marked.pop(topic, None)

    def release_all(self) -> None:
        """Answers everything that waits as if its time were over: clients ask again."""
        for waiter in list(self._waiters.values()):
            self._finish(waiter, waiter.request.over())

    def stop(self) -> None:
        """The same, and nothing more is kept."""
        self._stopped = True
        self.release_all()

    def connection_gone(self, connection: Connection) -> None:
        mine = self._of_connection.get(connection)
        for waiter in list(mine.waiters) if mine is not None else ():
            self._forget(waiter)

    async def run(self) -> None:
        """Answers what has waited long enough, until cancelled."""
        while True:
            self._sooner = trio.Event()
            now, end = trio.current_time(), time.monotonic() + TURN_SECONDS
            while self._deadlines and self._deadlines[0][0] <= now and time.monotonic() < end:
                waiter = self._waiters.get(heapq.heappop(self._deadlines)[1])
                if waiter is not None:
                    answer, _ = self._again(waiter, 0)
                    self._finish(waiter, answer or waiter.request.over())
            self._do_some()
            wait = self._deadlines[0][0] - now if self._deadlines else LONGEST_SLEEP
            if wait <= 0 or self._work:
                await trio.lowlevel.checkpoint()
                continue
            with trio.move_on_after(min(max(wait, 0.001), LONGEST_SLEEP)):
                await self._sooner.wait()
