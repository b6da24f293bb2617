"""Push consumers that subscribe, unsubscribe and are suspended while they run."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import PushConsumer, Sql
from pyrmq.errors import ClientError, SubscriptionError, UnusableExpressionError, UnusableNameError
from pyrmq.model.message import MessageQueue, ReceivedMessage
from tests.client.members import after, collect, consumer
from tests.support.scripted.groups import HEART_BEAT, PULL, GroupBroker
from tests.support.scripted.script import SILENCE
from tests.support.thorough import size

CHECK_CLIENT_CONFIG = 46


def subscriptions(broker: GroupBroker) -> dict[str, str]:
    """Topics and expressions of the last heartbeat."""
    (data,) = json.loads(broker.requests(HEART_BEAT)[-1].body)["consumerDataSet"]
    return {s["topic"]: s["subString"] for s in data["subscriptionDataSet"]}


async def test_one_topic_more_and_one_less(alone: GroupBroker, clock: MockClock) -> None:
    seen: Counter[bytes] = Counter()
    for body, topic, tag in ((b"t", "T", "a"), (b"u", "U", "a"), (b"no", "U", "b")):
        alone.put(body, topic=topic, TAGS=tag)
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        await member.subscribe("U", "a")
        assert subscriptions(alone) == {"%RETRY%g": "*", "T": "*", "U": "a"}
        await after(1)
        assert seen == {b"t": 1, b"u": 1}
        assert {q.topic for q in member.assigned} == {"T", "U"}
        await member.unsubscribe("T")
        assert subscriptions(alone) == {"%RETRY%g": "*", "U": "a"}
        await after(1)
        assert {q.topic for q in member.assigned} == {"U"}
        alone.put(b"t2")
        await after(60)
        assert b"t2" not in seen
        await member.subscribe("T")
        await after(1)
        assert seen[b"t2"] == 1
        nursery.cancel_scope.cancel()
    assert alone.offsets["g", "T", 0] >= 1


async def test_what_cannot_be_subscribed(alone: GroupBroker, clock: MockClock) -> None:
    member = consumer()
    for call in (member.subscribe, member.unsubscribe):
        with pytest.raises(ClientError, match="not connected"):
            await call("T")
    async with member:
        subscribe, unsubscribe = member.subscribe, member.unsubscribe
        refused: list[tuple[Any, tuple[Any, ...], type[Exception], str]] = [
            (subscribe, ("T",), ClientError, "T is subscribed already"),
            (subscribe, ("%RETRY%g",), ClientError, "is subscribed already"),
            (subscribe, ("no topic",), UnusableNameError, "illegal"),
            (subscribe, ("U", "||"), UnusableExpressionError, "no tag"),
            (subscribe, ("U", 5), ClientError, "str or Sql is needed"),
            (unsubscribe, ("U",), ClientError, "'U' is not subscribed"),
            (unsubscribe, ("%RETRY%g",), ClientError, "is not subscribed"),
        ]
        for call, arguments, error, text in refused:
            with pytest.raises(error, match=text):
                await call(*arguments)
        await after(1)
        alone.change[CHECK_CLIENT_CONFIG] = lambda c: c.reply(23)
        with pytest.raises(SubscriptionError):
            await member.subscribe("U", Sql("a >"))
        assert "U" not in subscriptions(alone)
        await member.subscribe("U")


async def test_given_up_while_it_is_subscribed(alone: GroupBroker, clock: MockClock) -> None:
    async with consumer() as member, trio.open_nursery() as nursery:
        await after(1)
        alone.change[HEART_BEAT] = lambda c: SILENCE
        nursery.start_soon(member.subscribe, "U")
        await after(0.1)
        nursery.start_soon(member.unsubscribe, "U")
        await after(1)
        del alone.change[HEART_BEAT]
        await after(60)
        assert {c.ext["topic"] for c in alone.requests(PULL)} == {"T", "%RETRY%g"}


async def test_given_up_while_it_is_shared(alone: GroupBroker, clock: MockClock) -> None:
    """The answer of the broker about the members is there, the queues are about to be taken."""
    member: PushConsumer

    def strategy(queues: list[MessageQueue], ids: list[str], own: str) -> list[MessageQueue]:
        if queues[0].topic == "T":
            member._member.unshare("T")
            del member._subs["T"]
        return queues

    member = consumer(strategy=strategy)
    async with member:
        await after(60)
        assert {c.ext["topic"] for c in alone.requests(PULL)} == {"%RETRY%g"}


@pytest.mark.parametrize("seed", range(size("PYRMQ_CHANGES", 4, 100)))
async def test_changes_all_the_time(alone: GroupBroker, seed: int, clock: MockClock) -> None:
    """Whatever is in the middle when a topic comes or goes: in the end all is consumed."""
    chance = random.Random(seed)
    seen: Counter[bytes] = Counter()

    async def listener(message: ReceivedMessage) -> None:
        await trio.sleep(chance.uniform(0, 0.05))
        seen[message.body] += 1

    async def change(member: Any, topic: str) -> None:
        for _ in range(15):
            await member.subscribe(topic)
            await trio.sleep(chance.choice((0, 0, 0.001, 0.05, 2)))
            await member.unsubscribe(topic)
            await trio.sleep(chance.choice((0, 0, 0.001, 0.05)))
        await member.subscribe(topic)

    async with consumer(listener=listener, orderly=bool(seed % 2)) as member:
        async with trio.open_nursery() as nursery:
            for topic in ("U", "V"):
                nursery.start_soon(change, member, topic)
            for n in range(40):
                alone.put(b"%d" % n, topic=chance.choice("TUV"), queue=chance.randrange(2))
                await trio.sleep(chance.uniform(0, 0.2))
        await after(30)
        assert set(seen) == {b"%d" % n for n in range(40)}
        assert member.assigned == [MessageQueue(t, "broker-a", n) for t in "TUV" for n in (0, 1)]
    assert sum(alone.offsets["g", topic, n] for topic in "TUV" for n in (0, 1)) == 40


@pytest.mark.parametrize("orderly", [False, True])
async def test_suspending(alone: GroupBroker, orderly: bool, clock: MockClock) -> None:
    got: list[bytes] = []

    async def listener(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with consumer(listener=listener, orderly=orderly) as member:
        await after(1)
        member.suspend()
        alone.put(b"1")
        await after(60)
        pulls = len(alone.requests(PULL))
        alone.put(b"2")
        await after(60)
        assert got == []
        assert len(alone.requests(PULL)) == pulls
        member.resume()
        await after(6)
        assert got == [b"1", b"2"]
        assert alone.offsets["g", "T", 0] == 2
    member.suspend()
    assert member.is_suspended()


async def test_a_loop_that_is_suspended(alone: GroupBroker, clock: MockClock) -> None:
    seen: Counter[bytes] = Counter()
    async with consumer() as member, trio.open_nursery() as nursery:
        nursery.start_soon(collect, member, seen)
        await after(1)
        member.suspend()
        alone.put(b"1")
        await after(60)
        assert not seen
        member.resume()
        await after(1)
        assert seen == {b"1": 1}
        nursery.cancel_scope.cancel()


async def test_leaving_while_suspended(alone: GroupBroker, clock: MockClock) -> None:
    """What a pull brought meanwhile is not consumed."""
    async with consumer() as member:
        await after(1)
        member.suspend()
        alone.put(b"1")
        await after(1)
    assert alone.offsets["g", "T", 0] == 0
