"""MCP over stdin and stdout, on trio: a line is a message.

While it serves, descriptor 0 is at its end and descriptor 1 is stderr, so that nothing but the
protocol reaches the client. Lines are bounded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import mcp_types
import trio
from mcp.server import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from pyrmq.escape import escape, json_line

log = logging.getLogger(__name__)

MAX_LINE = 1 << 20
"""Bytes of a message of the client."""
_CHUNK = 64 << 10


@contextmanager
def claimed() -> Iterator[tuple[int, int]]:
    """Descriptors of the client's ends; others cannot write there meanwhile."""
    with _moved(0, os.open(os.devnull, os.O_RDONLY)) as source, _moved(1, _stderr()) as sink:
        yield source, sink


def _stderr() -> int:
    """A copy of stderr, or nothing where it is closed."""
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


@contextmanager
def _moved(fd: int, instead: int) -> Iterator[int]:
    kept = os.dup(fd)
    os.dup2(instead, fd)
    os.close(instead)
    try:
        yield kept
    finally:
        os.dup2(kept, fd)
        os.close(kept)


async def serve(server: Server[Any], source: int, sink: int) -> None:
    """Answers the client until it closes its end."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    one_writes = trio.Lock()

    async def say(text: str) -> None:
        async with one_writes:
            with suppress(OSError):  # a client that is gone closed our stdin too
                await trio.to_thread.run_sync(_write_all, sink, text.encode() + b"\n")

    async def read() -> None:
        async with to_server:
            async for line in _lines(source):
                try:
                    message = _parsed(line)
                except ValueError as e:
                    log.warning("a message of the client is invalid: %s", escape(e))
                    await say(_refusal(str(e)))
                    continue
                try:
                    await to_server.send(message)
                except anyio.BrokenResourceError:
                    return

    async def write() -> None:
        async with to_client:
            async for item in to_client:
                await say(item.message.model_dump_json(by_alias=True, exclude_unset=True))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(write)
        await server.run(incoming, outgoing, server.create_initialization_options())
        nursery.cancel_scope.cancel()


def _parsed(line: bytes | None) -> SessionMessage:
    """ValueError for what is no message."""
    if line is None:
        raise ValueError(f"it has more than {MAX_LINE} bytes")
    try:
        found = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as e:
        raise ValueError(f"it is no JSON-RPC message ({e.error_count()} errors)") from None
    return SessionMessage(found)


def _refusal(text: str) -> str:
    error = {"code": mcp_types.PARSE_ERROR, "message": f"invalid message: {text}"}
    return json_line({"jsonrpc": "2.0", "id": None, "error": error})


async def _lines(source: int) -> AsyncIterator[bytes | None]:
    """The client's lines; None instead of one that is too long."""
    kept = bytearray()
    too_long = False
    while True:
        chunk = await trio.to_thread.run_sync(os.read, source, _CHUNK, abandon_on_cancel=True)
        if not chunk:
            return
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            kept += end
            if too_long or len(kept) > MAX_LINE:
                yield None
            elif kept.strip():
                yield bytes(kept)
            kept.clear()
            too_long = False
        kept += rest
        if len(kept) > MAX_LINE:
            kept.clear()
            too_long = True


def _write_all(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]
