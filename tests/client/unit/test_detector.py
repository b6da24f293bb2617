"""Brokers that could not be reached are asked whether they are back."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import ClientError, ConnectError, Message, MessageQueue, Producer
from pyrmq.client.producer.faults import FaultTable
from tests.client.members import after
from tests.support.scripted.script import SILENCE
from tests.support.scripted.streams import StreamCluster

QUEUE = MessageQueue("T", "broker-a", 0)
MAX_OFFSET = 30


def producer(**options: Any) -> Producer:
    return Producer("pg", namesrv=StreamCluster.namesrv, send_latency_fault=True, **options)


def faults(sender: Producer) -> FaultTable:
    table = sender._delivery._faults
    assert table is not None
    return table


async def lose(cluster: StreamCluster, sender: Producer) -> None:
    cluster.down.add("broker-a")
    await sender.queues("T")
    with pytest.raises(ConnectError):
        await sender.send(Message("T", b"x"), queue=QUEUE)


async def test_it_is_away_until_it_answers(cluster: StreamCluster, clock: MockClock) -> None:
    async with producer(start_detector=True) as sender:
        await lose(cluster, sender)
        assert not faults(sender).reachable("broker-a")
        await after(7)
        cluster.down.clear()
        cluster["broker-a"].change[MAX_OFFSET] = lambda c: SILENCE
        await after(3)
        assert not faults(sender).reachable("broker-a")
        cluster["broker-a"].change.clear()
        await after(3)
        assert faults(sender).reachable("broker-a")
        asked = cluster["broker-a"].requests(MAX_OFFSET)
        assert {(c.ext["topic"], c.ext["queueId"]) for c in asked} == {("T", "0")}
        await after(10)
        assert len(cluster["broker-a"].requests(MAX_OFFSET)) == len(asked), "nor later"
        assert not cluster["broker-b"].requests(MAX_OFFSET)


async def test_one_that_does_not_answer_holds_up_no_other(
    cluster: StreamCluster, clock: MockClock
) -> None:
    async with producer(start_detector=True) as sender:
        await lose(cluster, sender)
        faults(sender).failed("broker-b", reachable=False)
        cluster.down.clear()
        cluster.away.add("broker-a")
        await after(3.1)
        assert faults(sender).unreachable() == ["broker-a"]


async def test_one_that_is_gone_is_forgotten(cluster: StreamCluster, clock: MockClock) -> None:
    async with producer(start_detector=True) as sender:
        await lose(cluster, sender)
        del cluster.brokers["broker-a"]
        await sender._client.routes.refresh()
        await after(4)
        assert faults(sender).unreachable() == []
        assert faults(sender).available("broker-a")


async def test_without_it(cluster: StreamCluster, clock: MockClock) -> None:
    async with producer() as sender:
        await lose(cluster, sender)
        assert faults(sender).reachable("broker-a")
        await trio.sleep(10)
    assert not cluster["broker-b"].requests(MAX_OFFSET)
    with pytest.raises(ClientError, match="needs send_latency_fault"):
        Producer("pg", namesrv=StreamCluster.namesrv, start_detector=True)
