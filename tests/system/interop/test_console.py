"""The console over Apache RocketMQ's name server and broker: every page that links lead to."""

from __future__ import annotations

import pytest

from pyrmq.console.app import console_app
from pyrmq.console.pages import all_rooms
from pyrmq.console.settings import Settings
from tests.console.asgi import client
from tests.console.crawl import crawl
from tests.support.fixtures import deadline as deadline

from .apache_with_data import namesrv as namesrv

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("deadline")]


async def test_every_page_answers(namesrv: str) -> None:
    async with client(console_app(Settings(namesrv))) as browser:
        found = await crawl(browser)
        assert found.bad == {}
        rooms = {room.path for room in all_rooms().rooms}
        assert rooms <= set(found.statuses)
        (one,) = [p for p in found.statuses if p.startswith("/brokers/") and p.endswith("/figures")]
        name = one.removesuffix("/figures")
        page = (await browser.get(name)).text
        assert "a broker of Apache RocketMQ" in page
        disk = (await browser.get(f"{name}/disk")).text
        assert "Only pyrmq&#39;s brokers say what topics take of their disk." in disk
        clients = (await browser.get(f"{name}/clients")).text
        assert "does not say who uses it" in clients
