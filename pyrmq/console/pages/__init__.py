"""The rooms of the console, by the modules of this package.

A module has `ROOM` and `ROUTES`. Its handlers ask `admin_of(request)`, and return
`page(request, "NAME/list.html", …)`, or `fragment(…)` for a part that refreshes itself. What
changes something is a POST wrapped by `@change`. A PyrmqError may leave a handler: the page then
says so and asks again.

A template extends base.html and fills its blocks `title` and `content`; it has the macros of
parts.html as `parts`. Texts of others go through the filter `text`, paths with names through
`link("/topics/{}", name)`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from starlette.routing import Route

from pyrmq.console.room import Room

MODULES = (
    "cluster",
    "brokers",
    "topics",
    "groups",
    "messages",
    "traces",
    "transactions",
    "dead_letters",
    "delay",
    "ha",
    "configuration",
    "access",
    "alarms",
)


@dataclass(frozen=True, slots=True)
class Rooms:
    """All rooms in their order, and the routes of their pages."""

    rooms: tuple[Room, ...]
    routes: tuple[Route, ...]


def all_rooms() -> Rooms:
    found: list[Room] = []
    routes: list[Route] = []
    for name in MODULES:
        full = f"{__name__}.{name}"
        try:
            module = importlib.import_module(full)
        except ModuleNotFoundError as e:
            if e.name != full:
                raise
            continue
        found.append(module.ROOM)
        routes += module.ROUTES
    return Rooms(tuple(sorted(found, key=lambda room: room.order)), tuple(routes))
