"""Accounts of ACL 1.0 in the console and for assistants: their secret keys are shown nowhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from pyrmq.admin import Admin
from pyrmq.admin.accounts import AccountList, Accounts, PlainAccount
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.console.app import console_app
from pyrmq.console.settings import Settings
from pyrmq.mcp.server import AdminServer
from pyrmq.net.client.credentials import Credentials
from pyrmq.server import Running
from tests.console.asgi import client
from tests.mcp.assistant import address, data
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")
ROOT = Credentials("administrator", "secret-of-admin")
FILE = """\
globalWhiteRemoteAddresses:
  - 10.9.*.*
accounts:
  - accessKey: administrator
    secretKey: secret-of-admin
    admin: true
  - accessKey: <b>alice</b>
    secretKey: secret-of-alice
    defaultTopicPerm: DENY
    topicPerms:
      - orders=PUB|SUB
"""


@pytest.fixture
async def running(tmp_path: Path, serve: Serve) -> AsyncIterator[Running]:
    path = tmp_path / "home" / "conf" / "plain_acl.yml"
    path.parent.mkdir(parents=True)
    path.write_text(FILE)
    path.chmod(0o600)
    async with serve(acl_enable=True, rocketmq_home=str(path.parent.parent)) as served:
        yield served


async def test_accounts_are_shown_without_their_secrets(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(running.namesrv, ("127.0.0.1", 8090), credentials=ROOT)

    async def shown() -> list[str]:
        async with client(console_app(settings)) as browser:
            page = await browser.get("/access/accounts")
            assert page.status == 200
        async with Admin(running.namesrv, credentials=ROOT) as admin:
            server = AdminServer(admin, changes=False, seconds=30, user="")
            async with Client(server.sdk) as assistant:
                asked = {"broker": address(running)}
                found = await assistant.call_tool("access_accounts", asked)
        rows = data(found)["rows"]
        assert [row["access_key"] for row in rows] == ["administrator", "<b>alice</b>"]
        return [page.text, found.model_dump_json()]

    page, _ = told = await shown()
    for word in ("&lt;b&gt;alice&lt;/b&gt;", "orders=PUB|SUB", "10.9.*.*", "DENY"):
        assert word in page
    assert not any("secret-of" in text for text in told)

    # A broker of Apache tells secret keys to whoever may list accounts.
    async def talkative(self: Accounts, **at: Any) -> Outcomes[AccountList]:
        accounts = tuple(
            PlainAccount(key, f"secret-of-{key}") for key in ("administrator", "<b>alice</b>")
        )
        return Outcomes([Outcome("127.0.0.1:1", AccountList(accounts, ()))])

    monkeypatch.setattr(Accounts, "list", talkative)
    assert not any("secret-of" in text for text in await shown())
