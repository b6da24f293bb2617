"""Simple consumers: calls that find, wait or are given up; handles that count and that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ConsumeFrom, SimpleConsumer
from pyrmq.errors import (
    ClientError,
    InvalidHandleError,
    ResponseError,
    TopicNotExistError,
)
from pyrmq.model.pop import POP_CK, ExtraInfo
from tests.client.members import after
from tests.support.scripted.groups import HEART_BEAT
from tests.support.scripted.pops import (
    ACK,
    BATCH_ACK,
    CHANGE,
    NOTIFY,
    POP,
    PopBroker,
    pop_broker,
)
from tests.support.scripted.script import times
from tests.support.scripted.streams import SILENCE, StreamCluster


def simple(topics: dict[str, str] | None = None, **options: Any) -> SimpleConsumer:
    options = {"consume_from": ConsumeFrom.FIRST_OFFSET, **options}
    return SimpleConsumer("g", topics or {"T": "*"}, namesrv=StreamCluster.namesrv, **options)


async def test_receive_and_acknowledge(popped: PopBroker, clock: MockClock) -> None:
    for n in range(3):
        popped.put(b"m%d" % n, queue=n % 2)
    async with simple() as consumer:
        messages = await consumer.receive(8, 20)
        assert sorted(m.body for m in messages) == [b"m0", b"m1", b"m2"]
        assert {m.topic for m in messages} == {"T"}
        for message in messages:
            await consumer.ack(message)
        assert await consumer.receive(timeout=60) == []
    assert len(popped.acked) == 3


async def test_at_most_so_many_messages(popped: PopBroker, clock: MockClock) -> None:
    for n in range(5):
        popped.put(b"m%d" % n)
    async with simple() as consumer:
        assert len(await consumer.receive(2)) == 2
        assert len(await consumer.receive(32)) == 3
    assert [c.ext["maxMsgNums"] for c in popped.requests(POP)] == ["2", "32"]


async def test_a_call_waits_for_a_message(popped: PopBroker, clock: MockClock) -> None:
    async with simple() as consumer, trio.open_nursery() as nursery:
        got: list[bytes] = []

        async def receive() -> None:
            got.extend(m.body for m in await consumer.receive(timeout=100))

        nursery.start_soon(receive)
        await after(40)
        popped.put(b"m")
        await after(0.1)
        assert got == [b"m"]
        assert len(popped.requests(NOTIFY)) == 3
        assert len(popped.requests(POP)) == 4


async def test_all_brokers_are_asked(pops: StreamCluster, clock: MockClock) -> None:
    """A message of any of them comes at once, also while calls wait for all."""
    async with simple() as consumer:
        for name in ("broker-a", "broker-b", "broker-a"):
            pop_broker(pops[name]).put(b"m")
            (message,) = await consumer.receive(timeout=0)
            assert message.broker_name == name
            await consumer.ack(message)
        async with trio.open_nursery() as nursery:

            async def receive() -> None:
                (message,) = await consumer.receive(timeout=100)
                assert message.broker_name == "broker-b"
                assert trio.current_time() - began < 12

            began = trio.current_time()
            nursery.start_soon(receive)
            await after(10)
            pop_broker(pops["broker-b"]).put(b"m")


async def test_a_broker_that_is_away_delays_no_other(pops: StreamCluster, clock: MockClock) -> None:
    async with simple() as consumer:
        pop_broker(pops["broker-b"]).change[POP] = lambda c: c.reply(2)
        for n in range(5):
            pop_broker(pops["broker-a"]).put(b"m%d" % n)
            (message,) = await consumer.receive(timeout=10)
            assert message.body == b"m%d" % n


async def test_a_given_up_call_takes_nothing(popped: PopBroker, clock: MockClock) -> None:
    """However many are given up, a broker has one request of this consumer that waits."""
    async with simple() as consumer:
        for _ in range(20):
            with trio.move_on_after(0.1):
                await consumer.receive()
        assert popped.polling == 1
        popped.put(b"m")
        (message,) = await consumer.receive(timeout=0)
        assert (message.body, message.reconsume_times) == (b"m", 0)


async def test_what_was_on_its_way_comes_again(popped: PopBroker, clock: MockClock) -> None:
    """The broker has popped it, and nobody waits for the answer."""
    popped.put(b"m")
    async with simple() as consumer:
        with trio.move_on_after(0.1):
            popped.change[POP] = lambda c: popped._poll(c) and SILENCE
            await consumer.receive(invisible_duration=10)
        popped.change.clear()
        assert await consumer.receive(timeout=5) == []
        (message,) = await consumer.receive(timeout=10)
        assert (message.body, message.reconsume_times) == (b"m", 1)


async def test_what_is_not_acknowledged_comes_again(popped: PopBroker, clock: MockClock) -> None:
    """The old handle is refused then, and the new one counts."""
    popped.put(b"m")
    async with simple() as consumer:
        (first,) = await consumer.receive(invisible_duration=10)
        (second,) = await consumer.receive(timeout=20)
        assert (second.body, second.topic, second.reconsume_times) == (b"m", "T", 1)
        with pytest.raises(InvalidHandleError, match="ended"):
            await consumer.ack(first)
        with pytest.raises(InvalidHandleError, match="ended"):
            await consumer.change_invisible(first, 10)
        await consumer.ack(second)
    assert not popped.late
    assert popped.bodies(popped.acked) == [b"m"]


async def test_more_time(popped: PopBroker, clock: MockClock) -> None:
    """The message has the new handle; copies from before are refused where the broker sees it."""
    popped.put(b"m")
    async with simple() as consumer:
        (message,) = await consumer.receive(invisible_duration=10)
        old = dict(message.properties)
        await after(8)
        await consumer.change_invisible(message, 30)
        assert await consumer.receive(timeout=20) == []
        new, message.properties = message.properties, old
        with pytest.raises(InvalidHandleError, match="ended"):
            await consumer.ack(message)
        message.properties = new
        await consumer.ack(message)
        assert await consumer.receive(timeout=60) == []


async def test_sooner(popped: PopBroker, clock: MockClock) -> None:
    popped.put(b"m")
    async with simple() as consumer:
        (message,) = await consumer.receive(invisible_duration=600)
        await consumer.change_invisible(message, 2)
        (again,) = await consumer.receive(timeout=5)
        assert again.reconsume_times == 1


async def test_acknowledging_many(pops: StreamCluster, clock: MockClock) -> None:
    """One request for each broker; one that is too late is an error, and holds up no other."""
    a, b = pop_broker(pops["broker-a"]), pop_broker(pops["broker-b"])
    async with simple() as consumer:
        a.put(b"late")
        late = await consumer.receive(invisible_duration=5)
        await after(5)
        messages = []
        for n in range(6):
            (b if n % 2 else a).put(b"m%d" % n)
        while found := await consumer.receive(32, 60, timeout=0):
            messages += found
        with pytest.raises(InvalidHandleError):
            await consumer.ack_all([*late, *messages])
        assert sorted(a.bodies(a.acked) + b.bodies(b.acked)) == [
            b"late",
            *(b"m%d" % n for n in range(6)),
        ]
        assert len(a.requests(BATCH_ACK)) == len(b.requests(BATCH_ACK)) == 1
        await consumer.ack_all([])


async def test_brokers_without_batches(popped: PopBroker, clock: MockClock) -> None:
    popped.change[BATCH_ACK] = lambda c: c.reply(3)
    popped.put(b"m0")
    popped.put(b"m1")
    async with simple() as consumer:
        await consumer.ack_all(await consumer.receive())
    assert len(popped.acked) == 2


async def test_an_ack_is_repeated(popped: PopBroker, clock: MockClock) -> None:
    """Twice is once."""
    popped.put(b"m")
    async with simple() as consumer:
        (message,) = await consumer.receive()
        popped.change[ACK] = times(2, lambda c: c.reply(2))
        await consumer.ack(message)
        assert len(popped.acked) == 1
        popped.change[ACK] = lambda c: c.reply(2)
        with pytest.raises(ResponseError, match="CODE 2"):
            await consumer.ack(message)
        popped.change[ACK] = lambda c: c.reply(208)
        with pytest.raises(InvalidHandleError, match="CODE 208"):
            await consumer.ack(message)


async def test_a_message_that_was_not_popped(popped: PopBroker, clock: MockClock) -> None:
    popped.put(b"m")
    async with simple() as consumer:
        (message,) = await consumer.receive()
        handle = ExtraInfo.parse(message.properties[POP_CK])
        message.properties[POP_CK] = replace(handle, start=handle.offset + 1).encode()
        for call in (consumer.ack(message), consumer.ack_all([message])):
            with pytest.raises(InvalidHandleError, match="is of another"):
                await call
        message.properties = {}
        with pytest.raises(InvalidHandleError, match="was not popped"):
            await consumer.ack(message)
        with pytest.raises(ClientError, match="ReceivedMessage"):
            await consumer.ack(b"m")  # type: ignore[arg-type]


async def test_fifo(popped: PopBroker, clock: MockClock) -> None:
    """A queue is blocked until what it gave is acknowledged; another one is not."""
    popped.put(b"a0")
    popped.put(b"a1")
    popped.put(b"b0", queue=1)
    async with simple(fifo=True) as consumer:
        first = await consumer.receive(1)
        second = await consumer.receive(1)
        assert [m.body for m in first + second] == [b"a0", b"b0"]
        assert await consumer.receive(1, timeout=20) == []
        await consumer.ack(first[0])
        assert [m.body for m in await consumer.receive(1)] == [b"a1"]
    pops = popped.requests(POP)
    assert {c.ext["order"] for c in pops} == {"true"}
    assert len({c.ext["attemptId"] for c in pops}) > 3


async def test_other_tags_are_acknowledged(popped: PopBroker, clock: MockClock) -> None:
    popped.put(b"other", TAGS="b")
    popped.put(b"m", TAGS="a")
    async with simple({"T": "a"}) as consumer:
        assert [m.body for m in await consumer.receive()] == [b"m"]
        await after(1)
    assert popped.bodies(popped.acked) == [b"other"]


async def test_subscriptions_change(popped: PopBroker, clock: MockClock) -> None:
    async with simple() as consumer:
        await consumer.subscribe("U", "a")
        popped.put(b"u", topic="U", TAGS="a")
        popped.put(b"t")
        found = await consumer.receive() + await consumer.receive()
        assert sorted((m.topic, m.body) for m in found) == [("T", b"t"), ("U", b"u")]
        await consumer.unsubscribe("T")
        await consumer.subscribe("U", "b")
        popped.put(b"t")
        popped.put(b"u2", topic="U", TAGS="b")
        assert [m.body for m in await consumer.receive()] == [b"u2"]
        assert await consumer.receive(timeout=1) == []
        await consumer.ack_all(found)
        with pytest.raises(ClientError, match="not subscribed"):
            await consumer.unsubscribe("T")
    assert b'"consumeType":"CONSUME_POP"' in popped.requests(HEART_BEAT)[-1].body


async def test_errors_are_raised_if_nobody_answers(pops: StreamCluster, clock: MockClock) -> None:
    async with simple() as consumer:
        for broker in pops.brokers.values():
            broker.change[POP] = lambda c: c.reply(16, {}, b"")
        began = trio.current_time()
        with pytest.raises(ResponseError, match="CODE 16"):
            await consumer.receive(timeout=5)
        assert 5 <= trio.current_time() - began < 10
        for broker in pops.brokers.values():
            broker.change.clear()
        assert await consumer.receive(timeout=1) == []


async def test_a_topic_that_is_missing(pops: StreamCluster, clock: MockClock) -> None:
    """An error if it is the only one; messages of others come."""
    pops.missing.add("U")
    async with simple({"U": "*"}) as consumer:
        with pytest.raises(TopicNotExistError):
            await consumer.receive(timeout=3)
        await consumer.subscribe("T")
        pop_broker(pops["broker-a"]).put(b"m")
        assert [m.body for m in await consumer.receive(timeout=3)] == [b"m"]
        await consumer.unsubscribe("T")
        pops.missing.clear()
        pop_broker(pops["broker-a"]).put(b"u", topic="U")
        assert [m.body for m in await consumer.receive(timeout=3)] == [b"u"]


async def test_a_new_group_begins_at_the_end(popped: PopBroker, clock: MockClock) -> None:
    popped.put(b"old")
    async with simple(consume_from=ConsumeFrom.LAST_OFFSET) as consumer:
        popped.put(b"new")
        popped.put(b"new", queue=1)
        assert [m.body for m in await consumer.receive()] == [b"new", b"new"]


async def test_namespaces(popped: PopBroker, clock: MockClock) -> None:
    popped.put(b"m", topic="ns%T")
    async with SimpleConsumer(
        "g", {"T": "*"}, namesrv=StreamCluster.namesrv, namespace="ns",
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as consumer:  # fmt: skip
        (message,) = await consumer.receive()
        assert message.topic == "T"
        await consumer.change_invisible(message, 20)
        await consumer.ack(message)
    assert [(p.group, p.topic) for p in popped.acked] == [("ns%g", "ns%T")]
    assert popped.requests(CHANGE)[0].ext["topic"] == "ns%T"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": 33}, "max_messages"),
        ({"invisible_duration": 0.5}, "invisible_duration"),
        ({"timeout": -1.0}, "timeout"),
    ],
)
async def test_arguments(popped: PopBroker, arguments: dict[str, Any], text: str) -> None:
    async with simple() as consumer:
        with pytest.raises(ClientError, match=text):
            await consumer.receive(**arguments)


async def test_outside_of_its_block(clock: MockClock) -> None:
    with pytest.raises(ClientError, match="async with"):
        await simple().receive()
    with pytest.raises(ClientError, match="subscription"):
        SimpleConsumer("g", {}, namesrv=StreamCluster.namesrv)
