"""Who hears of a client: slaves of consumers, masters of everybody; who is in a group is asked at
whatever broker of a set answers, and the queues of a route stay when only a master is gone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from trio.testing import MockClock

from pyrmq import Message, ResponseError, Sql
from pyrmq.client import LitePullConsumer, Producer
from pyrmq.errors import ClientError
from tests.client.members import after, client_id, consumer
from tests.support.scripted.groups import MEMBERS, UNREGISTER
from tests.support.scripted.slaves import OTHER, Pair, pair
from tests.support.scripted.streams import HEART_BEAT, SEND

CHECK_CONFIG = 46


@pytest.fixture
async def two() -> AsyncIterator[Pair]:
    async with pair() as running:
        yield running


async def test_consumers_are_heard_by_all_and_leave_all(two: Pair, clock: MockClock) -> None:
    async with consumer() as member:
        await after(1)
        for broker in (two.master, two.slave):
            assert broker.requests(HEART_BEAT)
            assert [who for _, who in broker.members["g"].values()] == [client_id(member)]
        heard = len(two.slave.requests(HEART_BEAT))
        await after(61)
        assert len(two.slave.requests(HEART_BEAT)) >= heard + 2
    for broker in (two.master, two.slave):
        assert len(broker.requests(UNREGISTER)) == 1
        assert not broker.members["g"]


async def test_one_that_assigns_too(two: Pair, clock: MockClock) -> None:
    namesrv = two.cluster.namesrv
    async with LitePullConsumer("g", namesrv=namesrv) as member:
        member.assign(await member.queues("T"))
        await after(35)
        assert [c["groupName"] for r in two.slave.requests(HEART_BEAT)
                for c in json.loads(r.body)["consumerDataSet"]] == ["g"]  # fmt: skip


async def test_producers_are_heard_by_masters(two: Pair, clock: MockClock) -> None:
    async with Producer("pg", namesrv=two.cluster.namesrv) as sender:
        await sender.send(Message("T", b"x"))
        await after(65)
        assert two.master.requests(SEND)
        assert two.master.requests(HEART_BEAT)
        assert not two.slave.connections


async def test_without_masters_a_slave_says_who_is_there(two: Pair, clock: MockClock) -> None:
    """Two members share by the slave's list, also one that comes after the master's death."""
    async with consumer() as one:
        await after(1)
        assert not two.slave.requests(MEMBERS), "masters are asked first"
        assert len(one.assigned) == 2
        await two.kill()
        await after(1)
        assert len(one.assigned) == 2, "the queues stay"
        async with consumer() as another:
            await after(40)
            assert two.slave.requests(MEMBERS)
            assert [len(m.assigned) for m in (one, another)] == [1, 1]
            two.come_back()
            await after(40)
            assert [len(m.assigned) for m in (one, another)] == [1, 1]
            asked = len(two.slave.requests(MEMBERS))
            await after(60)
            assert len(two.slave.requests(MEMBERS)) == asked
        await after(1)
        assert len(one.assigned) == 2


async def test_a_master_of_another_name_is_asked_before_a_slave(clock: MockClock) -> None:
    async with pair(other=True) as two, consumer() as member:
        await after(1)
        assert len(member.assigned) == 4
        await two.kill()
        await after(100)
        assert len(member.assigned) == 4
        assert two.cluster[OTHER].requests(MEMBERS)
        assert not two.slave.requests(MEMBERS)


async def test_a_slave_that_is_started_again_hears_at_once(two: Pair, clock: MockClock) -> None:
    async with consumer() as member:
        await after(1)
        await two.slave.restart()
        await after(1)
        assert [who for _, who in two.slave.members["g"].values()] == [client_id(member)]
        await after(5)
        assert len(member.assigned) == 2


async def test_a_slave_checks_expressions(two: Pair, clock: MockClock) -> None:
    await two.kill()
    two.slave.change[CHECK_CONFIG] = lambda c: c.reply(1)
    with pytest.raises(ResponseError):
        async with consumer(topics={"T": Sql("n = 1")}):
            pass


async def test_nothing_is_sent_to_a_slave(two: Pair, clock: MockClock) -> None:
    await two.kill()
    async with Producer("pg", namesrv=two.cluster.namesrv) as sender:
        with pytest.raises(ClientError):
            await sender.send(Message("T", b"x"), timeout=1)
        assert not two.slave.connections
