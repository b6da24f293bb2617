"""`pyrmq mcp` as the process that an assistant starts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import trio

from pyrmq import Message, Producer, PushConsumer
from pyrmq.admin import Admin
from pyrmq.server import Running
from tests.mcp.assistant import address, as_process, data, error, in_process, plan_of
from tests.support import forked
from tests.support.command import PYRMQ, environment
from tests.support.dead_letters import until

CLUSTER = "DefaultCluster"


async def test_it_serves_reads_and_no_tool_that_changes(embedded: Running, tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    async with as_process(embedded.namesrv, log) as client:
        tools = (await client.list_tools()).tools
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools)
        found = data(await client.call_tool("broker_list", {}))
        assert [(b["role"], b["cluster"]) for b in found] == [("master", CLUSTER)]
        assert data(await client.call_tool("cluster_health", {}))["state"] != "down"
        with pytest.raises(Exception, match="--allow-changes"):
            await client.call_tool("topic_delete", {"topic": "A", "cluster": CLUSTER})
        read = await client.read_resource("rocketmq://cluster/health")
        assert isinstance(read.contents[0], types.TextResourceContents)
        assert json.loads(read.contents[0].text)["data"]["state"] != "down"
    assert "read-only" in log.read_text()
    assert "Traceback" not in log.read_text()


async def test_a_group_without_members_is_an_answer(embedded: Running) -> None:
    async with Producer("p", namesrv=embedded.namesrv) as producer:
        await producer.send(Message("Orders", b"x"))
    async with in_process(embedded.namesrv) as client:

        async def known() -> bool:
            return not (await client.call_tool("group_members", {"group": "gone"})).is_error

        async with PushConsumer("gone", {"Orders": "*"}, namesrv=embedded.namesrv):
            await until(known, "its retry topic has a route")

        async def told(tool: str) -> Any:
            return data(await client.call_tool(tool, {"group": "gone"}))

        assert (await told("group_members"))["members"] == []
        (problem,) = (await told("group_problems"))["problems"]
        assert problem["problem"].startswith("no member is connected")
        refused = await client.call_tool("group_members", {"group": "never"})
        assert "no consumer of group never has been here" in error(refused)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_user_is_asked_before_a_change(
    embedded: Running, tmp_path: Path, mode: str
) -> None:
    asked: list[str] = []
    decisions = iter([
        types.ElicitResult(action="decline"),
        types.ElicitResult(action="accept", content={"approve": False}),
        types.ElicitResult(action="accept", content={"approve": True}),
    ])  # fmt: skip

    async def user(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return next(decisions)

    what = {"topic": "Asked", "cluster": CLUSTER, "queues": 3}
    log = tmp_path / "stderr"
    async with (
        as_process(
            embedded.namesrv, log, "--allow-changes", mode=mode, elicitation_callback=user
        ) as client,
        Admin(embedded.namesrv) as admin,
    ):
        for said in ("decline", "accept"):
            plan = plan_of(await client.call_tool("topic_create_or_change", what))
            refused = await client.call_tool("topic_create_or_change", {**what, "confirm": plan})
            assert f"did not approve it ({said})" in error(refused)
            assert "Asked" not in await admin.topics.list()
        plan = plan_of(await client.call_tool("topic_create_or_change", what))
        done = await client.call_tool("topic_create_or_change", {**what, "confirm": plan})
        assert data(done)["done"] == [address(embedded)]
        assert "Asked" in await admin.topics.list()
    assert len(asked) == 3
    assert "Create topic Asked in cluster DefaultCluster" in asked[0]
    steps = [line.split(" change ")[1].split(":")[0] for line in log.read_text().splitlines()
             if "pyrmq.mcp.audit" in line]  # fmt: skip
    assert steps == ["planned", "asked", "declined"] * 2 + ["planned", "asked", "done"]


async def test_what_is_no_message_gets_an_answer_and_ends_nothing(tmp_path: Path) -> None:
    """Nothing answers at the name server's address, and the server starts all the same."""
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "raw", "version": "1"}},
    }  # fmt: skip
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    process = forked.popen(
        [*PYRMQ, "mcp", "-n", "127.0.0.1:1", "--timeout", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        lines: list[Any] = []
        for raw in (b"{", b"\xff\xfe", b"x" * (2 << 20), b"[" * 5000,
                    json.dumps(hello).encode(), json.dumps(ping).encode()):  # fmt: skip
            process.stdin.write(raw + b"\n")
            process.stdin.flush()
            lines.append(json.loads(await trio.to_thread.run_sync(process.stdout.readline)))
        assert [line["id"] for line in lines] == [None] * 4 + [1, 2]
        assert all(line["error"]["code"] == -32700 for line in lines[:4])
        process.stdin.close()
        assert process.wait(30) == 0
        assert process.stdout.read() == b""


async def test_sigterm_ends_it(tmp_path: Path) -> None:
    process = forked.popen(
        [*PYRMQ, "mcp", "-n", "127.0.0.1:1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert process.stderr is not None
    with process:
        assert b"serving" in await trio.to_thread.run_sync(process.stderr.readline)
        process.terminate()
        assert process.wait(30) == 0
