"""What every answer says to the browser, and which requests are refused before any page runs."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
MAX_BODY = 8 << 20
"""Longest body of a request, bytes."""


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


class BodyBound:
    """Refuses bodies that are too long, also such without a length."""

    def __init__(self, app: ASGIApp, most: int = MAX_BODY) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        stated = Headers(scope=scope).get("content-length", "0")
        if not stated.isdecimal() or len(stated) > 18 or int(stated) > self._most:
            await _too_long(self._most)(scope, receive, send)
            return
        taken = 0
        started = False

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                if taken > self._most:
                    raise _TooLongError
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, bounded, watched)
        except _TooLongError:
            if not started:
                await _too_long(self._most)(scope, receive, send)


class _TooLongError(Exception):
    """More bytes came than a body may have."""


def _too_long(most: int) -> PlainTextResponse:
    return PlainTextResponse(f"a body may have {most} bytes\n", 413)
