"""Brokers that tell a client that their routes have changed (NOTIFY_BROKER_LEAVES)."""

from __future__ import annotations

import json

import pytest
import trio
from trio.testing import MockClock

from pyrmq import Message, Producer
from pyrmq.client import routes
from tests.support.scripted.streams import ROUTE, SEND, StreamBroker, StreamCluster
from tests.support.wire import Command

LEAVES = 27000
FLAG_ONEWAY = 2


class Names:
    """Name servers whose routes lose a broker's write permission."""

    def __init__(self, cluster: StreamCluster) -> None:
        self.asked = 0
        self.drained: set[str] = set()
        self._cluster = cluster
        cluster.change[ROUTE] = self._route

    def _route(self, command: Command) -> Command:
        self.asked += 1
        answer = self._cluster.usual(command)
        found = json.loads(answer.body)
        for queue in found["queueDatas"]:
            if queue["brokerName"] in self.drained:
                queue["perm"] = 4
        return command.reply(0, {}, json.dumps(found).encode())


async def tell(broker: StreamBroker, name: str) -> None:
    notice = Command(LEAVES, {"brokerName": name}, b"", opaque=1, flag=FLAG_ONEWAY)
    await broker.connections[0].send(notice)


async def test_a_producer_leaves_a_broker_that_says_so(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    names = Names(cluster)
    async with Producer("pg", namesrv=cluster.namesrv) as sender:
        seen = {(await sender.send(Message("T", b"x"))).queue.broker_name for _ in range(4)}
        assert seen == {"broker-a", "broker-b"}
        asked, sent = names.asked, len(broker.requests(SEND))
        names.drained = {"broker-a"}
        await tell(broker, "broker-a")
        await trio.sleep(1)
        assert names.asked == asked + 1
        seen = {(await sender.send(Message("T", b"x"))).queue.broker_name for _ in range(4)}
        assert seen == {"broker-b"}
        assert len(broker.requests(SEND)) == sent
        names.drained = set()
        await tell(broker, "broker-a")
        await trio.sleep(1)
        seen = {(await sender.send(Message("T", b"x"))).queue.broker_name for _ in range(4)}
        assert seen == {"broker-a", "broker-b"}


async def test_a_broker_without_topics_here_costs_nothing(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    names = Names(cluster)
    async with Producer("pg", namesrv=cluster.namesrv) as sender:
        for _ in range(4):
            await sender.send(Message("T", b"x"))
        asked = names.asked
        await tell(broker, "another")
        await trio.sleep(1)
        assert names.asked == asked


async def test_many_notices_are_few_requests(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    """A hostile broker makes no client hammer the name servers."""
    names = Names(cluster)
    async with Producer("pg", namesrv=cluster.namesrv) as sender:
        for _ in range(4):
            await sender.send(Message("T", b"x"))
        asked = names.asked
        for n in range(2000):
            await tell(broker, f"broker-{n}")
            await tell(broker, "broker-a")
            assert len(sender._client.routes._left) <= routes.MOST_LEFT
        await trio.sleep(5)
        assert 1 <= names.asked - asked <= 5 / routes.LEAVES_PAUSE + 1
        assert not sender._client.routes._left


@pytest.mark.parametrize("code", [1, 17])
async def test_name_servers_that_do_not_answer_end_nothing(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock, code: int
) -> None:
    names = Names(cluster)
    async with Producer("pg", namesrv=cluster.namesrv) as sender:
        for _ in range(4):
            await sender.send(Message("T", b"x"))
        cluster.change[ROUTE] = lambda command: command.reply(code)
        await tell(broker, "broker-a")
        await trio.sleep(1)
        names.drained = {"broker-a"}
        cluster.change[ROUTE] = names._route
        await tell(broker, "broker-a")
        await trio.sleep(1)
        assert (await sender.send(Message("T", b"x"))).queue.broker_name == "broker-b"
