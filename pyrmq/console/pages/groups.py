"""The consumer groups: the list, one group, one member, how a group is over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.console.charts import Line, chart
from pyrmq.console.history import history_of
from pyrmq.console.link import admin_of
from pyrmq.console.pages import group_forms, group_resets
from pyrmq.console.paging import listing, whole
from pyrmq.console.rendering import fragment, is_htmx, page
from pyrmq.console.room import Room
from pyrmq.console.views.groups import GroupRow, group_list, with_members
from pyrmq.console.views.members import MOST_ASKED, member, running
from pyrmq.console.views.one_group import (
    MOST_QUEUES,
    GroupNow,
    group_now,
)
from pyrmq.errors import InvalidParameterError, NotFoundError, ResponseError
from pyrmq.net.clock import now_ms

ROOM = Room("groups", "Groups", "/groups", 42)
COLUMNS: Mapping[str, Callable[[GroupRow], Any]] = {
    "name": lambda row: row.name,
    "lag": lambda row: row.lag,
    "rate": lambda row: row.rate,
}


async def shown(request: Request) -> Response:
    """`?system=1`: also the groups of brokers and tools."""
    admin = await admin_of(request)
    found = await group_list(admin)
    system = request.query_params.get("system") == "1"
    rows = [row for row in found.rows if system or not row.system]
    columns = {"name": COLUMNS["name"]} if found.no_lags else COLUMNS
    default = "name" if found.no_lags else "-lag"
    cut = listing(request, rows, columns, default, lambda row: row.name)
    return page(
        request,
        "groups/list.html",
        list=cut,
        rows=await with_members(admin, cut.rows, lags=bool(found.no_lags)),
        system=system,
        hidden=sum(row.system for row in found.rows),
        no_lags=found.no_lags,
        failed=found.failed,
    )


async def one(request: Request) -> Response:
    now, settings = await group_forms.group_of(request)
    lags = await _lags(request, now)
    return page(request, "groups/one.html", now=now, config=settings, most=MOST_QUEUES, lags=lags)


async def live(request: Request) -> Response:
    """The part of the page of a group that changes all the time."""
    now = await group_now(await admin_of(request), request.path_params["name"])
    lags = await _lags(request, now)
    return fragment(request, "groups/now.html", now=now, most=MOST_QUEUES, lags=lags)


async def _lags(request: Request, now: GroupNow) -> Markup | None:
    """The lag of the last hour, for whoever may ask for the lag of now. A group is sampled from the
    first time that somebody looks at it."""
    if not now.topics:
        return None
    at = now_ms()
    points = [*(await history_of(request)).of_group(now.name), (at, now.lag)]
    return chart("Lag", [Line("", points)], unit="count", now=at)


async def members(request: Request) -> Response:
    """What the members run: the page of a group asks for it when it is there. `?from=`: the number
    of the first one, from 0."""
    name = request.path_params["name"]
    admin = await admin_of(request)
    online = await admin.groups.connections(name)
    first = whole(request.query_params.get("from"), 0)
    found = await running(admin, name, online.connections, first)
    return page(
        request,
        "groups/members.html",
        name=name,
        running=found,
        most=MOST_ASKED,
        alone=not is_htmx(request),
    )


async def one_member(request: Request) -> Response:
    """`?client=`: its id. `?stacks=1`: with the stacks of its threads."""
    name = request.path_params["name"]
    client = request.query_params.get("client", "")
    stacks = request.query_params.get("stacks") == "1"
    try:
        found = await member(await admin_of(request), name, client, stacks=stacks)
    except (InvalidParameterError, NotFoundError, ResponseError) as e:
        raise group_forms.unknown(e, "No such member") from e
    return page(request, "groups/member.html", name=name, member=found, stacks=stacks)


ROUTES = [
    Route("/groups", shown),
    *group_forms.ROUTES,
    *group_resets.ROUTES,
    Route("/groups/{name}", one),
    Route("/groups/{name}/live", live),
    Route("/groups/{name}/members", members),
    Route("/groups/{name}/member", one_member),
]
