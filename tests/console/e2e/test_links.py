"""Every link of every page leads to a page, over a broker with hostile names and texts."""

from __future__ import annotations

import trio

from pyrmq.console.app import console_app
from pyrmq.console.pages import all_rooms
from pyrmq.console.settings import Settings
from pyrmq.server import Running
from tests.console import data
from tests.console.asgi import client
from tests.console.crawl import crawl, links_of
from tests.console.page_rules import broken_rules


async def test_every_link_leads_to_a_page(embedded: Running) -> None:
    await trio.to_thread.run_sync(data.seed, embedded.namesrv)
    async with client(console_app(Settings(embedded.namesrv))) as browser:
        found = await crawl(browser)
        for number in range(len(data.HOSTILE)):  # messages with texts that try to be HTML
            listed = await browser.get(f"/messages?topic=hostile&key=hostile-{number}")
            (one, *_) = (
                to for to in links_of(listed.text) if to.startswith("/messages/one?topic=hostile")
            )
            shown = await browser.get(one)
            assert f"hostile-{number}" in shown.text
            assert broken_rules(listed.text) + broken_rules(shown.text) == []
    assert found.bad == {}
    assert {room.path for room in all_rooms().rooms} <= set(found.statuses)
