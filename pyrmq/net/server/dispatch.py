"""From a command to its answer: processors by request code, and acting on what they return.

Processors get `(connection, command)` and return an `Answer` (see `answers`) or an awaitable of
one, which then runs in the server's nursery.
"""

from __future__ import annotations

import errno
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

import trio

from pyrmq.engine import Command
from pyrmq.errors import EngineError, PyrmqError, ResponseError, StoreDamagedError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.model.request_kinds import most_body, refusal
from pyrmq.net.clock import clock_ms
from pyrmq.net.command import ReplyTo, Response, reply_to
from pyrmq.net.server.admin_access import AdminAccess
from pyrmq.net.server.answer_times import ONEWAY
from pyrmq.net.server.answers import (
    After,
    Answer,
    Elsewhere,
    Guard,
    InTurns,
    Keep,
    Park,
    Processor,
    Resend,
    WhenConfirmed,
    answered,
    send_answer,
)
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Event
from pyrmq.net.server.line import Line
from pyrmq.net.server.parked import ParkedPulls
from pyrmq.net.server.questions import Questions
from pyrmq.net.server.unconfirmed import Unconfirmed

log = logging.getLogger(__name__)

ASYNC_LIMIT = 256
"""Processors that may be awaited at the same time."""
_OWN = (EngineError, StoreDamagedError)
"""Errors whose texts name files, or are about the program itself."""
MAX_WAITING = 1024
"""Most requests that wait for one key of `After`. Their frames are in memory meanwhile."""
MAX_HELD = 512 << 20
"""Bytes of the requests of all connections that are answered later. Beyond that, large requests
are refused."""
MAX_HEADER = 1 << 20
"""Longest header of a request, bytes."""
SMALL = 64 << 10
"""Most bytes of a small request. Small requests are bounded by their number for each connection,
not by the limits above."""


class Dispatcher:
    """Runs processors and acts on what they return. If one raises, the error becomes the answer.

    `nursery` is set while it serves. `parked` is None where nothing can be parked. `admins` says
    which addresses may send administrative requests, `guard` who may send which requests.
    """

    def __init__(
        self,
        name: str,
        processors: Mapping[int, Processor],
        unconfirmed: Unconfirmed,
        parked: ParkedPulls | None = None,
        questions: Questions | None = None,
        admins: AdminAccess | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.nursery: trio.Nursery | None = None
        self._name = name
        self._guard = guard
        self._admins = admins or AdminAccess()
        self._processors = self._admins.guarded(processors)
        self._unconfirmed = unconfirmed
        self._parked = parked
        self._questions = questions or Questions()
        self._limit = trio.CapacityLimiter(ASYNC_LIMIT)
        self._awaited = 0
        self._held = 0
        """Bytes of requests that are answered later."""
        self._waiting: dict[str, list[tuple[Connection, ReplyTo, After, int, int]]] = {}
        self.line = Line()
        """Requests that wait for a key of `After`."""
        self._acts: dict[type, Callable[[Connection, Command | ReplyTo, Any], None]] = {
            Response: send_answer,
            WhenConfirmed: self._when_confirmed,
            Park: self._park,
            Resend: self._resend,
            After: self._after,
            Elsewhere: self._elsewhere,
            InTurns: self._in_turns,
            Keep: lambda connection, command, answer: answer.keep(
                connection, parks(connection, command)
            ),
            type(None): lambda connection, command, answer: ends_silent(connection, command),
        }

    def add(self, processors: Mapping[int, Processor]) -> None:
        """From now on these answer as well."""
        self._processors |= self._admins.guarded(processors)

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited now, or is about to be."""
        return bool(self._awaited or self._waiting)

    def process(self, connection: Connection, command: Command) -> None:
        """Answers one request, now or later."""
        if command.flag & 1:
            self._questions.answered(connection, command)
            return
        processor = self._processors.get(command.code)
        answer: Answer | Awaitable[Answer]
        if self._guard is not None:
            answer = self._guarded(self._guard, processor, connection, command)
        elif processor is None:
            answer = Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, refusal(command.code))
        elif command.size > SMALL and (refused := self._refused(command)) is not None:
            answer = refused
        else:
            try:
                answer = processor(connection, command)
            except Exception as e:
                answer = self._failed(command, e)
        if type(answer) in self._acts:
            self.act(connection, command, answer)
        elif self.nursery is not None and inspect.iscoroutine(answer):
            self._begin(connection, command, answer, self._limit)

    def _guarded(
        self,
        guard: Guard,
        processor: Processor | None,
        connection: Connection,
        command: Command,
    ) -> Answer | Awaitable[Answer]:
        """The answer of a processor behind the check. A signature covers the body, so the check
        begins before a body is forgotten. A stranger is not told which requests are supported."""
        try:
            if command.size > SMALL and (refused := _illegal(command)) is not None:
                return refused  # its signature is not worth the time
            name = guard.identify(connection, command)
            if not isinstance(name, str):
                return name
            if processor is None:
                return Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, refusal(command.code))
            if command.size > SMALL and (refused := self._refused(command)) is not None:
                return refused
            forbidden = guard.authorize(connection, command, name)
            return processor(connection, command) if forbidden is None else forbidden
        except Exception as e:
            return self._failed(command, e)

    def _refused(self, command: Command) -> Response | None:
        """The refusal of a large request: it is larger than any valid one of its code, or there is
        no room for it now. Forgets a body that requests of this code do not have."""
        if (illegal := _illegal(command)) is not None:
            return illegal
        if not most_body(command.code):
            command.drop_body()
        if command.size > SMALL and self._held + command.size > MAX_HELD:
            text = f"[OVERLOAD]requests of {self._held} bytes wait already: try again"
            return Response(ResponseCode.SYSTEM_BUSY, text)
        return None

    def act(self, connection: Connection, command: Command | ReplyTo, answer: object) -> None:
        """Does what an `Answer` says. If that fails, the error becomes the answer, as for a
        processor: it concerns this request only and must not end the server."""
        try:
            self._acts[type(answer)](connection, command, answer)
        except Exception as e:
            send_answer(connection, command, self._failed(command, e))

    def _elsewhere(
        self, connection: Connection, command: Command | ReplyTo, answer: Elsewhere
    ) -> None:
        self._begin(connection, command, answer.answer, None, elsewhere=True)

    def _in_turns(
        self, connection: Connection, command: Command | ReplyTo, answer: InTurns
    ) -> None:
        self._begin(connection, command, answer.answer, None)

    def _begin(
        self,
        connection: Connection,
        command: Command | ReplyTo,
        awaited: Awaitable[Answer],
        limit: trio.CapacityLimiter | None,
        *,
        elsewhere: bool = False,
    ) -> None:
        assert self.nursery is not None
        size = size_of(command)
        connection.begin_awaited(size, elsewhere=elsewhere)
        self._awaited += 1
        self._held += size
        self.nursery.start_soon(
            self._await, connection, reply_to(command), awaited, limit, size, elsewhere
        )

    async def _await(
        self,
        connection: Connection,
        command: ReplyTo,
        awaited: Awaitable[Answer],
        limit: trio.CapacityLimiter | None,
        size: int,
        elsewhere: bool,
    ) -> None:
        try:
            async with limit or nullcontext():
                try:
                    answer = await awaited
                except Exception as e:
                    answer = self._failed(command, e)
        finally:
            self._awaited -= 1
            self._held -= size
        self.act(connection, command, answer)
        connection.end_awaited(size, elsewhere=elsewhere)

    def _when_confirmed(
        self, connection: Connection, command: Command | ReplyTo, answer: WhenConfirmed
    ) -> None:
        self._unconfirmed.answer(connection, command, answer)
        self.wake_parked()  # what was stored may be what somebody waits for

    def _park(self, connection: Connection, command: Command | ReplyTo, answer: Park) -> None:
        parked, to = self._parked, parks(connection, command)
        if parked is None or not parked.park(connection, to, answer.pull, answer.seconds):
            send_answer(connection, command, answer.otherwise)

    def _resend(self, connection: Connection, command: Command | ReplyTo, answer: Resend) -> None:
        session = connection.session
        try:
            reply = session.resend(
                answer.frame, clock_ms(), answer.topic, answer.dead, command.since_us
            )
        except EngineError:
            log.exception(
                "%s: closing %s",
                self._name,
                connection.peer,
                extra=about(connection=connection.peer),
            )
            connection.happened(Event.END)  # as for any frame that the engine cannot handle
            return
        if reply is not None:
            connection.send(reply)
        if session.error is not None:
            connection.happened(Event.PROTOCOL_ERROR)
        if session.unconfirmed:
            self._unconfirmed.note(connection)
        if session.arrivals:
            self.wake_parked()

    def _after(self, connection: Connection, command: Command | ReplyTo, answer: After) -> None:
        waiting = self._waiting.get(answer.key, [])
        size = len(answer.then.frame) if isinstance(answer.then, Resend) else 0
        if len(waiting) >= MAX_WAITING or (size > SMALL and self._held + size > MAX_HELD):
            send_answer(connection, command, answer.busy())
            return
        self._waiting[answer.key] = waiting
        waiting.append((connection, reply_to(command), answer, self.line.join(), size))
        connection.begin_awaited(size)
        self._held += size
        if len(waiting) == 1:
            assert self.nursery is not None
            self.nursery.start_soon(self._when_ready, answer)

    async def _when_ready(self, first: After) -> None:
        """Acts on all requests that wait for a key, in the order in which they came."""
        error: Exception | None = None
        try:
            await first.ready()
        except Exception as e:  # whatever it is (no thread, say): nobody may wait for ever
            log.error("%s: %s failed: %s", self._name, escape(first.key), escape(e))
            error = e
        for connection, command, answer, place, size in self._waiting.pop(first.key):
            self.line.leave(place)
            self._held -= size
            if error is None:
                self.act(connection, command, answer.then)
            else:
                send_answer(connection, command, answer.failed(error))
            connection.end_awaited(size)

    def wake_parked(self) -> None:
        """Answers parked pulls on queues that have grown."""
        if self._parked is None:
            return
        try:
            self._parked.wake()
        except Exception:
            log.exception("%s: waking parked pulls", self._name)

    def _failed(self, command: Command | ReplyTo, error: Exception) -> Response:
        if isinstance(error, ResponseError) and error.code is not None:
            return Response(error.code, error.args[0] if error.args else None)
        if isinstance(error, PyrmqError) and not isinstance(error, _OWN):
            return Response(ResponseCode.SYSTEM_ERROR, str(error))
        # Paths and the program's own words are for the log: they are nobody else's business.
        text = f"request {command.code} failed"
        if isinstance(error, OSError):  # of the disk, most likely
            # The engine says once a minute which place of the disk cannot be read.
            level = logging.DEBUG if error.errno == errno.EIO else logging.ERROR
            log.log(
                level,
                "%s: request %d failed: %s",
                self._name,
                command.code,
                escape(error),
                extra=about(request=command.code),
            )
            text += f", {os.strerror(error.errno)}" if error.errno else ""
        elif isinstance(error, _OWN):
            log.error(
                "%s: request %d failed: %s",
                self._name,
                command.code,
                escape(error),
                extra=about(request=command.code),
            )
        else:
            log.error(
                "%s: request %d failed",
                self._name,
                command.code,
                exc_info=error,
                extra=about(request=command.code),
            )
        text = f"{text}: the log of the {self._name} says why"
        return Response(ResponseCode.SYSTEM_ERROR, text, failed=True)


def _illegal(command: Command) -> Response | None:
    """The refusal of a request that is larger than any valid one of its code."""
    body = len(command.body)
    header = command.size - body
    if header > MAX_HEADER:
        text = f"the header has {header} bytes: at most {MAX_HEADER}"
        return Response(ResponseCode.MESSAGE_ILLEGAL, text)
    most = most_body(command.code)
    if body > most > 0:
        text = f"the body has {body} bytes: at most {most} for request {command.code}"
        return Response(ResponseCode.MESSAGE_ILLEGAL, text)
    return None


def parks(connection: Connection, command: Command | ReplyTo) -> ReplyTo:
    """Whom the answer is for of a request that waits for messages from now on."""
    if connection.times is None:
        return reply_to(command)
    return connection.times.parks(connection.peer, command)


def ends_silent(connection: Connection, command: Command | ReplyTo) -> None:
    """A request gets no answer."""
    if command.flag & 2:
        answered(connection, command, ResponseCode.SUCCESS, ONEWAY)


def size_of(command: Command | ReplyTo) -> int:
    """Bytes that are kept of a request while it waits."""
    return command.size if isinstance(command, Command) else 0
