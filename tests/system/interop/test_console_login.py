"""The console with login by the users of Apache RocketMQ's broker, and a broker without users."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.console.app import console_app
from pyrmq.console.settings import LoginKind, Settings
from pyrmq.net.client.credentials import Credentials
from tests.console.asgi import client
from tests.console.e2e.test_broker_login import log_in
from tests.support.fixtures import deadline as deadline

from .access.users import SUPER
from .secured import broker, name_server
from .store import peer

pytestmark = [
    pytest.mark.thorough("the same with pyrmq's broker is in tests/console/e2e"),
    pytest.mark.usefixtures("deadline"),
]


async def test_users_of_acl_2(tmp_path: Path) -> None:
    with (
        name_server("apache", tmp_path / "names", None) as names,
        broker("apache", tmp_path / "broker", names.address, None),
    ):
        app = console_app(Settings(names.address, login=LoginKind.BROKER))
        async with client(app) as browser:
            assert (await log_in(browser, Credentials(SUPER[0], "guess"))).status == 403
            assert (await log_in(browser, Credentials("stranger", "guess"))).status == 403
            assert (await log_in(browser, Credentials(*SUPER))).status == 303
            for room in ("/cluster", "/topics", "/groups", "/access"):
                assert (await browser.get(room)).status == 200, room


async def test_a_broker_without_users(tmp_path: Path) -> None:
    with peer.NameServer(tmp_path / "names") as names:
        real = peer.RealBroker(tmp_path / "store", names.address, home=tmp_path / "broker")
        with real:
            app = console_app(Settings(names.address, login=LoginKind.BROKER))
            async with client(app) as browser:
                answer = await log_in(browser, Credentials(*SUPER))
                assert answer.status == 502
                assert "checks no signatures" in answer.text
