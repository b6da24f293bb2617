"""From a command to its answer: processors by request code.

Processors get `(connection, command)` and return a Response, None (no answer, or a later one) or
an awaitable of those, which then runs in the server's nursery.
"""

from __future__ import annotations

import inspect
import logging
import struct
from collections.abc import Awaitable, Callable, Mapping

import trio

from pyrmq.engine import Command
from pyrmq.errors import PyrmqError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.net.command import Response, encode_response
from pyrmq.net.connection import Connection

log = logging.getLogger(__name__)

Answer = Response | None
Processor = Callable[[Connection, Command], Answer | Awaitable[Answer]]

ASYNC_LIMIT = 256
"""Processors that may be awaited at the same time."""
MAX_AWAITED = 64
"""Processors awaited for one connection after which it is not read on."""


def send_answer(connection: Connection, command: Command, response: Response) -> None:
    """Sends an answer, unless the request was one-way."""
    if command.flag & 2:
        return
    try:
        pieces = encode_response(command, response)
    except (ValueError, OverflowError, struct.error):
        log.exception("answer to request %d cannot be encoded", command.code)
        connection.closed = True
        return
    connection.send(*pieces)


class Dispatcher:
    """Runs processors; what one raises becomes the answer. `nursery` is set while it serves."""

    def __init__(self, name: str, processors: Mapping[int, Processor]) -> None:
        self.nursery: trio.Nursery | None = None
        self._name = name
        self._processors = processors
        self._limit = trio.CapacityLimiter(ASYNC_LIMIT)

    @property
    def busy(self) -> int:
        """Processors that are awaited now."""
        return self._limit.borrowed_tokens

    def process(self, connection: Connection, command: Command) -> None:
        if command.flag & 1:
            return  # nothing here asks clients anything that they answer
        processor = self._processors.get(command.code)
        answer: Answer | Awaitable[Answer]
        if processor is None:
            answer = Response(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f"request type {command.code} not supported",
            )
        else:
            try:
                answer = processor(connection, command)
            except Exception as e:
                answer = self._failed(command, e)
        if answer is None:
            return
        if isinstance(answer, Response):
            send_answer(connection, command, answer)
        elif self.nursery is not None and inspect.iscoroutine(answer):
            connection.begin_awaited()
            self.nursery.start_soon(self._await, connection, command, answer)

    async def _await(
        self, connection: Connection, command: Command, answer: Awaitable[Answer]
    ) -> None:
        async with self._limit:
            try:
                response = await answer
            except Exception as e:
                response = self._failed(command, e)
        if response is not None:
            send_answer(connection, command, response)
        connection.end_awaited(MAX_AWAITED)

    def _failed(self, command: Command, error: Exception) -> Response:
        if isinstance(error, ResponseError) and error.code is not None:
            return Response(error.code, error.args[0] if error.args else None)
        if isinstance(error, PyrmqError):
            return Response(ResponseCode.SYSTEM_ERROR, str(error))
        log.error("%s: request %d failed", self._name, command.code, exc_info=error)
        return Response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
