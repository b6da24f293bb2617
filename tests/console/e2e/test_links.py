"""Every link of every page leads to a page, over a broker with hostile names and texts."""

from __future__ import annotations

import trio

from pyrmq.console.app import console_app
from pyrmq.console.pages import all_rooms
from pyrmq.console.settings import Settings
from pyrmq.server import Running
from tests.console import data
from tests.console.asgi import client
from tests.console.crawl import crawl


async def test_every_link_leads_to_a_page(embedded: Running) -> None:
    await trio.to_thread.run_sync(data.seed, embedded.namesrv)
    async with client(console_app(Settings(embedded.namesrv))) as browser:
        found = await crawl(browser)
    assert found.bad == {}
    assert {room.path for room in all_rooms().rooms} <= set(found.statuses)
