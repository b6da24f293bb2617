"""Offsets of groups: `admin.offsets` and the commands about them."""

from __future__ import annotations

import json

import pytest

from pyrmq import MessageModel, PushConsumer
from pyrmq.admin import Admin
from pyrmq.admin.offset_moves import END, START
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue
from pyrmq.server import Running
from tests.admin.e2e.test_groups import broker, consumer, send, until
from tests.support.fixtures import Serve
from tests.support.mqadmin import Ran, admin, mqadmin


async def make(server: Running, group: str = "g") -> None:
    words = ("-b", broker(server), "-g", group)
    assert (await mqadmin(server.namesrv, "updateSubGroup", *words)).code == 0


def cells(ran: Ran, first: int) -> list[list[str]]:
    return [line.split() for line in ran.lines[first:]]


async def offset(server: Running, group: str, queue: int = 0) -> int:
    async with Admin(server.namesrv) as tools:
        stats = await tools.groups.stats_of_broker(broker(server), group, "Topic")
        return next(q.consumer_offset for q in stats.queues if q.queue.queue_id == queue)


async def test_by_time_to_the_end_and_one_queue(embedded: Running) -> None:
    await send(embedded, 3)
    await make(embedded)
    words = ("-g", "g", "-t", "Topic")
    moved = await mqadmin(embedded.namesrv, "skipAccumulatedMessage", *words)
    assert moved.code == 0, moved.err
    assert moved.lines[0].split() == ["#brokerName", "#queueId", "#offset"]
    assert ["broker-a", "0", "3"] in cells(moved, 1)
    assert await offset(embedded, "g") == 3

    back = await mqadmin(embedded.namesrv, "resetOffsetByTime", *words, "-s", "1")
    assert back.lines[0] == (
        "start reset consumer offset by specified, group[g], topic[Topic], force[true], "
        "timestamp(string)[1], timestamp(long)[1]"
    )
    assert ["broker-a", "0", "0"] in cells(back, 2)
    assert await offset(embedded, "g") == 0

    at = ("-b", broker(embedded), "-q", "0")
    one = await mqadmin(embedded.namesrv, "resetOffsetByTime", *words, "-s", "1", *at, "-o", "2")
    assert one.code == 0, one.err
    assert one.lines[-1] == "reset consumer offset to 2"
    assert await offset(embedded, "g") == 2
    far = await mqadmin(embedded.namesrv, "resetOffsetByTime", *words, "-s", "1", *at, "-o", "9")
    assert far.code == 2
    zero = await mqadmin(embedded.namesrv, "resetOffsetByTime", *words, "-s", "1", *at)
    assert zero.lines[-1] == "reset consumer offset to 0"
    assert await offset(embedded, "g") == 0

    unknown = await mqadmin(embedded.namesrv, "skipAccumulatedMessage", "-g", "no", "-t", "Topic")
    assert (unknown.code, unknown.out) == (2, "")
    assert "CODE: 26" in unknown.err
    lost = await mqadmin(embedded.namesrv, "skipAccumulatedMessage", "-g", "g", "-t", "Lost")
    assert lost.code == 2
    assert "CODE: 17" in lost.err


async def test_groups_that_are_offline_on_brokers_that_ask_members(serve: Serve) -> None:
    async with serve(use_server_side_reset_offset=False) as server:
        await send(server, 3)
        await make(server)
        async with Admin(server.namesrv) as tools:
            for queue in range(4):
                at = MessageQueue("Topic", "broker-a", queue)
                await tools.offsets.set(broker(server), "g", at, 1 if queue == 0 else 0)
        words = ("-g", "g", "-t", "Topic")
        kept = await mqadmin(server.namesrv, "skipAccumulatedMessage", *words, "-f", "false")
        assert kept.code == 0, kept.err
        assert kept.lines[0].split()[-2:] == ["#timestampOffset", "#rollbackOffset"]
        assert ["broker-a", "0", "3", "1", "3", "1"] in cells(kept, 1)
        moved = await mqadmin(server.namesrv, "resetOffsetByTime", *words, "-s", "now")
        assert moved.lines[0].startswith("reset consumer offset by specified consumerGroup[g], ")
        assert ["broker-a", "0", "3", "1", "3", "3"] in cells(moved, 2)
        assert await offset(server, "g") == 3
        one = ("resetOffsetByTime", *words, "-s", "1", "-b", broker(server), "-q", "0", "-o", "2")
        assert (await mqadmin(server.namesrv, *one)).code == 0
        assert await offset(server, "g") == 2
        async with consumer(server, "g"):
            await until(server, "CLUSTERING", "consumerConnection", "-g", "g")
            online = await mqadmin(server.namesrv, *one)
            assert online.code == 2
            assert "stop the members of group g first" in online.err


async def test_cloning(embedded: Running) -> None:
    await send(embedded, 3)
    for group in ("g", "copy"):
        await make(embedded, group)
    words = ("-s", "g", "-d", "copy", "-t", "Topic")
    nothing = await mqadmin(
        embedded.namesrv, "cloneGroupOffset", "-s", "g", "-d", "copy", "-t", "No"
    )
    assert nothing.code == 2
    await mqadmin(embedded.namesrv, "skipAccumulatedMessage", "-g", "g", "-t", "Topic")
    done = await mqadmin(embedded.namesrv, "cloneGroupOffset", *words)
    assert done.lines == [
        "clone group offset success. srcGroup[g], destGroup=[copy], topic[Topic]"
    ], done.err
    assert await offset(embedded, "copy") == 3


async def test_the_tree(embedded: Running) -> None:
    await send(embedded, 3)
    await make(embedded)
    words = ("offset", "reset", "g", "Topic", "--to", "end")
    planned = await admin(embedded.namesrv, *words, "--dry-run", "-o", "json")
    assert planned.code == 0, planned.err
    row = next(r for r in json.loads(planned.out) if r["queue"]["queue_id"] == 0)
    assert (row["consumer_offset"], row["offset"]) == (0, 3)
    assert await offset(embedded, "g") == 0, "nothing was done"
    asked = await admin(embedded.namesrv, *words)
    assert asked.code == 1
    done = await admin(embedded.namesrv, *words, "-y")
    assert done.code == 0, done.err
    assert await offset(embedded, "g") == 3
    begin = await admin(embedded.namesrv, "offset", "reset", "g", "Topic", "--to", "start", "-y")
    assert begin.code == 0, begin.err
    assert await offset(embedded, "g") == 0
    skipped = await admin(embedded.namesrv, "offset", "skip", "g", "Topic", "--yes")
    assert "broker-a" in skipped.out
    cloned = await admin(embedded.namesrv, "offset", "clone", "g", "h", "Topic", "-y")
    assert cloned.code == 0, cloned.err
    assert await offset(embedded, "h") == 3
    bad = await admin(embedded.namesrv, "offset", "reset", "g", "Topic", "--to", "soon", "-y")
    assert bad.code == 1


async def test_a_preview_of_each_queue(embedded: Running) -> None:
    await send(embedded, 5)
    await make(embedded)
    async with Admin(embedded.namesrv) as tools:
        await tools.offsets.set(broker(embedded), "g", MessageQueue("Topic", "broker-a", 0), 3)
        back = await tools.offsets.preview("g", "Topic", time_ms=START)
        assert len(back.queues) == 4
        first = back.queues[0]
        assert (first.first, first.broker_offset, first.consumer_offset) == (0, 5, 3)
        assert (first.offset, first.skipped, first.repeated) == (0, 0, 3)
        assert (back.skipped, back.repeated, back.members) == (0, 3, [])
        on = await tools.offsets.preview("g", "Topic", time_ms=END)
        assert (on.queues[0].offset, on.skipped, on.repeated) == (5, 2, 0)
        one = await tools.offsets.preview("g", "Topic", offset=9, queue_id=0)
        assert [(q.queue.queue_id, q.found, q.offset) for q in one.queues] == [(0, 9, 5)]
        assert await offset(embedded, "g") == 3, "nothing was done"
        for wrong, why in (
            ({"time_ms": END, "offset": 1}, "either"),
            ({"time_ms": END, "broker_name": "broker-b"}, "it is on broker-a"),
            ({"time_ms": END, "queue_id": 17}, "no queue 17"),
        ):
            with pytest.raises(ClientError, match=why):
                await tools.offsets.preview("g", "Topic", **wrong)  # type: ignore[arg-type]
        with pytest.raises(ClientError, match="no broker has group nobody"):
            await tools.offsets.preview("nobody", "Topic", time_ms=END)
        assert (await tools.offsets.move(on)).check_all()
        assert await offset(embedded, "g") == 5


async def test_one_queue_and_one_offset(embedded: Running) -> None:
    await send(embedded, 3)
    await send(embedded, 2, MessageQueue("Topic", "broker-a", 1))
    await make(embedded)
    words = ("offset", "reset", "g", "Topic")
    moved = await admin(embedded.namesrv, *words, "--to", "latest", "--queue", "1", "-y")
    assert moved.code == 0, moved.err
    assert (await offset(embedded, "g"), await offset(embedded, "g", 1)) == (0, 2)
    exact = await admin(
        embedded.namesrv, *words, "--offset", "2", "--queue", "0", "--broker-name", "broker-a",
        "-y", "-o", "json",
    )  # fmt: skip
    (row,) = json.loads(exact.out)
    assert (row["offset"], row["skipped"], row["repeated"]) == (2, 2, 0)
    assert (await offset(embedded, "g"), await offset(embedded, "g", 1)) == (2, 2)
    asked = await admin(embedded.namesrv, *words, "--to", "earliest")
    assert asked.code == 1
    assert "0 messages are skipped, 4 come again" in asked.err
    assert "no member runs" in asked.err
    for wrong in ((), ("--offset", "1"), ("--to", "end", "--offset", "1", "--queue", "0")):
        assert (await admin(embedded.namesrv, *words, *wrong, "-y")).code == 1
    await send(embedded, 1)
    skipped = await admin(embedded.namesrv, "offset", "skip", "g", "Topic", "--queue", "0", "-y")
    assert skipped.code == 0, skipped.err
    assert await offset(embedded, "g") == 4


async def test_members_are_named_and_moved(embedded: Running) -> None:
    await send(embedded, 3)
    async with consumer(embedded, "g") as reader:
        await until(embedded, "CLUSTERING", "consumerConnection", "-g", "g")
        async for message in reader:
            reader.acknowledge(message)
            if message.queue_offset == 2:
                break
        async with Admin(embedded.namesrv) as tools:
            plan = await tools.offsets.preview("g", "Topic", offset=1, queue_id=0)
            assert plan.members is not None
            assert len(plan.members) == 1
            (await tools.offsets.move(plan)).check_all()
        async for message in reader:
            assert message.queue_offset == 1
            break


async def test_a_group_that_is_broadcast_to(embedded: Running) -> None:
    await send(embedded, 1)
    async with PushConsumer(
        "cast", {"Topic": "*"}, namesrv=embedded.namesrv, message_model=MessageModel.BROADCASTING
    ):
        await until(embedded, "BROADCASTING", "consumerConnection", "-g", "cast")
        refused = await admin(
            embedded.namesrv, "offset", "reset", "cast", "Topic", "--to", "end", "-y"
        )
    assert refused.code == 2
    assert "its members keep their offsets themselves" in refused.err


async def test_brokers_that_ask_members(serve: Serve) -> None:
    async with serve(use_server_side_reset_offset=False) as server:
        await send(server, 3)
        await make(server)
        words = ("offset", "reset", "g", "Topic", "-y", "--to", "end")
        alone = await admin(server.namesrv, *words, "--queue", "0")
        assert alone.code == 0, alone.err
        assert await offset(server, "g") == 3
        async with consumer(server, "g"):
            await until(server, "CLUSTERING", "consumerConnection", "-g", "g")
            one = await admin(server.namesrv, *words, "--queue", "0")
            assert one.code == 2
            assert "stop the members of group g first" in one.err
