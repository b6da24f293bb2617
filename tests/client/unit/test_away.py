"""One broker of three whose machine is away: connects to it are neither taken nor refused. It holds
up nothing that concerns the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import (
    LitePullConsumer,
    Message,
    MessageQueue,
    RequestTimeoutError,
    ResponseError,
    Sql,
    TransactionalProducer,
)
from pyrmq.client import ConsumeFrom, Producer
from tests.client.listeners import Async
from tests.client.members import after, client_id, consumer
from tests.support.scripted.groups import GroupBroker, group_broker
from tests.support.scripted.streams import HEART_BEAT, ROUTE, SEND, StreamCluster
from tests.support.wire import Command

CHECK_CONFIG = 46
NAMES = ("broker-a", "broker-b", "broker-c")


@pytest.fixture
async def three(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StreamCluster]:
    async with StreamCluster(*NAMES, kind=GroupBroker) as running:
        monkeypatch.setattr(trio, "open_tcp_stream", running.connect)
        yield running


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    began = trio.current_time()
    yield
    assert trio.current_time() - began <= seconds


async def goes_away(cluster: StreamCluster, name: str) -> None:
    cluster.away.add(name)
    await group_broker(cluster[name]).restart()


@pytest.mark.parametrize("gone", ["broker-a", "broker-c"])
async def test_members_are_known_and_share(
    three: StreamCluster, gone: str, clock: MockClock
) -> None:
    three.away.add(gone)
    others = [group_broker(three[name]) for name in NAMES if name != gone]
    async with consumer() as one:
        with at_most(1):
            await after(1)
            assert len([q for q in one.assigned if q.broker_name != gone]) == 4
        for _ in range(5):
            await after(0.7)  # whatever the round for the one that is away has come to
            await others[1].restart()
            await after(0.2)
            assert client_id(one) in {who for _, who in others[1].members["g"].values()}
        await after(3)
        async with consumer() as two:
            await after(1.5)
            shares = [{q for q in m.assigned if q.broker_name != gone} for m in (one, two)]
            assert len(shares[0] | shares[1]) == 4
            assert not shares[0] & shares[1]
            began = trio.current_time()
        assert trio.current_time() - began < 0.5, "leaving says no goodbye where nobody listens"


async def test_an_expression_is_checked(three: StreamCluster, clock: MockClock) -> None:
    three.away.add("broker-a")
    with at_most(0.5):
        async with consumer(topics={"T": Sql("n = 1")}):
            pass
    three["broker-b"].change[CHECK_CONFIG] = lambda c: c.reply(1, {}, b"")
    with at_most(0.5), pytest.raises(ResponseError):
        async with consumer(topics={"T": Sql("n = 1")}):
            pass


async def test_offsets_are_written(three: StreamCluster, clock: MockClock) -> None:
    """Also when those of the one that is away cannot be, and after another one was restarted."""
    b, c = (group_broker(three[name]) for name in NAMES[1:])

    async def listener(message: Any) -> None: ...

    async with consumer(listener=listener, persist_interval=1.0) as member:
        await after(2)
        for queue in (0, 1):
            c.put(b"x", queue=queue)
        await after(0.1)  # consumed, and not written
        await goes_away(three, "broker-c")
        for n in range(1, 6):
            b.put(b"x")
            await after(1.1)
            assert b.offsets["g", "T", 0] == n
        tasks = trio.lowlevel.current_statistics().tasks_living
        await after(20)
        assert trio.lowlevel.current_statistics().tasks_living < tasks + 5, "nothing piles up"
        await b.restart()
        await after(3)
        b.put(b"x")
        await after(1.1)
        assert b.offsets["g", "T", 0] == 6
        assert len(member.assigned) == 6


async def test_heartbeats_go_on(three: StreamCluster, clock: MockClock) -> None:
    three.away.add("broker-c")
    async with Producer("pg", namesrv=three.namesrv) as sender:
        await sender.queues("T")
        await after(305)
        assert len(three["broker-a"].requests(HEART_BEAT)) == 10
        three.away.clear()
        await after(31)
        assert three["broker-c"].requests(HEART_BEAT)


@pytest.mark.parametrize("address", ["nonsense", "broker-c:99999", ""])
async def test_an_address_that_is_none(
    three: StreamCluster, address: str, clock: MockClock
) -> None:
    """A name server may say anything of one broker: the others are none the worse for it."""

    def change(c: Command) -> Command:
        answer = three.usual(c)
        return replace(answer, body=answer.body.replace(b"broker-c:10911", address.encode()))

    three.change[ROUTE] = change
    b = group_broker(three["broker-b"])
    async with consumer() as member, Producer("pg", namesrv=three.namesrv) as sender:
        await sender.queues("T")
        await after(2)
        assert len([q for q in member.assigned if q.broker_name != "broker-c"]) == 4
        await b.restart()
        await after(0.5)
        assert client_id(member) in {who for _, who in b.members["g"].values()}
        heartbeats = len(b.requests(HEART_BEAT))
        await after(61)
        assert len(b.requests(HEART_BEAT)) >= heartbeats + 4
        await sender.send(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 0))


async def test_a_poller_s_new_topic(three: StreamCluster, clock: MockClock) -> None:
    three.away.add("broker-c")
    options: Any = {"namesrv": three.namesrv, "consume_from": ConsumeFrom.FIRST_OFFSET}
    group_broker(three["broker-a"]).put(b"x", topic="U")
    async with LitePullConsumer("g", {"T": "*"}, **options) as member:
        await after(1)
        with at_most(0.1):
            await member.subscribe("U")
        with at_most(1):
            assert [m.body for m in await member.poll()] == [b"x"]


async def test_a_producer_of_transactions(three: StreamCluster, clock: MockClock) -> None:
    three.away.add("broker-c")
    sender = TransactionalProducer("pg", Async(), namesrv=three.namesrv)
    with at_most(1):
        await sender.__aenter__()
    a = group_broker(three["broker-a"])
    try:
        for _ in range(3):
            await after(1.3)
            known = len(a.requests(HEART_BEAT))
            await a.restart()
            await after(0.1)
            assert len(a.requests(HEART_BEAT)) == known + 1
        result = await sender.send_in_transaction(
            Message("T", b"x"), queue=MessageQueue("T", "broker-a", 0)
        )
        assert result.error is None
    finally:
        with at_most(0.5):
            await sender.__aexit__(None, None, None)


async def test_requests(three: StreamCluster, clock: MockClock) -> None:
    """The first one waits a moment for who is away, those after it do not."""
    three.away.add("broker-c")
    queue = MessageQueue("T", "broker-a", 0)
    async with Producer("pg", namesrv=three.namesrv) as sender:
        for limit in (0.26, 0.01):
            async with trio.open_nursery() as nursery:
                sent = len(three["broker-a"].requests(SEND))

                async def ask() -> None:
                    with pytest.raises(RequestTimeoutError):
                        await sender.request(Message("T", b"x"), queue=queue, timeout=1)

                nursery.start_soon(ask)
                await after(limit)
                assert len(three["broker-a"].requests(SEND)) == sent + 1


async def test_a_broker_that_hears_no_heartbeat_is_named_once(
    cluster: StreamCluster, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[str]:
        return [m for m in caplog.messages if m.startswith("no heartbeat to broker")]

    async with Producer("pg", namesrv=StreamCluster.namesrv) as producer:
        await producer.queues("T")
        cluster.down.add("broker-a")
        await trio.sleep(200)
        assert lines() == [
            "no heartbeat to broker broker-a:10911: cannot connect to broker-a:10911: "
            "broker-a is down"
        ]
        cluster.down.clear()
        await trio.sleep(40)
        cluster.down.add("broker-a")
        for connection in cluster["broker-a"].connections:
            await connection.close()
        await trio.sleep(100)
        assert lines().count(lines()[0]) == 2, "it had been back"
