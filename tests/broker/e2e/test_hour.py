"""What a broker's history has of CPU, the loop, what groups have not consumed, and replication."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyrmq import Message, MessageQueue, Producer
from pyrmq.admin import Admin
from pyrmq.admin.group_lags import lags_of
from pyrmq.broker.stats import hour as module
from pyrmq.broker.stats.hour import HourState
from pyrmq.broker.tables.groups import Group
from pyrmq.net.address import format_address
from pyrmq.server import Running

MASTER = {"master": True, "haConnectionInfo": []}


async def nothing() -> dict[str, int]:
    return {"connections": 1}


def state_of(running: Running, ha: dict[str, Any] = MASTER, **more: Any) -> HourState:
    parts = running.broker.parts
    return HourState(nothing, parts.store, parts.tables, lambda: ha, **more)


def know(running: Running, *groups: str) -> None:
    for name in groups:
        running.broker.parts.tables.groups.groups[name] = Group(name)


async def test_what_groups_have_not_consumed(embedded: Running) -> None:
    async with Producer("p", namesrv=embedded.namesrv) as producer:
        for _ in range(10):
            await producer.send(Message("Orders", b"x"))
    offsets = embedded.broker.parts.tables.offsets
    know(embedded, "late", "later")
    hour = state_of(embedded)
    assert (await hour())["backlog"] == 0, "no group has begun"
    for queue_id in range(4):
        offsets.commit("Orders", "late", queue_id, 0)
        offsets.commit("Orders", "later", queue_id, 1)
        offsets.commit("Orders", "CID_RMQ_SYS_own", queue_id, 0)
        offsets.commit("Orders", "deleted-group", queue_id, 0)
        offsets.commit("Deleted", "late", queue_id, 0)
    stored = embedded.broker.parts.store.native.queue_end
    ends = [stored("Orders", queue) for queue in range(4)]
    assert sum(ends) == 10
    assert (await hour())["backlog"] == 10 + sum(max(end - 1, 0) for end in ends)


async def test_the_backlog_is_the_lag_that_the_broker_tells_of_its_groups(
    embedded: Running,
) -> None:
    async with Producer("p", namesrv=embedded.namesrv) as producer:
        name = (await producer.send(Message("Orders", b"x"))).queue.broker_name
        for queue_id in range(4):
            queue = MessageQueue("Orders", name, queue_id)
            for _ in range(3):
                await producer.send(Message("Orders", b"x"), queue=queue)
    know(embedded, "begun")
    embedded.broker.parts.tables.offsets.commit("Orders", "begun", 0, 2)
    async with Admin(embedded.namesrv) as admin:
        told = await lags_of(admin.link, format_address(embedded.broker.address))
    assert told["begun"].lag == 11, "queues without an offset count from their first message"
    assert (await state_of(embedded)())["backlog"] == 11


async def test_many_groups_are_counted_less_often(
    embedded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAIRS", 2)
    async with Producer("p", namesrv=embedded.namesrv) as producer:
        await producer.send(Message("Orders", b"x"))
    offsets = embedded.broker.parts.tables.offsets
    queue = next(q for q in range(4) if embedded.broker.parts.store.native.queue_end("Orders", q))
    hour = state_of(embedded)
    for n in range(4):
        know(embedded, f"g{n}")
        offsets.commit("Orders", f"g{n}", queue, 0)
    assert (await hour())["backlog"] == 4
    offsets.commit("Orders", "g0", queue, 1)
    assert [(await hour())["backlog"] for _ in range(3)] == [4, 4, 3]


async def test_cpu_is_that_since_the_call_before(embedded: Running) -> None:
    times = iter([1.0, 1.5, 3.5])
    hour = state_of(embedded, cpu=lambda: next(times))
    assert [(await hour())["cpuMs"] for _ in range(2)] == [500, 2000]
    assert (await embedded.broker.parts.hour())["connections"] >= 0


async def test_how_far_replication_is_behind(embedded: Running) -> None:
    slaves = [{"diff": 5}, {"diff": 70}, {"diff": -3}]
    hour = state_of(embedded, {"master": True, "haConnectionInfo": slaves})
    assert (await hour())["slaveBehind"] == 70
    own = {"masterFlushOffset": 100, "maxOffset": 40, "activated": True}
    hour = state_of(embedded, {"master": False, "haClientRuntimeInfo": own})
    assert (await hour())["slaveBehind"] == 60


async def test_without_a_connection_nobody_knows_how_far_a_slave_is(embedded: Running) -> None:
    assert "slaveBehind" not in await state_of(embedded)()
    own = {"masterFlushOffset": 100, "maxOffset": 40, "activated": False}
    hour = state_of(embedded, {"master": False, "haClientRuntimeInfo": own})
    assert "slaveBehind" not in await hour()


async def test_how_late_the_loop_runs(mock_clock: MockClock) -> None:
    empty: Any = None
    hour = HourState(nothing, empty, empty, lambda: MASTER)
    hour._until_count = 1 << 30  # there is no table of groups here
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hour.run)
        await wait_all_tasks_blocked()
        for seconds in (1.0, 1.25, 1.0):
            mock_clock.jump(seconds)
            await wait_all_tasks_blocked()
        assert (await hour())["loopLateMs"] == 250
        assert (await hour())["loopLateMs"] == 0
        nursery.cancel_scope.cancel()
