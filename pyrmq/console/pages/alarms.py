"""What monitoring and the health check find now, and what they found in the last hour.

The rules are those of `pyrmq admin monitor` and `pyrmq admin cluster health`.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.admin.monitoring.metrics import METRICS
from pyrmq.console.history import history_of
from pyrmq.console.link import admin_of
from pyrmq.console.rendering import fragment, page
from pyrmq.console.room import Room
from pyrmq.console.views.servers import servers
from pyrmq.console.watch import ROUNDS, Found
from pyrmq.net.clock import now_ms

ROOM = Room("alarms", "Alarms", "/alarms", 30)
MOST_ROWS = 200
"""Rows of a table; the rest is counted."""
STALE_MS = round(3 * ROUNDS.interval * 1000)
"""A round that is older than this says nothing of now."""


async def shown(request: Request) -> Response:
    return page(request, "alarms/list.html", **await _values(request))


async def now(request: Request) -> Response:
    """What refreshes itself."""
    return fragment(request, "alarms/now.html", live=True, **await _values(request))


async def _values(request: Request) -> dict[str, Any]:
    found = await servers(await admin_of(request))
    history = await history_of(request)
    alarms = history.found() if found.may_look else Found()
    return {
        "found": found,
        "alarms": alarms,
        "is_stale": bool(alarms.round_at) and now_ms() - alarms.round_at > STALE_MS,
        "metrics": METRICS,
        "most": MOST_ROWS,
        "interval": ROUNDS.interval,
    }


ROUTES = [Route("/alarms", shown), Route("/alarms/now", now)]
