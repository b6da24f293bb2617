"""An assistant: the SDK's own client, in front of the real process or of the server alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from pyrmq.admin import Admin
from pyrmq.mcp.answers import UNTRUSTED
from pyrmq.mcp.server import AdminServer
from pyrmq.net.address import format_address
from pyrmq.server import Running

ROOT = Path(__file__).parents[2]
Elicit = Callable[[Any, types.ElicitRequestParams], Awaitable[types.ElicitResult]]


@asynccontextmanager
async def in_process(
    namesrv: str, *, changes: bool = False, seconds: float = 30, **options: Any
) -> AsyncIterator[Client]:
    """The server in this process, with an Admin of its own."""
    async with Admin(namesrv) as admin:
        server = AdminServer(admin, changes=changes, seconds=seconds, user="tester")
        async with Client(server.sdk, **options) as client:
            yield client


@asynccontextmanager
async def as_process(
    namesrv: str, log: Path, *words: str, env: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """`pyrmq mcp` over stdin and stdout; its stderr goes to `log`."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pyrmq", "mcp", "-n", namesrv, *words],
        env={"HOME": str(log.parent), "PATH": os.environ["PATH"], **(env or {})},
        cwd=ROOT,
    )
    with log.open("w") as errors:
        async with Client(stdio_client(command, errors), **options) as client:
            yield client


def address(running: Running) -> str:
    """Of the broker."""
    return format_address(running.broker_address)


def data(found: types.CallToolResult) -> Any:
    """The data of a result. It stands in a block of its own, behind a note that says what it is."""
    assert not found.is_error, found.content
    note, block = found.content
    assert isinstance(note, types.TextContent)
    assert isinstance(block, types.TextContent)
    assert UNTRUSTED in note.text
    assert block.meta == {"untrusted": True}
    return json.loads(block.text)


def note(found: types.CallToolResult) -> str:
    """What stands before the data."""
    assert isinstance(found.content[0], types.TextContent)
    return found.content[0].text


def error(found: types.CallToolResult) -> str:
    assert found.is_error, found.content
    return note(found)


def plan_of(found: types.CallToolResult) -> str:
    """The plan that a call without `confirm` gives."""
    text = note(found)
    assert text.startswith("Nothing was changed."), text
    return text.partition("confirm: '")[2].partition("'")[0]
