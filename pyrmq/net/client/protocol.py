"""One client connection without its socket: requests, answers, time-outs, and when it is given up.

A driver owns the socket and the clock. It writes what `request`, `oneway` and `answer_frame`
return, passes on what arrives and what time it is, and acts on the events it gets back:

    request, head = protocol.request(code, ext, len(body), now=now, timeout=3.0)
    for event in protocol.receive_bytes(data, now): ...
    for event in protocol.expire(now): ...

`Channel` drives it on trio, `BlockingChannel` on a blocking socket. Frames are split by the engine
(`Session`, made without a store). Times are seconds of a clock that only goes forward.

A request is in flight until exactly one thing ends it (`Outcome`). What a hostile peer can make it
keep is bounded: a frame has at most 16 MiB (the engine's limit), an answer is kept only if its
request is in flight, and requests of the peer are handed out up to a number and a size at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyrmq.engine import Command, Listener, RecvBuffer, Session, Space
from pyrmq.errors import ClientError, ConnectError, EngineError, RequestTimeoutError
from pyrmq.model.codes import request_text
from pyrmq.net.command import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    JSON,
    Response,
    encode_header,
    encode_response,
    frame_head,
)

Ext = Mapping[str, str | int | bool]
"""Ext fields of a request. (Where a `str` is taken as well it is what `json_fields` makes.)"""
FOREVER = float("inf")
MAX_OPAQUE = 0x7FFFFFFF
MAX_SERVER_REQUESTS = 4096
MAX_SERVER_REQUEST_BYTES = 64 << 20
"""Requests of a peer that are handed out and not finished, and the size of their bodies and fields;
further ones are dropped. (One request may be larger than that if it is the only one.)"""


class Outcome(Enum):
    """What ended a request."""

    ANSWERED = "its answer came"
    TIMED_OUT = "its time was over"
    LOST = "the connection ended"
    FORGOTTEN = "nobody waits for it any more"


class GiveUp(Enum):
    """When a request that timed out means that the connection may be dead without a word."""

    SILENT = "nothing at all arrived since the request was sent"
    TIMED_OUT = "always: another connection is cheap, and nobody else uses this one"


class CloseReason(Enum):
    """Why a connection ended; `Closed.text` may say more."""

    CLOSED = "closed"
    HUNG_UP = "the other end hung up"
    PROTOCOL = "it broke the protocol"
    NO_ANSWER = "it did not answer"
    STALLED = "it takes no data"
    FAILED = "input or output failed"


SPEAKS_TLS = "it speaks TLS on this port: turn TLS on here as well"
PEERS = (CloseReason.HUNG_UP, CloseReason.FAILED)
"""Ends that are the peer's wish, as far as is known here."""
MAY_WANT_TLS = "a server that accepts only TLS does so: turn TLS on (tls=, --tls-ca, --tls)"
MAY_REFUSE = "a server that refuses the client's certificate, or wants one, does so"
LATE = "; is the secret key right? After failed logins a server delays its answers"
"""For a client that signs and has heard nothing."""
_SAYS_SO = "client's certificate"
"""In a text that already says that a certificate is the reason."""
TLS_RECORDS = range(0x14, 0x18)
"""The first bytes of records of TLS."""
SILENCE = 0.1
"""Seconds without a word from which on a connection may be dead: a request may have had less time
than an answer takes. [NettyRemotingClient.invokeSync]"""


def gives_up(rule: GiveUp, sent_at: float, received_at: float, now: float) -> bool:
    """Whether a time-out ends the connection, by when the request was sent and when anything
    arrived last."""
    return rule is GiveUp.TIMED_OUT or (received_at < sent_at and now - sent_at >= SILENCE)


class Request:
    """A request that was made; `waiter` is the driver's own.

    `outcome` is None while it is in flight, `answer` is there once it was ANSWERED.
    """

    __slots__ = ("answer", "code", "deadline", "opaque", "outcome", "sent_at", "timeout", "waiter")

    def __init__(self, code: int, opaque: int, now: float, timeout: float) -> None:
        self.code = code
        self.opaque = opaque
        self.sent_at = now
        self.timeout = timeout
        self.deadline = now + timeout
        self.outcome: Outcome | None = None
        self.answer: Command | None = None
        self.waiter: Any = None


@dataclass(slots=True)
class RequestEnded:
    """A request is no longer in flight; `request.outcome` says why."""

    request: Request


@dataclass(slots=True)
class ServerRequest:
    """The peer asks. The driver calls `finish_server_request` when it is through with it."""

    command: Command
    size: int
    """Of body, fields and remark."""


@dataclass(slots=True)
class Closed:
    """The connection ended; nothing follows."""

    reason: CloseReason
    text: str


Event = RequestEnded | ServerRequest | Closed


class ClientProtocol:
    """`name` is the peer's address for error texts, `now` when the connection was opened. `plain`:
    without TLS, so that errors say where the peer seems to want it."""

    def __init__(
        self,
        name: str,
        now: float,
        *,
        give_up: GiveUp = GiveUp.SILENT,
        max_server_requests: int = MAX_SERVER_REQUESTS,
        plain: bool = True,
        signed: bool = False,
    ) -> None:
        self.name = name
        self._signed = signed
        self._plain, self._unheard = plain, True
        """`_unheard`: the peer has said nothing yet."""
        self.closed: Closed | None = None
        """How the connection ended."""
        self.server_requests = self.server_request_bytes = 0
        """Requests of the peer that are handed out and not finished."""
        self.dropped_server_requests = 0
        self._give_up = give_up
        self._max_server_requests = max_server_requests
        self._session = Session(Listener(), b"\0\0\0\0", 0)
        self._opaque = 0
        self._in_flight: dict[int, Request] = {}
        self._received_at = now
        self.silent = False
        """Whether nothing has arrived since a request was sent that timed out."""
        self._earliest = FOREVER
        """No request in flight has a deadline before this."""

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._in_flight)

    @property
    def expires(self) -> float:
        """When `expire` is to be called next, at the latest."""
        return self._earliest

    # Out.

    def request(
        self,
        code: int,
        ext: Ext | str | None,
        body_size: int = 0,
        *,
        now: float,
        timeout: float,
        codec: int = JSON,
    ) -> tuple[Request, bytes]:
        """A request and the head of its frame, which its body of `body_size` bytes follows.

        `codec` is the serialize type (JSON or ROCKETMQ). ConnectError if the connection ended,
        ValueError for fields that are too long for a header.
        """
        self.check_open()
        opaque = self._next_opaque()
        head = frame_head(codec, encode_header(codec, code, opaque, 0, ext), body_size)
        request = self._in_flight[opaque] = Request(code, opaque, now, timeout)
        if request.deadline < self._earliest:
            self._earliest = request.deadline
        return request, head

    def oneway(
        self,
        code: int,
        ext: Ext | str | None,
        body_size: int = 0,
        *,
        remark: str | None = None,
        codec: int = JSON,
    ) -> bytes:
        """The head of the frame of a request that is not answered. Raises as `request`."""
        self.check_open()
        header = encode_header(codec, code, self._next_opaque(), FLAG_ONEWAY, ext, remark)
        return frame_head(codec, header, body_size)

    def answer_frame(self, command: Command, response: Response | None) -> bytes | None:
        """The answer to a request of the peer; None if there is none to be sent."""
        if response is None or command.flag & FLAG_ONEWAY or self.closed is not None:
            return None
        return b"".join(bytes(part) for part in encode_response(command, response))

    def finish_server_request(self, request: ServerRequest) -> None:
        """A request of the peer is dealt with: there is room for another one."""
        self.server_requests -= 1
        self.server_request_bytes -= request.size

    def _take_server_request(self, command: Command) -> ServerRequest | None:
        """None if there is no room for it."""
        if self.server_requests >= self._max_server_requests:
            return None
        size = _size(command)
        total = self.server_request_bytes + size
        if self.server_request_bytes and total > MAX_SERVER_REQUEST_BYTES:
            return None
        self.server_requests += 1
        self.server_request_bytes = total
        return ServerRequest(command, size)

    def _next_opaque(self) -> int:
        while True:
            self._opaque = opaque = (self._opaque + 1) & MAX_OPAQUE
            if opaque not in self._in_flight:
                return opaque

    # In.

    def receive_bytes(self, data: bytes, now: float) -> list[Event]:
        """Takes what arrived; nothing means that the peer hung up."""
        if not data:
            return self.close(CloseReason.HUNG_UP)
        if self.closed is not None:
            return []
        now_ms = self._arrived(now)
        if self._unheard and self._is_tls(data):
            return self.close(CloseReason.PROTOCOL, SPEAKS_TLS)
        try:
            self._session.feed_bytes(data, now_ms)
        except EngineError as error:
            return self.close(CloseReason.FAILED, str(error))
        return self._commands(now_ms)

    def receive_buffer(self, buffer: RecvBuffer, size: int, now: float) -> list[Event]:
        """Takes the first `size` bytes of a buffer; 0 after `filled`."""
        if self.closed is not None:
            return []
        now_ms = self._arrived(now)
        if self._unheard and size and self._is_tls(memoryview(buffer)[:size]):
            return self.close(CloseReason.PROTOCOL, SPEAKS_TLS)
        try:
            self._session.feed(buffer, size, now_ms)
        except EngineError as error:
            return self.close(CloseReason.FAILED, str(error))
        return self._commands(now_ms)

    def space(self) -> Space | None:
        """Where the rest of a large frame is to be received into, None if none is under way.
        `filled` has to follow, and then `receive_buffer` with a size of 0."""
        session = self._session
        return session.space() if session.large and self.closed is None else None

    def filled(self, size: int) -> None:
        """`size` bytes of the last `space` were received; 0 if there was none."""
        self._session.filled(size)

    def _is_tls(self, data: bytes | memoryview) -> bool:
        """Whether what came first is an alert or another record of TLS: as the length of a frame it
        would be 320 MiB and more."""
        self._unheard = False
        return self._plain and len(data) > 1 and data[0] in TLS_RECORDS and data[1] == 3

    def _arrived(self, now: float) -> int:
        self._received_at = now
        self.silent = False
        return int(now * 1000)

    def _commands(self, now_ms: int) -> list[Event]:
        session, in_flight = self._session, self._in_flight
        events: list[Event] = []
        while True:
            while (command := session.next_command()) is not None:
                if command.flag & FLAG_RESPONSE:
                    request = in_flight.pop(command.opaque, None)
                    if request is not None:
                        request.answer = command
                        request.outcome = Outcome.ANSWERED
                        events.append(RequestEnded(request))
                elif (asked := self._take_server_request(command)) is not None:
                    events.append(asked)
                else:
                    self.dropped_server_requests += 1
            if session.error is not None:
                events += self.close(CloseReason.PROTOCOL, session.error)
                return events
            if not session.more:
                return events
            try:
                session.feed_bytes(b"", now_ms)
            except EngineError as error:
                events += self.close(CloseReason.FAILED, str(error))
                return events

    # Ends.

    def expire(self, now: float) -> list[Event]:
        """Ends the requests whose time is over, and the connection if they mean that it is dead."""
        events: list[Event] = []
        if now < self._earliest:
            return events
        late = [r for r in self._in_flight.values() if r.deadline <= now]
        dead = False
        for request in late:
            events.append(self._end(request, Outcome.TIMED_OUT))
            self.silent |= self._received_at < request.sent_at
            dead |= gives_up(self._give_up, request.sent_at, self._received_at, now)
        self._earliest = min((r.deadline for r in self._in_flight.values()), default=FOREVER)
        if dead:
            events += self.close(CloseReason.NO_ANSWER, f"{CloseReason.NO_ANSWER.value} in time")
        return events

    def restart(self, request: Request, now: float, timeout: float) -> None:
        """The time of a request begins anew."""
        request.timeout = timeout
        request.deadline = now + timeout
        self._earliest = min(self._earliest, request.deadline)

    def forget(self, request: Request) -> None:
        """Nobody waits for the answer any more. Nothing happens to a request that has ended."""
        if request.outcome is None:
            self._end(request, Outcome.FORGOTTEN)

    def close(self, reason: CloseReason, text: str = "") -> list[Event]:
        """The connection ends, and every request in flight with it. The first reason stays."""
        if self.closed is not None:
            return []
        if reason in PEERS and self._unheard and self._opaque:
            hint = MAY_WANT_TLS if self._plain else MAY_REFUSE
            if _SAYS_SO not in text:
                text = f"{text or reason.value}, before it answered anything; {hint}"
        elif not text:
            text = reason.value
        elif reason is CloseReason.PROTOCOL:
            text = f"{reason.value}: {text}"
        self.closed = Closed(reason, text)
        lost = list(self._in_flight.values())
        return [*(self._end(request, Outcome.LOST) for request in lost), self.closed]

    def _end(self, request: Request, outcome: Outcome) -> RequestEnded:
        del self._in_flight[request.opaque]
        request.outcome = outcome
        return RequestEnded(request)

    # For whoever waits.

    def result(self, request: Request) -> Command | None:
        """The answer; None while the request is in flight. RequestTimeoutError, ConnectError or
        (for one that was forgotten) ClientError if there will be none."""
        if request.outcome is Outcome.TIMED_OUT:
            raise RequestTimeoutError(
                f"{self.name} did not answer in {request.timeout:.3g} s "
                f"(request {request_text(request.code)})"
                f"{LATE if self._signed and self._unheard else ''}"
            )
        if request.outcome is Outcome.LOST:
            self.check_open()
        if request.outcome is Outcome.FORGOTTEN:
            raise ClientError(f"the answer to request {request.code} is not waited for any more")
        return request.answer

    def check_open(self) -> None:
        """ConnectError once the connection has ended."""
        if self.closed is not None:
            raise ConnectError(f"connection to {self.name} is gone: {self.closed.text}")


def _size(command: Command) -> int:
    fields = sum(len(name) + len(value) for name, value in command.ext.items())
    return len(command.body) + fields + len(command.remark or "")
