"""What was sampled with the rights of one user is not shown to another who may not see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.console.app import console_app
from pyrmq.console.settings import LoginKind, Settings
from pyrmq.net.client.credentials import Credentials
from tests.auth.e2e.test_access_requests import ON, ROOT, broker_of
from tests.console.asgi import Client, client
from tests.console.e2e.test_broker_login import log_in
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")
BOB = Credentials("bob", "secret-of-bob")
RIGHTS = Acl("User:bob", (Entry("Topic:orders", ("Pub", "Sub")),))
DENIED = "Your user may not see the figures of brokers"


async def test_charts_are_for_those_who_may_see_figures(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path, **ON) as running, Admin(running.namesrv, credentials=ROOT) as root:
        await root.users.create(User("bob", BOB.secret_key), broker=broker_of(running))
        await root.acls.create(RIGHTS, broker=broker_of(running))
        name = (await root.link.replicas(default_all=True))[0].broker_name
        settings = Settings(running.namesrv, login=LoginKind.BROKER, credentials=ROOT)
        app = console_app(settings)
        async with client(app) as browser:
            assert (await log_in(browser, ROOT)).status == 303
            first = (await browser.get("/cluster")).text
            assert DENIED not in first
            assert "1 of 1" in first
            other = Client(app)
            assert (await log_in(other, BOB)).status == 303
            for path in ("/cluster", "/alarms"):
                text = (await other.get(path)).text
                assert DENIED in text, path
                assert "<svg" not in text, path
            for path in ("/brokers", "/ha", f"/brokers/{name}/0"):
                assert "<svg" not in (await other.get(path)).text, path
