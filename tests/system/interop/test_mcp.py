"""The tools of `pyrmq mcp` over Apache RocketMQ's name server and broker."""

from __future__ import annotations

import pytest

from pyrmq.mcp.catalog import READS
from tests.mcp import assistant as assistants
from tests.support.fixtures import deadline as deadline

from .apache_with_data import namesrv as namesrv

pytestmark = [
    pytest.mark.thorough("a cluster of Apache's for one test"),
    pytest.mark.usefixtures("deadline"),
]


async def test_the_tools_of_assistants_answer(namesrv: str) -> None:
    """What Apache's servers do not have is an error that says so."""
    async with assistants.in_process(namesrv, changes=True) as assistant:
        brokers = assistants.data(await assistant.call_tool("broker_list", {}))
        known = {
            "broker": brokers[0]["address"], "broker_name": brokers[0]["broker_name"],
            "cluster": brokers[0]["cluster"], "topic": "orders", "group": "orders-group",
            "queue": 0, "key": "order-3", "id": "7F0000010000332E0000000000000000", "to": "start",
        }  # fmt: skip
        failed = set()
        for tool in READS:
            given = {a.name: known[a.name] for a in tool.arguments if a.required}
            found = await assistant.call_tool(tool.name, given)
            if found.is_error:
                assert "unexpectedly" not in assistants.error(found), tool.name
                failed.add(tool.name)
        needs_more = {"group_members", "group_problems", "producer_connections", "message_trace"}
        assert failed <= needs_more | {
            "message_get", "message_life", "dead_letter_list", "access_users", "access_lists",
            "access_accounts",
        }  # fmt: skip
        what = {"topic": "of-an-assistant", "cluster": known["cluster"], "queues": 3}
        plan = assistants.plan_of(await assistant.call_tool("topic_create_or_change", what))
        done = await assistant.call_tool("topic_create_or_change", {**what, "confirm": plan})
        assert assistants.data(done)["done"] == [known["broker"]]
