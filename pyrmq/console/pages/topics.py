"""The topics: the list, one topic, who sends to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.console.link import admin_of
from pyrmq.console.pages import topic_forms
from pyrmq.console.paging import listing
from pyrmq.console.rendering import is_htmx, page
from pyrmq.console.room import Room
from pyrmq.console.views.one_topic import producers_of
from pyrmq.console.views.topics import KINDS, TopicRow, kind_of, perm_text, topic_list

ROOM = Room("topics", "Topics", "/topics", 40)
COLUMNS: Mapping[str, Callable[[TopicRow], Any]] = {
    "name": lambda row: row.name,
    "queues": lambda row: row.read_queues,
    "in": lambda row: row.rate_in,
    "out": lambda row: row.rate_out,
}


async def shown(request: Request) -> Response:
    """`?kind=`: one of KINDS, or `all`."""
    found = await topic_list(await admin_of(request))
    kind = request.query_params.get("kind", "user")
    if kind not in (*KINDS, "all"):
        kind = "user"
    counts = dict.fromkeys(KINDS, 0)
    for row in found.rows:
        counts[row.kind] += 1
    rows = [row for row in found.rows if kind in ("all", row.kind)]
    return page(
        request,
        "topics/list.html",
        list=listing(request, rows, COLUMNS, "name", lambda row: row.name),
        kind=kind,
        kinds=[(k, counts[k]) for k in KINDS if counts[k] or k == "user"],
        total=len(found.rows),
        failed=found.failed,
        rated=found.rated,
        perm_text=perm_text,
    )


async def one(request: Request) -> Response:
    found = await topic_forms.topic_of(request)
    return page(
        request,
        "topics/one.html",
        topic=found,
        kind=kind_of(found.name, found.own_names),
        perm_text=perm_text,
    )


async def producers(request: Request) -> Response:
    """Who is connected: the page of a topic asks for it when it is there."""
    name = request.path_params["name"]
    found = await producers_of(await admin_of(request), name)
    alone = not is_htmx(request)
    return page(request, "topics/producers.html", name=name, producers=found, alone=alone)


ROUTES = [
    Route("/topics", shown),
    *topic_forms.ROUTES,
    Route("/topics/{name}", one),
    Route("/topics/{name}/producers", producers),
]
