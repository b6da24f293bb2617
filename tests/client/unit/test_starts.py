"""Where a group begins in queues that it has no offset in: nothing is left out that is sent after a
consumer was entered, nor what came while a group was away."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom, LitePullConsumer, MessageModel, PushConsumer
from tests.client.members import after, collect, consumer
from tests.support.scripted.groups import (
    AT_TIME,
    MAX_OFFSET,
    QUERY_OFFSET,
    UPDATE_OFFSET,
    GroupBroker,
)
from tests.support.scripted.script import SILENCE
from tests.support.scripted.streams import HEART_BEAT, StreamCluster

LAST: Any = {"consume_from": ConsumeFrom.LAST_OFFSET}


def last(folder: Path, broadcasting: bool, **options: Any) -> PushConsumer:
    if broadcasting:
        options |= {"message_model": MessageModel.BROADCASTING, "offset_folder": folder}
    return consumer(**LAST, **options)


@pytest.mark.parametrize("broadcasting", [False, True])
async def test_what_is_sent_at_once(
    alone: GroupBroker, broadcasting: bool, tmp_path: Path, clock: MockClock
) -> None:
    """Not even a checkpoint lies between entering and sending."""
    for n in range(10):
        alone.put(b"history", queue=n % 2)
    seen: Counter[bytes] = Counter()
    async with last(tmp_path, broadcasting) as reader, trio.open_nursery() as nursery:
        for n in range(10):
            alone.put(b"%d" % n, queue=n % 2)
        nursery.start_soon(collect, reader, seen)
        await after(2)
        nursery.cancel_scope.cancel()
    assert seen == {b"%d" % n: 1 for n in range(10)}


async def test_what_is_sent_after_subscribing(alone: GroupBroker, clock: MockClock) -> None:
    alone.put(b"history", topic="U")
    seen: Counter[bytes] = Counter()
    async with consumer(**LAST) as reader, trio.open_nursery() as nursery:
        await reader.subscribe("U")
        alone.put(b"x", topic="U")
        nursery.start_soon(collect, reader, seen)
        await after(2)
        nursery.cancel_scope.cancel()
    assert seen == {b"x": 1}


async def test_what_is_sent_before_the_first_poll(alone: GroupBroker, clock: MockClock) -> None:
    alone.put(b"history")
    async with LitePullConsumer("g", {"T": "*"}, namesrv=StreamCluster.namesrv, **LAST) as reader:
        alone.put(b"x")
        assert [m.body for m in await reader.poll(5)] == [b"x"]


@pytest.mark.parametrize("broadcasting", [False, True])
async def test_a_topic_that_comes_after_the_consumer(
    groups: StreamCluster, alone: GroupBroker, broadcasting: bool, tmp_path: Path, clock: MockClock
) -> None:
    """All that was sent to it since, and nothing that is older than the consumer by more than
    clocks may differ: its broker may only have been away."""
    groups.missing.add("T")
    now = time.time_ns() // 1_000_000
    with_times = [(b"old", now - 3_600_000), (b"new", now + 1), (b"newer", now + 1000)]
    for body, when in with_times:
        alone.put(body)
        alone.retime(when)
    seen: Counter[bytes] = Counter()
    async with last(tmp_path, broadcasting) as reader, trio.open_nursery() as nursery:
        groups.missing.clear()
        nursery.start_soon(collect, reader, seen)
        await after(60)
        nursery.cancel_scope.cancel()
    assert seen == {b"new": 1, b"newer": 1}


async def test_a_broker_that_says_nothing_holds_up_entering_for_a_moment_only(
    alone: GroupBroker, clock: MockClock
) -> None:
    alone.change[MAX_OFFSET] = lambda c: SILENCE
    began = trio.current_time()
    async with consumer(**LAST):
        assert trio.current_time() - began == pytest.approx(3, abs=0.1)
        alone.change.pop(MAX_OFFSET)
        await after(60)
    assert alone.requests(AT_TIME), "what was sent since it was entered is found by its time"


async def test_entering_may_be_cancelled(
    alone: GroupBroker, tmp_path: Path, clock: MockClock
) -> None:
    """Nothing is left behind: the same file can be had again."""
    alone.change[MAX_OFFSET] = lambda c: SILENCE
    with trio.move_on_after(1):
        async with last(tmp_path, True):
            raise AssertionError
    alone.change.pop(MAX_OFFSET)
    async with last(tmp_path, True) as reader:
        assert len(reader.assigned) == 2


@pytest.mark.parametrize("how", [ConsumeFrom.LAST_OFFSET, ConsumeFrom.TIMESTAMP])
async def test_a_broker_that_is_new_to_a_group(
    a: GroupBroker, b: GroupBroker, how: ConsumeFrom, clock: MockClock
) -> None:
    """The group has offsets at one broker of the topic; the other came while it was away."""
    for n in range(4):
        a.put(b"consumed", queue=n % 2)
    a.offsets.update({("g", "T", 0): 2, ("g", "T", 1): 2})
    for n in range(10):
        b.put(b"%d" % n, queue=n % 2)
    seen: Counter[bytes] = Counter()
    options: Any = {"consume_from": how}
    if how is ConsumeFrom.TIMESTAMP:
        options["consume_timestamp"] = time.time_ns() // 1_000_000
    async with consumer(**options) as reader, trio.open_nursery() as nursery:
        nursery.start_soon(collect, reader, seen)
        await after(2)
        nursery.cancel_scope.cancel()
    assert seen == {b"%d" % n: 1 for n in range(10)}


async def test_a_broker_that_is_new_to_a_broadcasting_member(
    groups: StreamCluster, a: GroupBroker, tmp_path: Path, clock: MockClock
) -> None:
    b = groups.brokers.pop("broker-b")
    a.put(b"history")
    async with last(tmp_path, True):
        await after(6)
    groups.brokers["broker-b"] = b
    assert isinstance(b, GroupBroker)
    b.put(b"while away")
    seen: Counter[bytes] = Counter()
    async with last(tmp_path, True) as reader, trio.open_nursery() as nursery:
        nursery.start_soon(collect, reader, seen)
        await after(2)
        nursery.cancel_scope.cancel()
    assert seen == {b"while away": 1}


async def test_a_new_group_of_several_members_gets_no_history(
    a: GroupBroker, b: GroupBroker, clock: MockClock
) -> None:
    """What one of them writes first is no sign that the group was there before."""
    for broker in (a, b):
        for n in range(10):
            broker.put(b"history", queue=n % 2)
    seen: Counter[bytes] = Counter()
    entered = 0

    async def join() -> None:
        nonlocal entered
        async with consumer(**LAST) as reader:
            entered += 1
            await collect(reader, seen)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(join)
        await after(30)
        assert entered == 4
        for n in range(8):
            (a, b)[n % 2].put(b"%d" % n, queue=n // 2 % 2)
        await after(2)
        nursery.cancel_scope.cancel()
    assert seen == {b"%d" % n: 1 for n in range(8)}


async def test_the_group_is_not_heard_of_while_its_offsets_are_looked_for(
    alone: GroupBroker, clock: MockClock
) -> None:
    async with consumer(**LAST):
        codes = [c.code for c in alone.requests(QUERY_OFFSET, HEART_BEAT, UPDATE_OFFSET)]
    first = alone.requests(QUERY_OFFSET)[0]
    assert codes.index(QUERY_OFFSET) < codes.index(HEART_BEAT) < codes.index(UPDATE_OFFSET)
    assert first.ext["setZeroIfNotFound"] == "false"


async def test_brokers_that_do_not_know_the_question(alone: GroupBroker, clock: MockClock) -> None:
    """Before version 5 they answer 0 for a queue that is in memory, whatever was asked."""

    def old(c: Any) -> Any:
        if c.ext["queueId"] == "0":
            answer = c.reply(0, {"offset": "0"})
            answer.version = 399
            return answer
        return c.reply(22)

    for n in range(4):
        alone.put(b"history", queue=n % 2)
    alone.change[QUERY_OFFSET] = old
    seen: Counter[bytes] = Counter()
    async with consumer(**LAST) as reader, trio.open_nursery() as nursery:
        nursery.start_soon(collect, reader, seen)
        await after(2)
        nursery.cancel_scope.cancel()
    assert seen == {b"history": 2}, "of the queue that the broker sent it to the start of"
