"""The console as an ASGI application: its rooms, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from pyrmq.console.headers import BodyBound, SafeHeaders
from pyrmq.console.link import Links
from pyrmq.console.pages import Rooms, all_rooms
from pyrmq.console.rendering import STATIC, fragment, is_htmx, page
from pyrmq.console.sessions import Note, Session
from pyrmq.console.settings import Role, Settings
from pyrmq.errors import PyrmqError, leaves

NOBODY = "nobody"
"""The user of a console without login."""


def console_app(settings: Settings, rooms: Rooms | None = None) -> Starlette:
    """The application; `rooms` by default all. Its lifespan holds the connections to the
    cluster."""
    found = all_rooms() if rooms is None else rooms

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            app.state.links = Links(settings, nursery)
            yield
            nursery.cancel_scope.cancel()

    app = Starlette(
        routes=[
            Route("/", _home),
            Route("/health", _health),
            *found.routes,
            Mount("/static", _StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(SafeHeaders), Middleware(BodyBound), Middleware(_Anybody)],
        exception_handlers={
            HTTPException: _http_error,
            PyrmqError: _pyrmq_error,
            ExceptionGroup: _group,
        },
        lifespan=lifespan,
    )
    app.state.settings = settings
    app.state.rooms = found
    return app


class _Anybody:
    """Without login all requests have one session."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._session = Session(NOBODY, Role.ADMIN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["pyrmq.session"] = self._session
        await self._app(scope, receive, send)


class _StaticFiles(StaticFiles):
    """Files whose path changes with them."""

    def file_response(self, *args: object, **rest: object) -> Response:
        answer: Response = super().file_response(*args, **rest)  # type: ignore[arg-type]
        answer.headers["Cache-Control"] = "public, max-age=604800"
        return answer


async def _home(request: Request) -> Response:
    rooms: Rooms = request.app.state.rooms
    if not rooms.rooms:
        return PlainTextResponse("no rooms\n")
    return RedirectResponse(rooms.rooms[0].path, status_code=303)


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = {404: "There is no such page.", 405: "This page takes no such request."}
    text = known.get(error.status_code, error.detail)
    return _error(request, text, error.status_code, again=False)


async def _pyrmq_error(request: Request, error: Exception) -> Response:
    """What a server of the cluster answers, or that it does not: the page asks again by itself."""
    return _error(request, "; ".join(map(str, leaves(error))), 502, again=request.method == "GET")


async def _group(request: Request, error: Exception) -> Response:
    if not all(isinstance(leaf, PyrmqError) for leaf in leaves(error)):
        raise error
    return await _pyrmq_error(request, error)


def _error(request: Request, text: str, status: int, *, again: bool) -> Response:
    target = request.headers.get("hx-target", "")
    if is_htmx(request) and target != "content":
        return fragment(request, "notes.html", status, notes=[Note(text, bad=True)])
    return page(request, "error.html", status, title="Not possible now", text=text, again=again)
