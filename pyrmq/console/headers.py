"""What every answer says to the browser, and which requests are refused before any page runs."""

from __future__ import annotations

import math
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

import trio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyrmq.console.settings import Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
NO_STORE = "no-store"
LOGIN = "/login"
MAX_BODY = 8 << 20
"""Longest body of a request, bytes."""
LOGIN_BODY = 16 << 10
"""Longest body of a login, which anybody may send."""
BODY_SECONDS = 60.0
"""Seconds in which a body has to be there."""


class SafeHeaders:
    """Adds the headers to every answer. No browser keeps a page; static files change their path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", NO_STORE)
                headers.add_vary_header("HX-Request")
            await send(message)

        await self._app(scope, receive, with_headers)


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """The names by which browsers may call the console."""
    own = {"localhost", settings.bind[0], socket.gethostname(), *settings.hosts}
    named = urlsplit(settings.url).hostname
    return frozenset(name.lower() for name in own | {named} if name)


class HostCheck:
    """Refuses requests to a name that is not the console's: a page of another site whose name leads
    here (DNS rebinding) would be one of its own to the browser. Addresses are no names."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).getlist("host")
            if len(given) != 1 or not self._is_own(given[0]):
                await _WRONG_HOST(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_own(self, text: str) -> bool:
        try:
            host = urlsplit(f"//{text}").hostname or ""
        except ValueError:
            return False
        return host in self._names or _is_address(host)


_WRONG_HOST = PlainTextResponse(
    "This is no name of the console. `pyrmq console --host NAME` adds one.\n", 421
)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class BodyBound:
    """Refuses bodies that are too long, also such without a length or with two."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = LOGIN_BODY if scope["path"] == LOGIN else MAX_BODY
        headers = Headers(scope=scope)
        stated = headers.get("content-length", "0")
        if "transfer-encoding" in headers and "content-length" in headers:
            await _TWO_LENGTHS(scope, receive, send)
            return
        if not stated.isdecimal() or len(stated) > 18 or int(stated) > most:
            await PlainTextResponse(f"{_too_long(most)}\n", 413)(scope, receive, send)
            return
        taken, until = 0, trio.current_time() + BODY_SECONDS

        async def bounded() -> Message:
            nonlocal taken, until
            message: Message | None = None
            with trio.move_on_at(until):
                message = await receive()
            if message is None:
                raise HTTPException(408, f"a request may take {BODY_SECONDS:g} seconds")
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                if taken > most:
                    raise HTTPException(413, _too_long(most))
                if not message.get("more_body"):
                    until = math.inf  # what comes next is the end of the connection
            return message

        await self._app(scope, bounded, send)


_TWO_LENGTHS = PlainTextResponse(
    "a request has one length: content-length or transfer-encoding\n",
    400,
    {"Connection": "close"},  # a proxy may have counted what follows to the body
)


def _too_long(most: int) -> str:
    return f"a request may have {most} bytes"
