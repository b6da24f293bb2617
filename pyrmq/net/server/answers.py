"""What processors return, for the server to act on.

A processor decides and returns one of these; it sends nothing, keeps no connection waiting and
closes none. None means that a request gets no answer at all.
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
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import AnswerTooLong, ReplyTo, Response, encode_response
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.connection_state import Event

log = logging.getLogger(__name__)

LOG_INTERVAL = 1.0
"""Seconds between two answers that are too long and logged."""
_next_log = 0.0


class Pull(Protocol):
    """A pull that found nothing, as it was checked."""

    topic: str
    queue_id: int
    offset: int

    @property
    def cost(self) -> int:
        """Bytes that it takes while it waits, about."""

    def read(self) -> Response:
        """Reads once and answers, whatever there is."""

    def read_on(self) -> Response | None:
        """Reads what has come; None while nothing of it is wanted."""


@dataclass(frozen=True, slots=True)
class Durable:
    """The answer leaves once the log is confirmed up to `end` (0: at once). Its code is SUCCESS."""

    response: Response
    end: int


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
    """`then` counts when `ready` has returned. What waits for one `key` is acted on in the order in
    which it came; if `ready` fails, all of it is answered with `failed(error)`."""

    key: str
    ready: Callable[[], Awaitable[None]]
    then: Durable | Resend | Response
    failed: Callable[[Exception], Response]
    busy: Callable[[], Response]
    """The answer when too many requests wait for this key."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`answer` is awaited, and bounded by its processor: it takes no place among the requests that
    the server awaits at a time."""

    answer: Coroutine[Any, Any, Response | Durable | Park | Resend | After | None]


@dataclass(frozen=True, slots=True)
class InTurns:
    """`answer` is awaited and takes turns (`turns.Turns`), which is fair to each connection: it
    takes no place among the requests that the server awaits at a time."""

    answer: Coroutine[Any, Any, Response | None]


Answer = Response | Durable | Park | Resend | After | Elsewhere | InTurns | None
Processor = Callable[[Connection, Command], Answer | Awaitable[Answer]]


def encoded(command: Command | ReplyTo, response: Response) -> list[bytes | Slice]:
    """The buffers of an answer; none if it cannot be encoded, which is logged. An error in place of
    one that no client would take, as it does not fit into a frame."""
    try:
        return encode_response(command, response)
    except AnswerTooLong as e:
        _log_too_long(command.code, e)
        text = f"{e}: ask for less"
        return encode_response(command, Response(ResponseCode.SYSTEM_ERROR, text))
    except (ValueError, OverflowError, struct.error):
        log.exception("answer to request %d cannot be encoded", command.code)
        return []


def _log_too_long(code: int, error: AnswerTooLong) -> None:
    """Says so at most once a second: whoever asks may ask again at once."""
    global _next_log
    now = time.monotonic()
    if now >= _next_log:
        _next_log = now + LOG_INTERVAL
        log.error("answer to request %d: %s", code, escape(error))


def send_answer(connection: Connection, command: Command | ReplyTo, response: Response) -> None:
    """Sends an answer, unless the request was one-way. A connection whose answer cannot be encoded
    is closed: its peer would wait for nothing."""
    if command.flag & 2:
        return
    pieces = encoded(command, response)
    if pieces:
        connection.send(*pieces)
    else:
        connection.happened(Event.END)
