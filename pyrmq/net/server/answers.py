"""What processors return; the server acts on it.

A processor decides and returns one of these. It sends nothing, keeps no connection waiting and
closes none. None means that the request gets no answer at all.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from pyrmq.engine import Command, Slice
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import AnswerTooLong, ReplyTo, Response, encode_response
from pyrmq.net.server.answer_times import FAILED, NOT_SENT, ONEWAY, SUCCESS
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Event

log = logging.getLogger(__name__)

LOG_INTERVAL = 1.0
"""Seconds between two log lines about answers that are too long."""
_next_log = 0.0


class Pull(Protocol):
    """A checked pull that found nothing."""

    topic: str
    queue_id: int
    offset: int

    @property
    def cost(self) -> int:
        """About how many bytes it takes while it waits."""

    def read(self) -> Response:
        """Reads once and answers, whatever there is."""

    def read_on(self) -> Response | None:
        """Reads the messages that have come; None if the pull wants none of them."""


@dataclass(frozen=True, slots=True)
class WhenConfirmed:
    """The answer leaves once the log is confirmed up to `log_end` (0: at once). Its code is
    SUCCESS."""

    response: Response
    log_end: int


@dataclass(frozen=True, slots=True)
class Park:
    """The pull waits for a message, at most `seconds`. `otherwise` is the answer when too many
    pulls are parked already."""

    pull: Pull
    seconds: float
    otherwise: Response


@dataclass(frozen=True, slots=True)
class Resend:
    """The session handles the send's frame again. `topic`: the message goes back to a consumer
    group, to this retry topic or (`dead`) to this dead-letter topic."""

    frame: bytes
    topic: str = ""
    dead: bool = False


@dataclass(frozen=True, slots=True)
class After:
    """The server acts on `then` once `ready` has returned. Requests that wait for one `key` are
    acted on in the order in which they came. If `ready` fails, all of them get `failed(error)`."""

    key: str
    ready: Callable[[], Awaitable[None]]
    then: WhenConfirmed | Resend | Response
    failed: Callable[[Exception], Response]
    busy: Callable[[], Response]
    """The answer when too many requests wait for this key."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The server awaits `answer`. The processor bounds how many there are: they do not count among
    the requests that the server awaits at a time."""

    answer: Coroutine[Any, Any, Response | WhenConfirmed | Park | Resend | After | Keep | None]


@dataclass(frozen=True, slots=True)
class InTurns:
    """The server awaits `answer`, which works in turns (`turns.Turns`). That is fair to each
    connection, so these do not count among the requests that the server awaits at a time."""

    answer: Coroutine[Any, Any, Response | None]


@dataclass(frozen=True, slots=True)
class Keep:
    """`keep` gets whom the answer is for. It answers now or later, with `RemotingServer.answer`,
    and bounds what it keeps."""

    keep: Callable[[Connection, ReplyTo], None]


Answer = Response | WhenConfirmed | Park | Resend | After | Elsewhere | InTurns | Keep | None
Processor = Callable[[Connection, Command], Answer | Awaitable[Answer]]


class Guard(Protocol):
    """The check before each request that a processor takes."""

    def identify(self, connection: Connection, command: Command) -> Response | InTurns | str:
        """Who makes the request, or what refuses it. Its body is still whole."""

    def authorize(self, connection: Connection, command: Command, name: str) -> Response | None:
        """What refuses a request of whom `identify` named; None: it may be done."""


def encoded(command: Command | ReplyTo, response: Response) -> list[bytes | Slice]:
    """The buffers of an answer. None of them if it cannot be encoded, which is logged; those of an
    error if the answer does not fit into a frame."""
    try:
        return encode_response(command, response)
    except AnswerTooLong as e:
        _log_too_long(command.code, e)
        text = f"{e}: ask for less"
        return encode_response(command, Response(ResponseCode.SYSTEM_ERROR, text))
    except (ValueError, OverflowError, struct.error):
        log.exception(
            "answer to request %d cannot be encoded",
            command.code,
            extra=about(request=command.code),
        )
        return []


def _log_too_long(code: int, error: AnswerTooLong) -> None:
    """Logs it at most once in LOG_INTERVAL, as the client may ask again at once."""
    global _next_log
    now = time.monotonic()
    if now >= _next_log:
        _next_log = now + LOG_INTERVAL
        log.error("answer to request %d: %s", code, escape(error), extra=about(request=code))


def send_answer(connection: Connection, command: Command | ReplyTo, response: Response) -> None:
    """Sends an answer, unless the request was one-way. Closes a connection whose answer cannot be
    encoded, as its peer would wait in vain."""
    if command.flag & 2:
        answered(connection, command, response.code, ONEWAY)
        return
    pieces = encoded(command, response)
    if pieces:
        connection.send(*pieces)
        answered(connection, command, response.code, FAILED if response.failed else SUCCESS)
    else:
        connection.happened(Event.END)
        answered(connection, command, response.code, FAILED)


def answered(
    connection: Connection, command: Command | ReplyTo, code: int, result: str = SUCCESS
) -> None:
    """Enters that a request was answered with this response code."""
    if connection.times is not None:
        result = result if connection.takes_answers or result == ONEWAY else NOT_SENT
        connection.times.answered(connection.peer, command, code, result)
