"""Brokers know transactional producers: at their start, before a half, and anew."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq.errors import (
    SystemBusyError,
)
from pyrmq.model.message import Message, MessageQueue
from tests.client.listeners import COMMIT, Async, Scripted
from tests.client.unit.transactional import producer
from tests.support.scripted.streams import (
    HEART_BEAT,
    SEND,
    UNREGISTER,
    StreamBroker,
    StreamCluster,
)

ONE = MessageQueue("T", "broker-a", 1)


async def test_every_broker_knows_a_producer_that_was_only_started(
    cluster: StreamCluster, clock: MockClock
) -> None:
    async with producer(Scripted()):
        for broker in cluster.brokers.values():
            (beat,) = broker.requests(HEART_BEAT)
            assert b'{"groupName":"pg"}' in beat.body
    for broker in cluster.brokers.values():
        assert [r.ext["producerGroup"] for r in broker.requests(UNREGISTER)] == ["pg"]


async def test_a_broker_knows_the_producer_before_it_gets_a_half(
    broker: StreamBroker, clock: MockClock
) -> None:
    """Also when its heartbeat failed at the start; one that fails still sends nothing."""
    working = []
    broker.change[HEART_BEAT] = lambda command: command.reply(0 if working else 2)
    async with producer(Async()) as sender:
        with pytest.raises(SystemBusyError):
            await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        assert broker.requests(SEND) == []
        working.append(True)
        broker.connections[0].requests.clear()
        await sender.send_in_transaction(Message("T", b"x"), queue=ONE)
        assert [r.code for r in broker.requests(HEART_BEAT, SEND)] == [HEART_BEAT, SEND]


async def test_many_first_halves_share_one_heartbeat(
    broker: StreamBroker, clock: MockClock
) -> None:
    async with producer(Async(), topics=[]) as sender, trio.open_nursery() as nursery:
        assert broker.connections == []
        for _ in range(20):
            nursery.start_soon(lambda: sender.send_in_transaction(Message("T", b"x"), queue=ONE))
    (connection,) = broker.connections
    codes = [r.code for r in connection.requests]
    assert (codes[0], codes.count(HEART_BEAT), codes.count(SEND)) == (HEART_BEAT, 1, 20)


async def test_a_connection_that_broke_is_registered_anew(
    broker: StreamBroker, clock: MockClock
) -> None:
    async with producer(Scripted()):
        began = trio.current_time()
        await broker.connections[0].close()
        await trio.testing.wait_all_tasks_blocked()
        assert [r.code for r in broker.connections[1].requests] == [HEART_BEAT]
        assert trio.current_time() == began


async def test_a_broker_that_was_away_is_registered_with_soon(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    cluster.down.add("broker-a")
    async with producer(Scripted()):
        assert broker.connections == []
        await trio.sleep(6)  # the fifth try comes 6.75 to 7.5 s after the first one
        cluster.down.clear()
        await trio.sleep(5)
        assert [r.code for r in broker.requests()] == [HEART_BEAT]


async def test_a_start_without_servers_is_one(cluster: StreamCluster, clock: MockClock) -> None:
    cluster.down |= {"names", "broker-a", "broker-b"}
    async with producer(Scripted()):
        cluster.down.clear()
        await trio.sleep(5)
        assert [len(b.requests(HEART_BEAT)) for b in cluster.brokers.values()] == [1, 1]


async def test_topics_that_do_not_exist_yet_are_no_fault(
    cluster: StreamCluster, clock: MockClock
) -> None:
    cluster.missing.add("New")
    async with producer(Async(), topics=["New"]) as sender:
        assert [b.connections for b in cluster.brokers.values()] == [[], []]
        cluster.missing.clear()
        result = await sender.send_in_transaction(Message("New", b"x"))
        assert result.local_state is COMMIT


async def test_a_missing_topic_hides_no_other(cluster: StreamCluster, clock: MockClock) -> None:
    cluster.missing.add("New")
    async with producer(Async(), topics=["New", "T"]):
        assert [len(b.requests(HEART_BEAT)) for b in cluster.brokers.values()] == [1, 1]


async def test_brokers_of_some_topics_only(cluster: StreamCluster, mock_clock: MockClock) -> None:
    async with producer(Scripted(), topics=["T", "U"]):
        assert [r.ext["topic"] for r in cluster.asked if r.code == 105] == ["T", "U"]
        assert not [r for r in cluster.asked if r.code == 106]
        assert len(cluster["broker-b"].requests(HEART_BEAT)) == 1
