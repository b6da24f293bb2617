"""What a client keeps of topics: those that are in use."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import LitePullConsumer, Message, MessageQueue, Producer
from pyrmq.client import routes
from tests.client.members import after, consumer
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import ROUTE, SEND, StreamCluster

LIFETIME = routes.LIFETIME


def tables(sender: Producer) -> list[Any]:
    client, delivery = sender._client, sender._delivery
    return [
        client.routes._refreshed,
        client.routes._table.known,
        client.routes._new,
        client.routes.recent.used,
        delivery._queues,
        delivery._chooser._counts,
    ]


async def test_very_many_topics(
    cluster: StreamCluster, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also such as are made by sending to them."""
    monkeypatch.setattr(routes, "MOST", 20)
    async with Producer("pg", namesrv=cluster.namesrv) as sender:
        for n in range(100):
            cluster.missing = {f"T{n}"} if n % 2 else set()
            await sender.send(Message(f"T{n}", b"x"))
            await sender.send(Message("always", b"x"))
        assert all(len(table) <= 41 for table in tables(sender)), [*map(len, tables(sender))]
        assert len(sender._client.routes._new) > 5, "as many as were new lately"
        assert "always" in sender._client.routes._table.known
    asked = [c.ext["topic"] for c in cluster.asked if c.code == ROUTE]
    assert asked.count("always") == 1
    broker_sends = [c for b in cluster.brokers.values() for c in b.requests(SEND)]
    assert len(broker_sends) == 200


async def test_topics_that_are_not_used_any_more(cluster: StreamCluster, clock: MockClock) -> None:
    async with Producer("pg", namesrv=cluster.namesrv) as sender:
        for topic in ("once", "always"):
            await sender.send(Message(topic, b"x"))
        for _ in range(3):
            await trio.sleep(LIFETIME - 20)
            await sender.send(Message("always", b"x"))
        assert all("once" not in table for table in tables(sender))
        assert "always" in sender._client.routes._refreshed
        await sender.send(Message("once", b"x"))


async def test_topics_of_consumers_stay(
    alone: GroupBroker, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "LIFETIME", 30)
    async with consumer() as member:
        await after(95)
        assert {"T", "%RETRY%g"} <= member._client.routes._refreshed
        alone.put(b"x")
        with trio.fail_after(1):
            await anext(aiter(member))


async def test_topics_that_were_assigned(alone: GroupBroker, clock: MockClock) -> None:
    async with LitePullConsumer("g", namesrv=StreamCluster.namesrv) as member:
        for n in range(8):
            member.assign([MessageQueue(f"T{n}", "broker-a", 0)])
            await after(1)
        assert len(member._subs) <= 2
