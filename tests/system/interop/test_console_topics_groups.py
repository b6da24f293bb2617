"""The tests of the console's topics and groups in tests/console/e2e once more, on Apache RocketMQ's
broker."""

from __future__ import annotations

import pytest

from tests.console.asgi import Client
from tests.console.e2e import test_groups, test_topics
from tests.console.e2e.test_groups import console as console

from .apache import Served
from .test_client_suite import _tests
from .test_client_suite import apache as apache
from .test_client_suite import deadline as deadline
from .test_client_suite import embedded as embedded
from .test_client_suite import serve as serve
from .test_client_suite import shared as shared

pytestmark = [
    pytest.mark.usefixtures("deadline"),
    pytest.mark.thorough("the same tests with Apache RocketMQ's broker"),
]

globals().update(_tests(test_topics, test_groups))
# Apache's broker does not say what single members want (the members do, after two minutes), and
# tells lags without a bound.
for name in ("test_members_that_differ", "test_lags_that_are_not_told_at_once"):
    del globals()[name]


async def test_a_group_that_its_broker_deletes_only_with_offsets(
    embedded: Served, console: Client
) -> None:
    await console.get("/groups/~/create")
    form = {"group": "stays", "cluster": "DefaultCluster"}
    assert (await console.post("/groups/~/create", form)).status == 303
    kept = await console.post("/groups/stays/delete", {**form, "_typed": "stays"})
    assert kept.status == 303
    shown = await console.get("/groups/stays")
    assert shown.status == 200
    assert "is still there" in shown.text
    gone = {**form, "_typed": "stays", "offsets": "1"}
    assert (await console.post("/groups/stays/delete", gone)).status == 303
    assert (await console.get("/groups/stays")).status == 404
