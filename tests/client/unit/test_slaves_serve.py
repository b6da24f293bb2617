"""A master that is gone, or that sends readers to its slave: reading goes on there, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom
from tests.client.members import after, collect, consumer
from tests.support.scripted.groups import PULL, QUERY_OFFSET, GroupBroker
from tests.support.scripted.script import SILENCE, times
from tests.support.scripted.slaves import MASTER, SLAVE, Pair, pair
from tests.support.scripted.streams import ROUTE
from tests.support.wire import Command


@pytest.fixture
async def two() -> AsyncIterator[Pair]:
    async with pair() as running:
        running.cluster.queues = 1
        yield running


def pulls(broker: GroupBroker, topic: str = "T") -> int:
    return len([c for c in broker.requests(PULL) if c.ext["topic"] == topic])


async def test_a_master_suggests_its_slave(two: Pair, clock: MockClock) -> None:
    """That is asked once, and sends the reader back."""
    for n in range(100):
        two.put(b"%d" % n)
    usual = two.master._pull

    def slow(c: Command) -> Command | None:
        answer = usual(c)
        if answer is not None and c.ext["topic"] == "T" and c.ext["queueOffset"] in ("0", "64"):
            answer.ext["suggestWhichBrokerId"] = "1"
        return answer

    two.master._pull = slow  # type: ignore[method-assign]
    seen: list[bytes] = []

    async def listener(message: Any) -> None:
        seen.append(message.body)

    async with consumer(listener=listener):
        await after(5)
        assert sorted(seen, key=int) == [b"%d" % n for n in range(100)]
        # 0..31 of the master, 32..63 of the slave, 64..95 of the master, 96..99 of the slave, and
        # then the master's long pull.
        assert [int(c.ext["queueOffset"]) for c in two.slave.requests(PULL)] == [32, 96]
        assert all(c.ext["sysFlag"] == "6" for c in two.slave.requests(PULL)), "nothing to commit"


@pytest.mark.parametrize("suggested", ["1", "7", "-1", "x", "9" * 40])
async def test_a_suggestion_that_nobody_answers_to(
    two: Pair, suggested: str, clock: MockClock
) -> None:
    two.cluster.replicas = {MASTER: {0: MASTER}}
    usual = two.master._pull

    def strange(c: Command) -> Command | None:
        answer = usual(c)
        if answer is not None:
            answer.ext["suggestWhichBrokerId"] = suggested
        return answer

    two.master._pull = strange  # type: ignore[method-assign]
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        for n in range(5):
            two.put(b"%d" % n)
            await after(1)
        assert sum(seen.values()) == 5
        nursery.cancel_scope.cancel()


HOW = {
    "refused": {"noticed": False},
    "refused-noticed": {"noticed": True},
    "silent": {"noticed": False, "silent": True},
    "silent-noticed": {"noticed": True, "silent": True},
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
async def test_a_master_dies_and_returns(two: Pair, how: dict[str, bool], clock: MockClock) -> None:
    """Nothing is left out and nothing comes twice; the offsets are the master's in the end."""
    seen: Counter[bytes] = Counter()
    async with consumer(persist_interval=1.0) as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        two.put(b"before")
        await after(3)
        assert two.master.offsets["g", "T", 0] == 1
        await two.kill(**how)
        two.put(b"while it is gone")
        await after(0.5)
        assert seen == {b"before": 1, b"while it is gone": 1}
        await after(3)
        assert two.slave.offsets["g", "T", 0] == 2
        assert two.master.offsets["g", "T", 0] == 1
        two.come_back(noticed=how["noticed"])
        await after(40)
        assert two.master.offsets["g", "T", 0] == 2, "without any message"
        before = pulls(two.slave)
        two.put(b"after")
        await after(1)
        two.put(b"and more")
        await after(1)
        assert pulls(two.slave) == before
        assert set(seen.values()) == {1}
        assert len(seen) == 4
        nursery.cancel_scope.cancel()
    assert two.master.offsets["g", "T", 0] == 4


@pytest.mark.parametrize("how", ["refused", "refused-noticed", "silent"])
async def test_who_leaves_tells_the_master_that_is_back(
    two: Pair, how: str, clock: MockClock
) -> None:
    """Also where nothing has told the member that it is. One that hangs in a connect to a silent
    machine waits no longer for it: then the slave hands it over."""
    seen: Counter[bytes] = Counter()
    async with consumer(persist_interval=1.0) as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        two.put(b"before")
        await after(3)
        await two.kill(**HOW[how])
        two.put(b"while it is gone")
        await after(3)
        assert (two.slave.offsets["g", "T", 0], two.master.offsets["g", "T", 0]) == (2, 1)
        two.come_back()
        nursery.cancel_scope.cancel()
    assert two.master.offsets["g", "T", 0] == 2


async def test_who_leaves_while_the_master_is_away_is_not_held_up(
    two: Pair, clock: MockClock
) -> None:
    async with consumer(persist_interval=1.0) as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, Counter())
        await after(3)
        await two.kill(noticed=False, silent=True)
        two.put(b"while it is gone")
        await after(3)
        began = trio.current_time()
        nursery.cancel_scope.cancel()
    assert two.slave.offsets["g", "T", 0] == 1
    assert trio.current_time() - began < 10


async def test_the_name_server_is_asked_now_and_then(two: Pair, clock: MockClock) -> None:
    async with consumer() as member:
        await after(1)
        await two.kill()
        await after(600)
        asked = [c for c in two.cluster.asked if c.code == ROUTE and c.ext["topic"] == "T"]
        assert len(asked) < 100
        assert pulls(two.slave) < 60
        assert len(member.assigned) == 1


async def test_a_silent_master_s_pull_ends_and_goes_on_at_the_slave(
    two: Pair, clock: MockClock
) -> None:
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        two.master.stalled = True
        two.slave.sees_master = False
        two.put(b"x")
        await after(31)
        for n in range(5):
            two.put(b"%d" % n)
            await after(1)
        assert sum(seen.values()) == 6, "it is not asked again before it answers to a heartbeat"
        two.master.stalled = False
        await after(61)
        before = pulls(two.master)
        two.put(b"y")
        await after(1)
        assert pulls(two.master) > before
        assert sum(seen.values()) == 7
        nursery.cancel_scope.cancel()


async def test_a_consumer_that_starts_without_a_master(two: Pair, clock: MockClock) -> None:
    for n in range(5):
        two.put(b"%d" % n)
    two.slave.offsets["g", "T", 0] = 3
    await two.kill()
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        assert sorted(seen) == [b"3", b"4"]
        nursery.cancel_scope.cancel()
    assert two.slave.offsets["g", "T", 0] == 5
    two.come_back()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(40)
        nursery.cancel_scope.cancel()
    assert sorted(seen) == [b"%d" % n for n in range(5)], (
        "from the start: the master knew no better"
    )


async def test_a_slave_that_knows_no_offset(two: Pair, clock: MockClock) -> None:
    """It may not have copied it yet. As long as there is a master its word is waited for."""
    two.put(b"x")
    two.master.offsets["g", "T", 0] = 0
    await two.kill(noticed=False)
    two.slave.offsets.clear()
    start = {"consume_from": ConsumeFrom.LAST_OFFSET}
    seen: Counter[bytes] = Counter()
    async with consumer(**start) as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(20)
        assert two.slave.requests(QUERY_OFFSET)
        assert not pulls(two.slave)
        two.come_back()
        await after(10)
        assert seen == {b"x": 1}
        nursery.cancel_scope.cancel()


async def test_a_group_that_is_new_starts_at_a_slave(two: Pair, clock: MockClock) -> None:
    two.put(b"old")
    await two.kill()
    seen: Counter[bytes] = Counter()
    start = {"consume_from": ConsumeFrom.LAST_OFFSET}
    async with consumer(**start) as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(2)
        two.put(b"new")
        await after(1)
        assert seen == {b"new": 1}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("noticed", [False, True])
async def test_a_slave_that_is_behind(
    two: Pair, noticed: bool, checks: bool, clock: MockClock
) -> None:
    """Its end is not gone back to, and the master's is gone on from."""
    two.slave.checks_offsets = checks
    for n in range(3):
        two.put(b"%d" % n)
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        for n in range(3, 6):
            two.put(b"%d" % n, copied=False)
        await after(1)
        await two.kill(noticed=noticed)
        await after(30)
        assert 1 < pulls(two.slave) < 60
        two.come_back()
        two.put(b"6")
        await after(12)
        assert seen == {b"%d" % n: 1 for n in range(7)}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("checks", [False, True])
async def test_a_slave_that_begins_later(two: Pair, checks: bool, clock: MockClock) -> None:
    two.slave.checks_offsets = checks
    for n in range(6):
        two.put(b"%d" % n)
    two.slave.first["T", 0] = 4
    two.master.offsets["g", "T", 0] = two.slave.offsets["g", "T", 0] = 2
    await two.kill()
    two.slave.first["T", 0] = 4
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(10)
        assert not seen
        two.come_back()
        await after(12)
        assert sorted(seen) == [b"2", b"3", b"4", b"5"]
        nursery.cancel_scope.cancel()


async def test_a_slave_that_serves_no_readers(two: Pair, clock: MockClock) -> None:
    two.slave.reads = False
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        await two.kill(noticed=False)
        two.put(b"x")
        await after(60)
        assert 1 < pulls(two.slave) < 100
        two.come_back()
        await after(3)
        assert seen == {b"x": 1}
        nursery.cancel_scope.cancel()


async def test_a_slave_that_sees_a_master_which_this_client_does_not(
    two: Pair, clock: MockClock
) -> None:
    """It sends readers away whenever there is nothing: they come back in their own time."""
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        await two.kill(noticed=False)
        two.slave.sees_master = True
        await after(60)
        assert pulls(two.slave) < 100
        two.put(b"x")
        await after(1.5)
        assert seen == {b"x": 1}
        nursery.cancel_scope.cancel()


async def test_a_slave_that_was_promoted(two: Pair, clock: MockClock) -> None:
    """Its log ends before the old master's: its word on offsets counts from now on."""
    for n in range(3):
        two.put(b"%d" % n)
    seen: Counter[bytes] = Counter()
    async with consumer(persist_interval=1.0) as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        two.put(b"lost", copied=False)
        await after(2)
        await two.kill()
        await after(15)
        assert two.cluster.replicas is not None
        two.cluster.replicas[MASTER] = {0: SLAVE}
        two.slave._pull = lambda c: GroupBroker._pull(two.slave, c)  # type: ignore[method-assign]
        await after(15)
        two.slave.put(b"new")
        await after(2)
        assert seen == {b"0": 1, b"1": 1, b"2": 1, b"lost": 1, b"new": 1}
        nursery.cancel_scope.cancel()
    assert two.slave.offsets["g", "T", 0] == 4


async def test_a_lost_answer_is_asked_for_at_the_slave(two: Pair, clock: MockClock) -> None:
    two.master.change[PULL] = times(2, lambda c: SILENCE)
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        two.put(b"x")
        await two.master.restart()
        await after(1)
        assert seen == {b"x": 1}
        nursery.cancel_scope.cancel()
