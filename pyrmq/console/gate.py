"""The gate before all pages: a request has a session, or it is sent to the login."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyrmq.console.changes import TOKEN_HEADER
from pyrmq.console.headers import LOGIN
from pyrmq.console.rendering import is_htmx, own_address
from pyrmq.console.sessions import Session, Sessions
from pyrmq.console.settings import LoginKind, Role, Settings

NOBODY = "nobody"
"""The user of a console without login."""
BY_ITSELF = "x-by-itself"
"""The header of requests that a page makes without its user."""
AT_ONCE = 32
"""Requests of one user that are answered at a time: each may need some tens of MiB, also while its
client takes the answer slowly."""
TOO_MANY = "The console answers many requests of yours now. Try again.\n"
LOGOUT = "/logout"
STATIC, HEALTH = "/static/", "/health"
"""What needs no session."""


class Gate:
    """Puts the session of a request into its scope. `still`: whether a session counts yet.

    Without login all requests have one session. Otherwise a page without one goes to the login, and
    htmx is told to take the whole page there: a page that was left open does not show the login as
    one of its parts.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        sessions: Sessions,
        still: Callable[[Session], bool],
    ) -> None:
        self._app = app
        self._cookie = cookie_name(settings)
        self._sessions = sessions
        self._still = still
        self._busy: Counter[str] = Counter()
        """Requests that are answered, by user."""
        self._all = Session(NOBODY, Role.ADMIN) if settings.login is LoginKind.NONE else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if _is_taken_by_another_site(request):
            await PlainTextResponse("this is no page of another site\n", 403)(scope, receive, send)
            return
        session = self._all or self._of_cookie(request)
        path = scope["path"]
        if session is None:
            if path in (LOGIN, HEALTH) or path.startswith(STATIC):
                await self._app(scope, receive, send)
            else:
                await to_login(request)(scope, receive, send)
            return
        scope["pyrmq_session"] = session
        if path == HEALTH or path.startswith(STATIC):
            await self._app(scope, receive, send)
            return
        if self._busy[session.user] >= AT_ONCE:
            answer = PlainTextResponse(TOO_MANY, 503, {"Retry-After": "1"})
            await answer(scope, receive, send)
            return
        self._busy[session.user] += 1
        try:
            await self._app(scope, receive, _renewing(request, session, send))
        finally:
            self._busy[session.user] -= 1
            self._busy += Counter()  # drops those that are 0

    def _of_cookie(self, request: Request) -> Session | None:
        name = request.cookies.get(self._cookie)
        if not name:
            return None
        found = self._sessions.find(name, by_itself=BY_ITSELF in request.headers)
        if found is not None and not self._still(found):
            self._sessions.end(name)
            return None
        return found


def cookie_name(settings: Settings) -> str:
    """Cookies are shared by all ports of a host: each console has a name of its own. With `__Host-`
    no other host and no connection without TLS can set it."""
    name = f"pyrmq-console-{settings.bind[1]}"
    return f"__Host-{name}" if settings.secure else name


def local_path(text: str) -> str:
    """A path of this console out of a text of others; `/` for everything else, such as another
    site."""
    plain = text.isascii() and text.isprintable() and "\\" not in text and len(text) <= 2000
    if not plain or not text.startswith("/") or text.startswith("//"):
        return "/"
    parts = urlsplit(text)
    inside = not parts.scheme and not parts.netloc and parts.path not in (LOGIN, LOGOUT)
    return text if inside else "/"


def _is_taken_by_another_site(request: Request) -> bool:
    """Whether a page of another site asks for a part of its own, such as a picture or a frame:
    without login nothing else would keep it from having the console search. Links from other sites
    are fine."""
    if request.method == "POST":
        return False  # `change` refuses it, with a line in the audit
    site = request.headers.get("sec-fetch-site", "none")
    is_page = request.headers.get("sec-fetch-mode") == "navigate"
    is_page = is_page and request.headers.get("sec-fetch-dest", "document") == "document"
    return site not in ("none", "same-origin") and not is_page


def to_login(request: Request) -> Response:
    """The way to the login, and back to the page that asks."""
    if is_htmx(request):
        to = _login_path(_shown(request.headers.get("hx-current-url", "")))
        return PlainTextResponse("log in\n", 401, {"HX-Redirect": to})
    if request.method != "GET":
        return RedirectResponse(LOGIN, status_code=303)
    return RedirectResponse(_login_path(own_address(request)), status_code=303)


def _shown(url: str) -> str:
    """The path and query of the page that asks."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "/"
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _login_path(after: str) -> str:
    to = local_path(after)
    return LOGIN if to == "/" else f"{LOGIN}?{urlencode({'next': to})}"


def _renewing(request: Request, session: Session, send: Send) -> Send:
    """A page of an earlier session gets the token of this one, with whatever it asks for."""
    given = request.headers.get(TOKEN_HEADER)
    if given is None or given == session.token:
        return send

    async def renewing(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)[TOKEN_HEADER] = session.token
        await send(message)

    return renewing
