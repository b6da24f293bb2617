"""Topics and groups for users whom the broker lets see and change little."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.console.app import console_app
from pyrmq.console.settings import LoginKind, Settings
from tests.auth.e2e.test_access_requests import ON, ROOT, broker_of
from tests.console.asgi import client
from tests.console.e2e.test_broker_login import ALICE, log_in, token_of
from tests.console.e2e.test_topics import words
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")
PAGES = (
    "/topics", "/topics?kind=all", "/topics/orders", "/topics/orders/producers",
    "/topics/orders/change", "/topics/orders/delete", "/topics/~/create", "/groups",
    "/groups/billing", "/groups/billing/live", "/groups/billing/change", "/groups/billing/reset",
    "/groups/billing/reset?topic=orders&to=earliest", "/groups/billing/delete", "/groups/~/create",
)  # fmt: skip
RIGHTS = {
    "nothing but brokers": (Entry("Cluster:*", ("Get", "List")),),
    "one topic": (Entry("Cluster:*", ("Get", "List")), Entry("Topic:orders", ("Get",))),
    "to look at everything": (
        Entry("Cluster:*", ("Get", "List")),
        Entry("Topic:*", ("Get", "List")),
        Entry("Group:*", ("Get", "List")),
    ),
}


@pytest.mark.parametrize("rights", RIGHTS.values(), ids=RIGHTS)
async def test_every_page_says_what_it_may_not_show(
    serve: Serve, tmp_path: Path, rights: tuple[Entry, ...]
) -> None:
    async with serve(tmp_path, **ON) as running, Admin(running.namesrv, credentials=ROOT) as root:
        await root.users.create(User("alice", ALICE.secret_key), broker=broker_of(running))
        await root.acls.create(Acl("User:alice", rights), broker=broker_of(running))
        (await root.topics.change("orders", cluster="DefaultCluster")).check_all()
        (await root.groups.change("billing", {}, cluster="DefaultCluster")).check_all()
        app = console_app(Settings(running.namesrv, login=LoginKind.BROKER))
        async with client(app) as browser:
            assert (await log_in(browser, ALICE)).status == 303
            for path in PAGES:
                shown = await browser.get(path)
                assert shown.status in (200, 403, 404, 502), (path, words(shown.text))
            group = words((await browser.get("/groups/billing")).text)
            assert ("no right" in group) == (rights != RIGHTS["to look at everything"])
            assert ("consumed nothing yet" in group) == ("no right" not in group)
            browser.token = await token_of(browser)
            form = {
                "topic": "orders",
                "group": "billing",
                "_typed": "orders",
                "cluster": "DefaultCluster",
            }
            for path in ("/topics/orders/delete", "/topics/orders/change", "/groups/billing/pause"):
                refused = await browser.post(path, {**form, "perm": "4", "to": "pause"})
                assert refused.status == 422, (path, words(refused.text))
        assert "orders" in await root.topics.list()
        (config,) = (await root.groups.configs("billing")).check_all().values
        assert config is not None
        assert config.config.consume_enable
