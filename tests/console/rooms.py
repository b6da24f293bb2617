"""A room for tests of what stands before all rooms."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrmq.console.changes import change, done, form_of, typed
from pyrmq.console.pages import Rooms
from pyrmq.console.rendering import page
from pyrmq.console.room import Room
from pyrmq.errors import ClientError, ConnectError

made: list[str] = []
"""What the room's form has made."""


async def shown(request: Request) -> Response:
    return page(
        request,
        "error.html",
        title="A room",
        text=request.query_params.get("text", ""),
        again=False,
    )


async def away(request: Request) -> Response:
    raise ConnectError("the broker is away")


async def broken(request: Request) -> Response:
    raise ZeroDivisionError("a fault")


@change("thing.make", about=("name", "key", "value"))
async def make(request: Request) -> Response:
    form = await form_of(request)
    name = str(form["name"])
    if name == "bad":
        raise ClientError("no such name: bad")
    if name == "typed":
        typed(form, name)
    made.append(name)
    return done(request, f"{name} is made.", to="/room")


ROOMS = Rooms(
    (Room("room", "Room", "/room", 1),),
    (
        Route("/room", shown),
        Route("/room/away", away),
        Route("/room/away/{name}", away),
        Route("/room/broken", broken),
        Route("/room/make", make, methods=["POST"]),
    ),
)
