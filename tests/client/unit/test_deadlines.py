"""Calls that have a time of their own, whatever it is that does not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import (
    ClientError,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    RequestTimeoutError,
)
from tests.support.scripted.script import SILENCE
from tests.support.scripted.streams import ROUTE, StreamCluster

QUEUE = MessageQueue("T", "broker-b", 0)
Call = Callable[[Any], Awaitable[object]]


def away(cluster: StreamCluster) -> None:
    cluster.away.add("names")


def silent(cluster: StreamCluster) -> None:
    cluster.change[ROUTE] = lambda c: SILENCE


def broker_away(cluster: StreamCluster) -> None:
    cluster.away.add("broker-b")


@pytest.mark.parametrize("fault", [away, silent])
@pytest.mark.parametrize(
    ("call", "limit"),
    [
        (lambda p: p.queues("T"), 1),
        (lambda p: p.queues("T", timeout=0.5), 0.5),
        (lambda p: p.send_oneway(Message("T", b"x")), 1),
        (lambda p: p.send_oneway(Message("T", b"x"), timeout=2), 2),
    ],
)
async def test_a_producer_s_calls(
    cluster: StreamCluster,
    fault: Callable[[StreamCluster], None],
    call: Call,
    limit: float,
    clock: MockClock,
) -> None:
    fault(cluster)
    async with Producer("pg", namesrv=StreamCluster.namesrv, send_timeout=1) as producer:
        began = trio.current_time()
        with pytest.raises(RequestTimeoutError, match=f"T.* in {limit:g} s"):
            await call(producer)
        assert trio.current_time() - began == pytest.approx(limit)
        with pytest.raises(ClientError, match="timeout is -1"):
            await producer.queues("T", timeout=-1)


async def test_a_oneway_message_to_a_broker_that_is_away(
    cluster: StreamCluster, clock: MockClock
) -> None:
    broker_away(cluster)
    async with Producer("pg", namesrv=StreamCluster.namesrv, send_timeout=1) as producer:
        began = trio.current_time()
        with pytest.raises(RequestTimeoutError, match="has not left in 1 s"):
            await producer.send_oneway(Message("T", b"x"), queue=QUEUE)
        assert trio.current_time() - began == pytest.approx(1)


async def test_queues_of_a_consumer(cluster: StreamCluster, clock: MockClock) -> None:
    away(cluster)
    async with LitePullConsumer("g", namesrv=StreamCluster.namesrv) as consumer:
        began = trio.current_time()
        with pytest.raises(RequestTimeoutError, match=r"no route of topic T in 0\.5 s"):
            await consumer.queues("T", timeout=0.5)
        assert trio.current_time() - began == pytest.approx(0.5)


async def test_no_name_server_answers(cluster: StreamCluster, clock: MockClock) -> None:
    """The error says which one was asked, and what to do."""
    cluster.away.add("names")
    async with Producer("pg", namesrv=StreamCluster.namesrv, send_timeout=1) as producer:
        for call in (
            lambda: producer.send(Message("T", b"x")),
            lambda: producer.queues("T"),
            lambda: producer.send_oneway(Message("T", b"x")),
        ):
            with pytest.raises(ClientError) as caught:
                await call()
            text = str(caught.value)
            assert f"name server {StreamCluster.namesrv}" in text
            assert "NAMESRV_ADDR" in text
            assert "none" not in text
