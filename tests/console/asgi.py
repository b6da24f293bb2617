"""A client of the console without sockets: the cookies and forms of a browser, no more."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import trio
from starlette.datastructures import Headers
from starlette.types import ASGIApp

HOST = "127.0.0.1:8090"
_TOKEN = re.compile(r'<meta name="csrf-token" content="([^"]*)">')


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Headers
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def token(self) -> str:
        """The CSRF token of a whole page."""
        found = _TOKEN.search(self.text)
        assert found is not None, self.text
        return html.unescape(found[1])


@dataclass
class Client:
    """`token`: sent by `post` unless one is given; `get` of a whole page takes it from there."""

    app: ASGIApp
    host: str = HOST
    peer: tuple[str, int] = ("127.0.0.1", 50000)
    scheme: str = "http"
    cookies: dict[str, str] = field(default_factory=dict)
    token: str = ""
    htmx: bool = False

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        answer = await self.request("GET", path, headers=headers)
        found = _TOKEN.search(answer.body.decode(errors="replace"))
        if found:
            self.token = html.unescape(found[1])
        return answer

    async def post(
        self,
        path: str,
        form: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        fields = {"_csrf": self.token, **(form or {})}
        body = urlencode({k: v for k, v in fields.items() if v is not None}, doseq=True).encode()
        more = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
        return await self.request("POST", path, body, more)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        parts = urlsplit(path)
        sent = {"host": self.host, "content-length": str(len(body))}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        if self.htmx:
            sent["hx-request"] = "true"
        sent |= {k.lower(): v for k, v in (headers or {}).items()}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": self.scheme,
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(k.encode(), v.encode()) for k, v in sent.items()],
            "client": self.peer,
            "server": ("127.0.0.1", 8090),
        }
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        answers: list[dict[str, Any]] = []

        async def receive() -> Any:
            if messages:
                return messages.pop(0)
            await trio.sleep_forever()

        async def send(message: Any) -> None:
            answers.append(message)

        await self.app(scope, receive, send)
        start = next(m for m in answers if m["type"] == "http.response.start")
        text = b"".join(m.get("body", b"") for m in answers if m["type"] == "http.response.body")
        answer = Answer(start["status"], Headers(raw=list(start["headers"])), text)
        for value in answer.headers.getlist("set-cookie"):
            self._keep(value)
        return answer

    def _keep(self, cookie: str) -> None:
        pair, *attributes = (part.strip() for part in cookie.split(";"))
        name, _, value = pair.partition("=")
        if any(a.lower() == "max-age=0" for a in attributes):
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = value


@asynccontextmanager
async def lifespan(app: ASGIApp) -> AsyncIterator[None]:
    """Has the application started in it; it is stopped at the end."""
    to_app, from_server = trio.open_memory_channel[Any](2)
    started, stopped = trio.Event(), trio.Event()
    to_app.send_nowait({"type": "lifespan.startup"})

    async def send(message: Any) -> None:
        assert message["type"] != "lifespan.startup.failed", message["message"]
        (started if "startup" in message["type"] else stopped).set()

    async def run() -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        await app(scope, from_server.receive, send)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await started.wait()
        yield
        to_app.send_nowait({"type": "lifespan.shutdown"})
        await stopped.wait()


@asynccontextmanager
async def client(app: ASGIApp, **of: Any) -> AsyncIterator[Client]:
    """A client of an application that is started in it."""
    async with lifespan(app):
        yield Client(app, **of)
