"""A cluster that has just started: the name server answers, and no broker has registered yet."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import (
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    RequestTimeoutError,
    TopicNotExistError,
    TransactionalProducer,
)
from tests.client.listeners import Async
from tests.support.scripted.script import times
from tests.support.scripted.streams import CLUSTER, ROUTE, SEND, StreamCluster
from tests.support.wire import Command

SEND_BATCH = 320
NONE = json.dumps({"brokerAddrTable": {}, "clusterAddrTable": {}}).encode()


def stored_batch(command: Command) -> Command:
    return command.reply(0, {"msgId": "00", "queueId": command.ext["e"], "queueOffset": "0"})


@contextmanager
def starting(cluster: StreamCluster) -> Iterator[None]:
    """No broker has registered during the block."""
    for broker in cluster.brokers.values():
        broker.change[SEND_BATCH] = stored_batch
    cluster.change[ROUTE] = lambda c: c.reply(17)
    cluster.change[CLUSTER] = lambda c: c.reply(0, {}, NONE)
    try:
        yield
    finally:
        del cluster.change[ROUTE], cluster.change[CLUSTER]


def producer(**options: Any) -> Producer:
    return Producer("pg", namesrv=StreamCluster.namesrv, **options)


async def one(sender: Producer) -> object:
    return await sender.send(Message("T", b"x"))


async def to_a_queue(sender: Producer) -> object:
    return await sender.send(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 0))


async def batch(sender: Producer) -> object:
    return await sender.send_batch([Message("T", b"x"), Message("T", b"y")])


async def oneway(sender: Producer) -> object:
    await sender.send_oneway(Message("T", b"x"))
    return True


async def queues(sender: Producer) -> object:
    return await sender.queues("T")


@pytest.mark.parametrize("send", [one, to_a_queue, batch, oneway, queues])
async def test_a_send_waits_for_the_first_broker(
    cluster: StreamCluster, clock: MockClock, send: Callable[[Producer], Awaitable[object]]
) -> None:
    done = []

    async with producer() as sender, trio.open_nursery() as nursery:

        async def first() -> None:
            done.append(await send(sender))

        with starting(cluster):
            nursery.start_soon(first)
            await trio.sleep(1.5)
            assert done == []
    assert len(done) == 1


async def test_messages_that_leave_in_the_background_wait_too(
    cluster: StreamCluster, clock: MockClock
) -> None:
    async with producer(auto_batch=True) as sender:
        with starting(cluster):
            pending = await sender.send_soon(Message("T", b"x"))
            await trio.sleep(1.5)
        await pending


async def test_a_transaction_waits_too(cluster: StreamCluster, clock: MockClock) -> None:
    async with (
        TransactionalProducer("pg", Async(), namesrv=StreamCluster.namesrv) as sender,
        trio.open_nursery() as nursery,
    ):
        with starting(cluster):
            nursery.start_soon(sender.send_in_transaction, Message("T", b"x"))
            await trio.sleep(1.5)
            assert not any(broker.requests(SEND) for broker in cluster.brokers.values())
    assert any(broker.requests(SEND) for broker in cluster.brokers.values())


async def test_a_consumer_that_looks_for_queues_waits_too(
    groups: StreamCluster, clock: MockClock
) -> None:
    found = []
    async with (
        LitePullConsumer("g", namesrv=StreamCluster.namesrv) as consumer,
        trio.open_nursery() as nursery,
    ):

        async def look() -> None:
            found.extend(await consumer.queues("T"))

        with starting(groups):
            nursery.start_soon(look)
            await trio.sleep(1.5)
    assert len(found) == 4


@pytest.mark.parametrize("send", [one, to_a_queue, oneway, queues])
async def test_the_error_says_that_no_broker_is_known(
    cluster: StreamCluster, clock: MockClock, send: Callable[[Producer], Awaitable[object]]
) -> None:
    async with producer() as sender:
        with starting(cluster):
            began = trio.current_time()
            with pytest.raises(
                RequestTimeoutError, match=r"no broker has registered with name server names:9876"
            ):
                await send(sender)
            assert trio.current_time() - began == pytest.approx(3)


async def test_a_topic_that_is_missing_where_brokers_are_is_an_error_at_once(
    cluster: StreamCluster, clock: MockClock
) -> None:
    cluster.missing |= {"T", "TBW102"}
    async with producer() as sender:
        began = trio.current_time()
        with pytest.raises(TopicNotExistError, match="no broker creates topics on demand"):
            await one(sender)
        assert trio.current_time() == began


async def test_many_that_wait_ask_as_one(cluster: StreamCluster, clock: MockClock) -> None:
    async with producer() as sender, trio.open_nursery() as nursery:
        with starting(cluster):
            for _ in range(100):
                nursery.start_soon(one, sender)
            await trio.sleep(2.5)
            assert sum(c.code == CLUSTER for c in cluster.asked) < 20


@pytest.mark.parametrize("send", [one, to_a_queue, batch, oneway, queues])
async def test_a_broker_that_registers_between_two_questions(
    cluster: StreamCluster, clock: MockClock, send: Callable[[Producer], Awaitable[object]]
) -> None:
    """The topic is not there, nor is one that new topics are made from; then a broker is."""
    for broker in cluster.brokers.values():
        broker.change[SEND_BATCH] = stored_batch
    cluster.change[ROUTE] = times(2, lambda c: c.reply(17))
    async with producer() as sender:
        assert await send(sender)


async def test_a_name_server_that_restarts_when_a_broker_was_just_there(
    cluster: StreamCluster, clock: MockClock
) -> None:
    """It knows none again: the send goes on waiting."""
    async with producer(send_timeout=10) as sender, trio.open_nursery() as nursery:
        with starting(cluster):
            nursery.start_soon(one, sender)
            await trio.sleep(1)
            there = iter([None])
            cluster.change[CLUSTER] = lambda c: next(there, c.reply(0, {}, NONE))
            await trio.sleep(2)
    assert any(broker.requests(SEND) for broker in cluster.brokers.values())
