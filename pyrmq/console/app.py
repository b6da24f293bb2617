"""The console as an ASGI application: its rooms, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pyrmq.console.broker_login import BrokerLogin
from pyrmq.console.gate import Gate, cookie_name, to_login
from pyrmq.console.headers import BodyBound, HostCheck, SafeHeaders, allowed_hosts
from pyrmq.console.history import History
from pyrmq.console.link import Links
from pyrmq.console.login import Login, by_broker, by_file, still_in
from pyrmq.console.not_there import TITLE as NOT_THERE
from pyrmq.console.not_there import NotThereError
from pyrmq.console.pages import Rooms, all_rooms
from pyrmq.console.password_file import PasswordFile
from pyrmq.console.rendering import STATIC, fragment, is_htmx, page
from pyrmq.console.sessions import Note, Session, Sessions
from pyrmq.console.settings import LoginKind, Settings
from pyrmq.errors import NoPermissionError, PyrmqError, leaves

_NOT_SIGNED = ("authentication failed", "check signature failed", "the signature does not fit")
"""Words of servers that do not accept a signature. They have blanks: a refusal names topics and
groups, which could have a word in their name, and would log out whoever looks at them."""


def console_app(settings: Settings, rooms: Rooms | None = None) -> ASGIApp:
    """The application; `rooms` by default all. Its lifespan holds the connections to the cluster.
    ConfigError if the password file cannot be used."""
    found = all_rooms() if rooms is None else rooms
    state: dict[str, Links] = {}
    sessions = Sessions(lambda: state["links"].only({*sessions.credentials, settings.credentials}))
    login, still = _login(settings, sessions, state)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            app.state.links = state["links"] = Links(settings, nursery)
            app.state.history = History()
            nursery.start_soon(app.state.history.run)
            yield
            nursery.cancel_scope.cancel()

    app = Starlette(
        routes=[
            Route("/", _home),
            Route("/health", _health),
            *(login.routes if login is not None else ()),
            *found.routes,
            Mount("/static", _StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Gate, settings=settings, sessions=sessions, still=still)],
        exception_handlers={
            HTTPException: _http_error,
            NotThereError: _not_there,
            ClientDisconnect: _left,
            PyrmqError: _pyrmq_error,
            ExceptionGroup: _group,
            Exception: _failure,
        },
        lifespan=lifespan,
    )
    app.state.settings = settings
    app.state.rooms = found
    app.state.sessions = sessions
    return SafeHeaders(HostCheck(BodyBound(app), allowed_hosts(settings)))


def _login(
    settings: Settings, sessions: Sessions, state: Mapping[str, Links]
) -> tuple[Login | None, Callable[[Session], bool]]:
    """The login, and whether a session counts yet."""
    if settings.login is LoginKind.NONE:
        return None, lambda _: True
    if settings.login is LoginKind.FILE:
        assert settings.password_file is not None
        users = PasswordFile(settings.password_file)
        return Login(settings, sessions, by_file(users)), still_in(users)

    broker = BrokerLogin(settings, lambda: state["links"])
    return Login(settings, sessions, by_broker(broker.check)), lambda _: True


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


_TITLES = {403: "Not allowed", 404: NOT_THERE, 500: "A fault of the console"}
"""Of pages of errors, by status."""


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = {404: "There is no such page.", 405: "This page takes no such request."}
    text = known.get(error.status_code, error.detail)
    return _error(request, text, error.status_code, again=False)


async def _not_there(request: Request, error: Exception) -> Response:
    """An answer, also for a part of a page."""
    assert isinstance(error, NotThereError)
    return page(request, "error.html", 404, title=error.title, text=str(error), again=False)


async def _left(request: Request, error: Exception) -> Response:
    """A client that is gone before its request was whole: nobody sees the answer."""
    return PlainTextResponse("the request has no end\n", 400)


async def _pyrmq_error(request: Request, error: Exception) -> Response:
    """What a server of the cluster answers, or that it does not: the page asks again by itself.
    A user whose key the brokers do not accept any more logs in again."""
    sessions: Sessions = request.app.state.sessions
    settings: Settings = request.app.state.settings
    if settings.login is LoginKind.BROKER and any(map(_is_stranger, leaves(error))):
        sessions.end(request.cookies.get(cookie_name(settings), ""))
        return to_login(request)
    text = "; ".join(map(str, leaves(error)))
    if any(isinstance(leaf, NoPermissionError) for leaf in leaves(error)):
        return _error(request, text, 403, again=False)
    return _error(request, text, 502, again=request.method == "GET")


def _is_stranger(error: BaseException) -> bool:
    """Whether a server did not accept a signature. [AuthenticationException, AclException]"""
    said = str(error).lower()
    refused = isinstance(error, NoPermissionError) or "aclexception" in said
    return refused and any(words in said for words in _NOT_SIGNED)


async def _failure(request: Request, error: Exception) -> Response:
    """A fault of the console itself; the server that runs it writes the traceback."""
    text = "The console failed to make this page. Its log says why."
    return _error(request, text, 500, again=False)


async def _group(request: Request, error: Exception) -> Response:
    if not all(isinstance(leaf, PyrmqError) for leaf in leaves(error)):
        raise error
    return await _pyrmq_error(request, error)


def _error(request: Request, text: str, status: int, *, again: bool) -> Response:
    target = request.headers.get("hx-target", "")
    if is_htmx(request) and target != "content":
        return fragment(request, "notes.html", status, notes=[Note(text, bad=True)])
    title = _TITLES.get(status, "Not possible now" if again else "Not possible")
    return page(request, "error.html", status, title=title, text=text, again=again)
