"""Changes are planned, bound to their arguments, done once, and audited."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import trio
from mcp.client.client import Client

from pyrmq import Message, Producer
from pyrmq.admin import Admin
from pyrmq.mcp.arguments import Asked
from pyrmq.mcp.server import AdminServer
from pyrmq.mcp.tool import ChangeTool, Prepared
from pyrmq.server import Running
from tests.mcp.assistant import address, data, error, in_process, plan_of

CLUSTER = "DefaultCluster"


async def test_a_plan_is_for_its_tool_and_arguments_and_for_one_use(embedded: Running) -> None:
    what = {"topic": "Planned", "cluster": CLUSTER, "queues": 4}
    tool = "topic_create_or_change"
    async with (
        in_process(embedded.namesrv, changes=True) as client,
        Admin(embedded.namesrv) as admin,
    ):

        async def plan() -> str:
            return plan_of(await client.call_tool(tool, what))

        async def confirmed(name: str, **arguments: Any) -> str:
            return error(await client.call_tool(name, arguments))

        assert "no plan" in await confirmed(tool, **what, confirm="0123456789abcdef")
        assert "no plan" in await confirmed(tool, **{**what, "queues": 5}, confirm=await plan())
        other = {"topic": "Planned", "cluster": CLUSTER}
        assert "no plan" in await confirmed("topic_delete", **other, confirm=await plan())
        assert "Planned" not in await admin.topics.list()
        token = await plan()
        done = await client.call_tool(tool, {**what, "confirm": token})
        assert data(done)["done"] == [address(embedded)]
        assert "no plan" in await confirmed(tool, **what, confirm=token)
        route = await admin.topics.route("Planned")
        assert [q.read_queue_nums for q in route.queues] == [4]


async def test_an_answer_of_the_user_is_for_its_question(embedded: Running) -> None:
    """A client of protocol 2026-07-28 gets the question as the answer of its call."""
    yes = {"approve": types.ElicitResult(action="accept", content={"approve": True})}
    tool, what = "topic_create_or_change", {"topic": "Forged", "cluster": CLUSTER}

    async def nobody(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        raise AssertionError("the client answers by itself here")

    async with (
        in_process(embedded.namesrv, changes=True, elicitation_callback=nobody) as client,
        Admin(embedded.namesrv) as admin,
    ):

        async def call(**more: Any) -> Any:
            return await client.session.call_tool(
                tool, {**what, "confirm": plan}, allow_input_required=True, **more
            )

        plan = plan_of(await client.call_tool(tool, what))
        early = await call(input_responses=yes)
        assert isinstance(early, types.InputRequiredResult)
        forged = await call(input_responses=yes, request_state="0123456789abcdef")
        assert isinstance(forged, types.InputRequiredResult)
        late = await call(input_responses=yes, request_state=early.request_state)
        assert isinstance(late, types.InputRequiredResult)
        assert "Forged" not in await admin.topics.list()
        done = await call(input_responses=yes, request_state=late.request_state)
        assert data(done)["done"] == [address(embedded)]
        assert "Forged" in await admin.topics.list()


async def test_a_change_that_takes_too_long_may_be_done_in_part(embedded: Running) -> None:
    async def forever() -> Any:
        await trio.sleep_forever()

    async def prepare(admin: Admin, asked: Asked) -> Prepared:
        return Prepared("Wait", None, forever)

    slow = ChangeTool("wait_for_ever", "Wait", "Waits.", prepare, ())
    async with Admin(embedded.namesrv) as admin:
        server = AdminServer(admin, changes=True, seconds=0.1, user="")
        server.add(slow)
        async with Client(server.sdk) as client:
            plan = plan_of(await client.call_tool(slow.name, {}))
            found = await client.call_tool(slow.name, {"confirm": plan})
            assert "A part of it may be done" in error(found)


async def test_a_change_that_is_cancelled_is_audited(
    embedded: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyrmq.mcp.audit")
    begun, ended = trio.Event(), trio.Event()

    async def forever() -> Any:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async def prepare(admin: Admin, asked: Asked) -> Prepared:
        return Prepared("Wait", None, forever)

    async with Admin(embedded.namesrv) as admin:
        server = AdminServer(admin, changes=True, seconds=30, user="")
        server.add(ChangeTool("wait_for_ever", "Wait", "Waits.", prepare, ()))
        async with Client(server.sdk, mode="legacy") as client, trio.open_nursery() as nursery:
            plan = plan_of(await client.call_tool("wait_for_ever", {}))
            nursery.start_soon(client.call_tool, "wait_for_ever", {"confirm": plan})
            await begun.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await ended.wait()
    steps = [record.getMessage().split(":")[0] for record in caplog.records]
    assert steps == ["change planned", "change interrupted"]


async def test_what_is_deleted_and_moved_is_shown_before(
    embedded: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyrmq.mcp.audit")
    async with (
        in_process(embedded.namesrv, changes=True) as client,
        Admin(embedded.namesrv) as admin,
    ):
        await admin.topics.change("Moved", cluster=CLUSTER, read_queue_nums=1, write_queue_nums=1)
        await admin.groups.change("G", {}, cluster=CLUSTER)
        async with Producer("PG", namesrv=embedded.namesrv) as producer:
            for n in range(5):
                await producer.send(Message("Moved", b"%d" % n))

        async def do(tool: str, **arguments: Any) -> tuple[Any, Any]:
            planned = await client.call_tool(tool, arguments)
            confirm = plan_of(planned)
            return data(planned), data(
                await client.call_tool(tool, {**arguments, "confirm": confirm})
            )

        shown, _ = await do("offset_reset", group="G", topic="Moved", to="end")
        assert [q["to"] for q in shown["preview"]["queues"]] == [5]
        shown, _ = await do("offset_reset", group="G", topic="Moved", to="start")
        assert shown["preview"]["repeated_messages"] == 5
        stats = await admin.groups.consume_stats("G", "Moved")
        assert stats.diff == 5
        shown, sent = await do("message_send", topic="Moved", body="hello", keys=["k"])
        assert (shown["preview"]["body"], sent["offset"]) == ("hello", 5)
        place = {"topic": "Moved", "broker_name": sent["broker_name"], "queue": 0, "offset": 4}
        found = data(await client.call_tool("message_read", place))
        assert [(m["body"], m["keys"]) for m in found["messages"]] == [("4", []), ("hello", ["k"])]
        assert found["next_offset"] == 6
        shown, _ = await do("topic_delete", topic="Moved", cluster=CLUSTER)
        assert shown["preview"]["messages"] == 6
        assert "Moved" not in await admin.topics.list()
        shown, _ = await do("group_delete", group="G", cluster=CLUSTER)
        missing = await client.call_tool("group_config", {"group": "G"})
        assert "no broker has group G" in error(missing)
        kv = {"namespace": "N", "key": "K", "value": "V"}
        shown, _ = await do("name_server_kv_change", **kv)
        assert shown["preview"]["now"] is None
        assert data(await client.call_tool("name_server_kv", {"namespace": "N"})) == {"K": "V"}
        live = {"broker": address(embedded), "key": "fileReservedTime", "value": "71"}
        shown, _ = await do("broker_config_change", **live)
        config = {"broker": address(embedded), "filter": "fileReservedTime"}
        assert data(await client.call_tool("broker_config", config)) == {"fileReservedTime": "71"}
    lines = [r for r in caplog.records if r.name == "pyrmq.mcp.audit"]
    done = [r.getMessage() for r in lines if r.getMessage().startswith("change done")]
    assert len(done) == 7
    assert json.loads(done[0].removeprefix("change done: offset_reset ")) == {
        "group": "G", "topic": "Moved", "to": "end",
    }  # fmt: skip
    assert all(getattr(r, "user", "") == "tester" for r in lines)


async def test_what_fails_is_an_error_with_its_reason(embedded: Running) -> None:
    async with in_process(embedded.namesrv, changes=True) as client:

        async def said(tool: str, **arguments: Any) -> str:
            return error(await client.call_tool(tool, arguments))

        assert "No topic route info" in await said("topic_status", topic="Missing")
        assert "broker_list has the addresses" in await said("broker_disk", broker="broker-a")
        assert "argument topic is missing" in await said("topic_status")
        assert "unknown argument" in await said("topic_status", topic="A", more=1)
        assert "one of" in await said("broker_top_users", by="everyone")
        assert "is no time" in await said("message_by_key", topic="A", key="k", begin="yesterday")
        assert "has topic" in await said("topic_delete", topic="Missing", cluster=CLUSTER)
        assert "cluster" in await said("topic_delete", topic="Missing", cluster="Other")
        secret = {"broker": address(embedded), "key": "tlsKeyPassword", "value": "x"}
        assert "is a secret" in await said("broker_config_change", **secret)
        fixed = {"broker": address(embedded), "key": "listenPort", "value": "1"}
        plan = plan_of(await client.call_tool("broker_config_change", fixed))
        assert "listenPort" in await said("broker_config_change", **fixed, confirm=plan)


async def test_a_call_ends_when_nobody_answers(tmp_path: Path) -> None:
    """The name server takes the connection and says nothing."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    host, port = listeners[0].socket.getsockname()
    async with in_process(f"{host}:{port}", seconds=1) as client:
        found = await client.call_tool("topic_list", {})
        assert "took longer than 1 s" in error(found)
    for listener in listeners:
        await listener.aclose()
