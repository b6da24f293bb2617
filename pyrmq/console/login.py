"""The login: a form, who may come in, and how fast somebody may guess."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable

import trio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pyrmq.auth.failures import MOST_WAIT, Failures, source_of
from pyrmq.console import audit
from pyrmq.console.broker_login import NotLoggedInError
from pyrmq.console.changes import TOKEN_FIELD, form_of, from_here
from pyrmq.console.gate import LOGOUT, cookie_name, local_path
from pyrmq.console.headers import LOGIN
from pyrmq.console.password_file import PasswordFile, is_password, nobody
from pyrmq.console.rendering import page
from pyrmq.console.sessions import LONGEST, Session, Sessions, session_of
from pyrmq.console.settings import LoginKind, Role, Settings
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.net.address import format_address
from pyrmq.net.client.credentials import Credentials

AT_ONCE = 2
"""Passwords that are checked at a time: each takes 32 MiB and a core."""
MAX_WAITING = 64
"""Logins at a time, those that wait for a check or for the answer to a failed one among them."""
MAX_OF_ONE = 8
"""Of one address."""
MOST_CHARACTERS = 1024
"""Longest name and password that are looked at."""
WRONG = "User or password is wrong."

Check = Callable[[str, str], Awaitable[Session]]
"""A session for a name and a password. NotLoggedInError if they are wrong."""


class Login:
    """`check` says who comes in."""

    def __init__(self, settings: Settings, sessions: Sessions, check: Check) -> None:
        self._settings = settings
        self._sessions = sessions
        self._check = check
        self._failures = Failures()
        self._key = secrets.token_bytes(32)
        self._busy: Counter[str] = Counter()
        """Logins that are judged, or wait, by address."""
        self._judged_now: set[tuple[str, str]] = set()
        """Address and user: no two guesses at once."""
        self._cookie = cookie_name(settings)
        self._before = f"{self._cookie}-form"

    @property
    def routes(self) -> list[Route]:
        return [
            Route(LOGIN, self.shown),
            Route(LOGIN, self.submitted, methods=["POST"]),
            Route(LOGOUT, self.left, methods=["POST"]),
        ]

    async def shown(self, request: Request) -> Response:
        """The form. Whoever is logged in goes on."""
        to = local_path(request.query_params.get("next", "/"))
        if "pyrmq_session" in request.scope:
            return RedirectResponse(to, status_code=303)
        return self._form(request, to)

    async def submitted(self, request: Request) -> Response:
        """Logs in, or shows the form again."""
        form = await form_of(request)
        to = local_path(str(form.get("next", "/")))
        user, password = str(form.get("user", "")).strip(), str(form.get("password", ""))
        before = request.cookies.get(self._before, "")
        given = str(form.get(TOKEN_FIELD, ""))
        whole = hmac.compare_digest(given.encode(), self._token(before).encode())
        if not from_here(request, self._settings.url) or not before or not whole:
            return self._form(request, to, "The form was too old. Try again.", 403, user)
        if not 0 < len(user) <= MOST_CHARACTERS or not 0 < len(password) <= MOST_CHARACTERS:
            return self._form(request, to, WRONG, 403)
        client = request.client
        peer = source_of(format_address((client.host, client.port))) if client else ""
        busy = self._busy.total() >= MAX_WAITING or self._busy[peer] >= MAX_OF_ONE
        if busy or (peer, user) in self._judged_now:
            return self._form(request, to, "Too many logins at once. Try again.", 503, user)
        self._busy[peer] += 1
        self._judged_now.add((peer, user))
        try:
            return await self._judged(request, to, peer, user, password)
        finally:
            self._judged_now.discard((peer, user))
            self._busy[peer] -= 1
            self._busy += Counter()  # drops those that are 0

    async def _judged(
        self, request: Request, to: str, peer: str, user: str, password: str
    ) -> Response:
        wait = self._failures.refused_for(peer, user)
        if wait > 0:
            text = "Too many failed logins of this user. Try again in some seconds."
            answer = self._form(request, to, text, 429, user)
            answer.headers["Retry-After"] = str(int(wait) + 1)
            return answer
        try:
            session = await self._check(user, password)
        except NotLoggedInError as e:
            delay = self._failures.failed(peer, user)
            audit.line(request, "login", {"as": user}, f"failed: {e}")
            await trio.sleep(min(delay, MOST_WAIT))
            return self._form(request, to, WRONG, 403, user)
        except PyrmqError as e:
            audit.line(request, "login", {"as": user}, f"not possible: {e}")
            return self._form(request, to, f"Nobody can be asked about users now: {e}", 502, user)
        self._failures.succeeded(peer, user)
        old = request.cookies.get(self._cookie)
        if old:
            self._sessions.end(old)
        session.leaves = True
        name = self._sessions.begin(session)
        request.scope["pyrmq_session"] = session
        audit.line(request, "login", {"role": session.role.value}, "done")
        answer = RedirectResponse(to, status_code=303)
        self._set(answer, self._cookie, name, round(LONGEST))
        answer.delete_cookie(self._before, secure=self._settings.secure, httponly=True)
        return answer

    async def left(self, request: Request) -> Response:
        """Logs out. A stranger's page cannot: it has not the token."""
        form = await form_of(request)
        session = session_of(request)
        given = str(form.get(TOKEN_FIELD, ""))
        whole = hmac.compare_digest(given.encode(), session.token.encode())
        if not from_here(request, self._settings.url) or not whole or not session.leaves:
            return RedirectResponse("/", status_code=303)
        self._sessions.end(request.cookies.get(self._cookie, ""))
        audit.line(request, "logout", {}, "done")
        answer = RedirectResponse(LOGIN, status_code=303)
        answer.delete_cookie(self._cookie, secure=self._settings.secure, httponly=True)
        answer.headers["Clear-Site-Data"] = '"cache"'
        return answer

    def _form(
        self, request: Request, to: str, problem: str = "", status: int = 200, user: str = ""
    ) -> Response:
        before = secrets.token_urlsafe(24)
        answer = page(
            request,
            "login.html",
            status,
            next=to,
            problem=problem,
            user=user[:MOST_CHARACTERS],
            form_token=self._token(before),
            by_broker=self._settings.login is LoginKind.BROKER,
        )
        self._set(answer, self._before, before, 3600)
        return answer

    def _token(self, before: str) -> str:
        """What the form has to send besides its cookie: nobody else can make it."""
        return hmac.new(self._key, before.encode(), hashlib.sha256).hexdigest()

    def _set(self, answer: Response, name: str, value: str, seconds: int) -> None:
        answer.set_cookie(
            name,
            value,
            max_age=seconds,
            path="/",
            secure=self._settings.secure,
            httponly=True,
            samesite="strict",
        )


def by_file(users: PasswordFile) -> Check:
    """Logins by a password file."""
    limit = trio.CapacityLimiter(AT_ONCE)

    async def check(name: str, password: str) -> Session:
        user = users.user(name)
        wanted = nobody() if user is None else user.hash
        right = await trio.to_thread.run_sync(is_password, password, wanted, limiter=limit)
        if user is None or not right:
            raise NotLoggedInError(WRONG)
        return Session(name, user.role, proof=user.hash)

    return check


def by_broker(ask: Callable[[Credentials], Awaitable[None]]) -> Check:
    """Logins by the users of the brokers, which decide at each request what the user may do."""

    async def check(name: str, password: str) -> Session:
        try:
            credentials = Credentials(name, password)
        except ClientError:
            raise NotLoggedInError(WRONG) from None
        await ask(credentials)
        return Session(name, Role.ADMIN, credentials)

    return check


def still_in(users: PasswordFile) -> Callable[[Session], bool]:
    """Whether the file still has the user of a session as it was at the login. A new role counts at
    once."""

    def still(session: Session) -> bool:
        user = users.user(session.user)
        if user is None or user.hash != session.proof:
            return False
        session.role = user.role
        return True

    return still
