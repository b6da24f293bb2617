"""The rooms of messages of a console on a broker, without a browser."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pyrmq.admin import Admin
from pyrmq.console.app import console_app
from pyrmq.console.settings import Settings
from pyrmq.server import Running
from tests.console import asgi
from tests.support.waiting import until

ONE = re.compile(r'href="(/messages/one\?[^"]+)"')
CHOSEN = re.compile(r'name="chosen" value="([^"]+)"')


@dataclass
class Rooms:
    """A broker, an Admin, and the console's pages."""

    running: Running
    admin: Admin
    pages: asgi.Client

    async def text(self, path: str, status: int = 200) -> str:
        answer = await self.pages.get(path)
        assert answer.status == status, re.sub("<[^>]+>", " ", answer.text)[-600:]
        return answer.text

    async def keyed(self, topic: str, key: str, count: int = 1) -> list[str]:
        """The addresses of the newest messages with a key, as soon as the index has them."""
        found: list[str] = []

        async def look() -> bool:
            found[:] = links(await self.text(f"/messages?topic={topic}&key={key}"))
            return len(found) >= count

        await until(look, f"{count} messages with the key {key}")
        return found[:count]

    async def changed(self, path: str, form: Mapping[str, object]) -> str:
        """The page after a change, with the message on it."""
        answer = await self.pages.post(path, form)
        assert answer.status == 303, re.sub("<[^>]+>|\\s+", " ", answer.text)[-300:]
        return await self.text(answer.headers["location"])


@asynccontextmanager
async def rooms(running: Running, **of: object) -> AsyncIterator[Rooms]:
    settings = Settings(running.namesrv, **of)  # type: ignore[arg-type]
    async with (
        Admin(running.namesrv) as admin,
        asgi.client(console_app(settings)) as pages,
    ):
        await pages.get("/messages")
        yield Rooms(running, admin, pages)


def links(text: str, pattern: re.Pattern[str] = ONE) -> list[str]:
    return [html.unescape(found) for found in pattern.findall(text)]
