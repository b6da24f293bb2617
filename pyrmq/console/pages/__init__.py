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

from dataclasses import dataclass

from starlette.routing import Route

from pyrmq.console.pages import (
    access,
    alarms,
    brokers,
    cluster,
    configuration,
    dead_letters,
    delay,
    groups,
    ha,
    messages,
    topics,
    traces,
    transactions,
)
from pyrmq.console.room import Room

MODULES = (
    cluster,
    brokers,
    alarms,
    topics,
    groups,
    messages,
    traces,
    transactions,
    dead_letters,
    delay,
    ha,
    configuration,
    access,
)


@dataclass(frozen=True, slots=True)
class Rooms:
    """All rooms in their order, and the routes of their pages."""

    rooms: tuple[Room, ...]
    routes: tuple[Route, ...]


def all_rooms() -> Rooms:
    rooms = sorted((module.ROOM for module in MODULES), key=lambda room: room.order)
    return Rooms(tuple(rooms), tuple(route for module in MODULES for route in module.ROUTES))
