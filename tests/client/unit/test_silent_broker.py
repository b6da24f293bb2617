"""A broker whose connection is open and that says nothing: it holds up nobody else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom, LitePullConsumer, Producer
from tests.client.members import after, consumer
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import HEART_BEAT, StreamCluster


@asynccontextmanager
async def lite() -> AsyncIterator[LitePullConsumer]:
    async with LitePullConsumer(
        "g",
        {"T": "*"},
        namesrv=StreamCluster.namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as member:
        yield member


@pytest.mark.parametrize("kind", [lite, consumer])
async def test_a_subscription_does_not_wait_for_it(
    groups: StreamCluster, a: GroupBroker, b: GroupBroker, kind: Callable[[], Any], clock: MockClock
) -> None:
    async with kind() as member:
        await after(1)
        a.stalled = True
        b.put(b"x", topic="U")
        began = trio.current_time()
        await member.subscribe("U")
        assert trio.current_time() - began < 0.5
        heard = json.loads(b.requests(HEART_BEAT)[-1].body)["consumerDataSet"][0]
        assert {"T", "U"} <= {sub["topic"] for sub in heard["subscriptionDataSet"]}
        await after(1)
        assert {q.broker_name for q in member.assigned if q.topic == "U"} >= {"broker-b"}


async def test_rounds_of_heartbeats_go_on(
    groups: StreamCluster, a: GroupBroker, b: GroupBroker, clock: MockClock
) -> None:
    async with Producer("pg", namesrv=StreamCluster.namesrv) as sender:
        await sender.queues("T")
        await after(31)
        a.stalled = True
        before = len(b.requests(HEART_BEAT))
        await after(302)
        assert len(b.requests(HEART_BEAT)) == before + 10
