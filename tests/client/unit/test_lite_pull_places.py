"""Where a lite pull consumer goes on: seeking, offsets that are gone, pauses, what waits."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue
from tests.client.members import after
from tests.client.unit.lite import Q0, fill, lite, numbers
from tests.support.scripted.groups import (
    GroupBroker,
)
from tests.support.scripted.lists import BORN


async def test_seeking(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 30)
    async with lite() as member:
        assert numbers(await member.poll())[0] == 0
        await member.seek(Q0, 25)
        assert numbers(await member.poll()) == list(range(25, 30))
        await member.seek(Q0, 2)
        assert numbers(await member.poll()) == list(range(2, 12))
        await after(6)
        assert alone.offsets["g", "T", 0] == 2
        await member.seek_to_begin(Q0)
        assert numbers(await member.poll())[0] == 0
        await member.seek_to_end(Q0)
        assert await member.poll(1) == []
        alone.put(b"30")
        assert numbers(await member.poll()) == [30]
        at = await member.offset_for_timestamp(Q0, BORN + 7)
        await member.seek(Q0, at)
        assert numbers(await member.poll())[0] == at == 7
        for wrong in (-1, 32, "1", None, True):
            with pytest.raises(ClientError, match="offset"):
                await member.seek(Q0, wrong)  # type: ignore[arg-type]
        with pytest.raises(ClientError, match="not assigned"):
            await member.seek(MessageQueue("T", "broker-a", 9), 0)


async def test_seeking_twice_and_among_others(alone: GroupBroker, clock: MockClock) -> None:
    for queue in (0, 1):
        fill(alone, 12, queue)
    async with lite() as member:
        await after(1)
        await member.seek(Q0, 5)
        await member.seek(Q0, 11)
        got = [m for _ in range(3) for m in await member.poll(1)]
        assert [int(m.body) for m in got if m.queue_id == 0] == [11]
        assert [int(m.body) for m in got if m.queue_id == 1] == list(range(12))


async def test_an_offset_that_is_gone(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 10)
    alone.first["T", 0] = 4
    async with lite(False) as member:
        member.assign([Q0])
        assert numbers(await member.poll()) == list(range(4, 10))


# Pausing.


async def test_pause_and_resume(alone: GroupBroker, clock: MockClock) -> None:
    for queue in (0, 1):
        fill(alone, 25, queue)
    async with lite() as member:
        await after(1)
        member.pause([Q0])
        got = [m for _ in range(3) for m in await member.poll(1)]
        assert {m.queue_id for m in got} == {1}
        assert await member.poll(1) == []
        await member.seek(Q0, 3)
        await after(1)
        assert await member.poll(1) == [], "it stays paused when it goes elsewhere"
        member.resume([Q0])
        got = [m for _ in range(3) for m in await member.poll(1)]
        assert numbers(got) == list(range(3, 25))
        with pytest.raises(ClientError, match="not assigned"):
            member.pause([MessageQueue("T", "broker-a", 9)])


async def test_order_after_a_pause(alone: GroupBroker, clock: MockClock) -> None:
    fill(alone, 50)
    async with lite(False, pull_batch_size=4) as member:
        member.assign([Q0])
        await after(1)
        member.pause([Q0])
        with trio.move_on_after(0.5):
            await member.poll(10)
        member.resume([Q0])
        got: list[int] = []
        while len(got) < 50:
            got += numbers(await member.poll(1))
        assert got == list(range(50))


async def test_what_waits_is_bounded(alone: GroupBroker, clock: MockClock) -> None:
    for queue in (0, 1):
        fill(alone, 500, queue)
    async with lite(max_cached_total=50) as member:
        await after(5)
        waiting = sum(p.waiting for p in member._held.held())
        assert 50 < waiting <= 80
        got = 0
        while messages := await member.poll(1):
            got += len(messages)
        assert got == 1000


# What cannot be.
