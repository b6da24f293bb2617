"""Serves one client over stdin and stdout until it leaves, or until a signal comes."""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass
from typing import Any

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.expected import Expected
from pyrmq.escape import escape
from pyrmq.mcp import stdio
from pyrmq.mcp.server import AdminServer
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class McpSettings:
    """timeout: seconds for one request to a server. call_timeout: seconds for a whole call."""

    namesrv: str
    timeout: float | None
    call_timeout: float
    allow_changes: bool
    credentials: Credentials | None
    tls: Tls | None
    expected: Expected


def run(settings: McpSettings) -> int:
    """Serves; the signal that ended it, 0 if the client left."""
    with stdio.claimed() as (source, sink):
        return trio.run(_serve, settings, source, sink)


async def _serve(settings: McpSettings, source: int, sink: int) -> int:
    ended = 0

    async def heed(task_status: Any) -> None:
        nonlocal ended
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for signum in signals:
                ended = signum
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        await nursery.start(heed)
        async with Admin(
            settings.namesrv,
            timeout=settings.timeout,
            credentials=settings.credentials,
            tls=settings.tls,
            expected=settings.expected,
        ) as admin:
            user = settings.credentials.access_key if settings.credentials else ""
            server = AdminServer(
                admin, changes=settings.allow_changes, seconds=settings.call_timeout, user=user
            )
            log.info(
                "serving %d tools for name servers %s, %s",
                server.tools,
                escape(settings.namesrv),
                escape("changes allowed" if settings.allow_changes else "read-only"),
            )
            await stdio.serve(server.sdk, source, sink)
        nursery.cancel_scope.cancel()
    return ended
