"""Push and pull consumers of a scripted broker, on a clock of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.client import ReconsumeLater
from pyrmq.errors import ClientError, UnusableNameError
from pyrmq.oms import BytesMessage, Context, MessagingAccessPoint, PullConsumer, PushConsumer
from tests.client.members import after
from tests.support.scripted.groups import HEART_BEAT, PULL, SEND, SEND_BACK, UNREGISTER, GroupBroker
from tests.support.scripted.streams import StreamCluster

POINT = MessagingAccessPoint(f"oms:rocketmq://{StreamCluster.namesrv}/default")
MINUTE = {"CONSUMER_ID": "g", "rmq.message.consume.timeout": 1}


def pushing(**attributes: Any) -> PushConsumer:
    return POINT.create_push_consumer({**MINUTE, **attributes})


def pulling(**attributes: Any) -> PullConsumer:
    return POINT.create_pull_consumer({**MINUTE, **attributes})


def subscribed(broker: GroupBroker) -> list[str]:
    """The topics of the last heartbeat."""
    (data,) = json.loads(broker.requests(HEART_BEAT)[-1].body)["consumerDataSet"]
    return sorted(s["topic"] for s in data["subscriptionDataSet"])


class Listener:
    """Does as `act` says, and keeps what it got."""

    def __init__(self, act: Callable[[BytesMessage, Context], object] | None = None) -> None:
        self.got: list[bytes] = []
        self.contexts: list[Context] = []
        self._act = act or (lambda message, context: context.ack())

    async def __call__(self, message: BytesMessage, context: Context) -> None:
        self.got.append(message.body)
        self.contexts.append(context)
        self._act(message, context)


# Push.


async def test_each_queue_has_its_listener(alone: GroupBroker, clock: MockClock) -> None:
    """Attached before entering and later; what is acknowledged is consumed."""
    first, second = Listener(), Listener()
    consumer = pushing()
    await consumer.attach_queue("T", first)
    async with consumer:
        await consumer.attach_queue("U", second)
        await after(1)
        assert subscribed(alone) == ["%RETRY%g", "T", "U"]
        alone.put(b"to T")
        alone.put(b"to U", topic="U", queue=1)
        await after(6)
        assert (first.got, second.got) == ([b"to T"], [b"to U"])
        assert (alone.offsets["g", "T", 0], alone.offsets["g", "U", 1]) == (1, 1)
    assert not alone.sent_back
    assert alone.requests(UNREGISTER)


async def test_detaching_and_attaching_again(alone: GroupBroker, clock: MockClock) -> None:
    listener, other = Listener(), Listener()
    async with pushing() as consumer:
        await consumer.attach_queue("T", listener)
        await consumer.attach_queue("U", other)
        alone.put(b"1")
        await after(1)
        await consumer.detach_queue("T")
        assert subscribed(alone) == ["%RETRY%g", "U"]
        alone.put(b"2")
        alone.put(b"other", topic="U")
        await after(30)
        pulls = len(alone.requests(PULL))
        assert (listener.got, other.got) == ([b"1"], [b"other"])
        assert alone.offsets["g", "T", 0] == 1
        await consumer.attach_queue("T", listener)
        await after(1)
        assert listener.got == [b"1", b"2"]
        assert len(alone.requests(PULL)) > pulls


async def test_attaching_for_a_moment(alone: GroupBroker, clock: MockClock) -> None:
    """A queue that is detached again is not pulled any more, and nothing of it is consumed."""
    listener = Listener()
    async with pushing() as consumer:
        for _ in range(3):
            await consumer.attach_queue("T", listener)
            await consumer.detach_queue("T")
        await after(1)
        pulls = [c for c in alone.requests(PULL) if c.ext["topic"] == "T"]
        alone.put(b"x")
        await after(60)
        assert [c for c in alone.requests(PULL) if c.ext["topic"] == "T"] == pulls
    assert not listener.got


async def test_an_acknowledgement_may_come_later(alone: GroupBroker, clock: MockClock) -> None:
    """The offset stays until then; others are consumed meanwhile."""
    listener = Listener(lambda message, context: message.body == b"late" or context.ack())
    async with pushing() as consumer:
        await consumer.attach_queue("T", listener)
        alone.put(b"late")
        alone.put(b"at once")
        await after(30)
        assert listener.got == [b"late", b"at once"]
        assert alone.offsets["g", "T", 0] == 0
        listener.contexts[0].ack()
        listener.contexts[0].ack()
        await after(6)
        assert alone.offsets["g", "T", 0] == 2
    assert not alone.sent_back


async def test_without_an_acknowledgement_a_message_goes_back(
    alone: GroupBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, after the consume timeout; then it is too late."""
    listener = Listener(lambda message, context: None)
    alone.put(b"x", UNIQ_KEY="ID")
    consumer = pushing()
    await consumer.attach_queue("T", listener)
    async with consumer:
        await after(59)
        assert not alone.sent_back
        await after(2)
        assert [c.ext["originMsgId"] for c in alone.sent_back] == ["ID"]
        with pytest.raises(ClientError, match="message ID is not acknowledged"):
            listener.contexts[0].ack()
        assert not listener.contexts[0].acknowledged
        await after(200)
        assert len(alone.sent_back) == 1
        assert alone.offsets["g", "T", 0] == 1
    assert "message ID was not acknowledged in 60 s: it goes back" in caplog.text


@pytest.mark.parametrize(
    ("error", "level"), [(ValueError("bad"), "0"), (ReconsumeLater(delay_level=5), "5")]
)
async def test_a_listener_that_fails(
    alone: GroupBroker, error: Exception, level: str, clock: MockClock
) -> None:
    def fail(message: BytesMessage, context: Context) -> None:
        raise error

    listener = Listener(fail)
    async with pushing(**{"rmq.max.redelivery.times": 3}) as consumer:
        await consumer.attach_queue("T", listener)
        await after(1)
        alone.put(b"x")
        await after(1)
        (back,) = alone.sent_back
        assert (back.ext["delayLevel"], back.ext["maxReconsumeTimes"]) == (level, "3")
        with pytest.raises(ClientError, match="is not acknowledged"):
            listener.contexts[0].ack()


async def test_a_listener_that_fails_after_it_acknowledged(
    alone: GroupBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    def act(message: BytesMessage, context: Context) -> None:
        context.ack()
        raise ValueError("late")

    async with pushing() as consumer:
        await consumer.attach_queue("T", Listener(act))
        alone.put(b"x")
        await after(6)
        assert alone.offsets["g", "T", 0] == 1
    assert not alone.sent_back
    assert "failed after it acknowledged" in caplog.text


async def test_what_comes_back_of_another_queue(alone: GroupBroker, clock: MockClock) -> None:
    """The retry topic of a group may have messages of queues that this member does not know."""
    listener = Listener()
    async with pushing() as consumer:
        await consumer.attach_queue("T", listener)
        await after(1)
        alone.put(b"known", topic="%RETRY%g", times=1, RETRY_TOPIC="T")
        alone.put(b"unknown", topic="%RETRY%g", times=1, RETRY_TOPIC="U")
        await after(1)
        assert listener.got == [b"known"]
        assert [c.ext["originTopic"] for c in alone.sent_back] == ["U"]


async def test_suspending(alone: GroupBroker, clock: MockClock) -> None:
    """Also what a pull under way brings waits, and what is attached meanwhile."""
    listener, other = Listener(), Listener()
    async with pushing() as consumer:
        await consumer.attach_queue("T", listener)
        await after(1)
        assert not consumer.is_suspended()
        consumer.suspend()
        consumer.suspend()
        assert consumer.is_suspended()
        alone.put(b"1")
        alone.put(b"2", topic="U")
        await consumer.attach_queue("U", other)
        await after(60)
        pulls = len(alone.requests(PULL))
        await after(60)
        assert (listener.got, other.got) == ([], [])
        assert len(alone.requests(PULL)) == pulls
        consumer.resume()
        await after(6)
        assert (listener.got, other.got) == ([b"1"], [b"2"])
        assert (alone.offsets["g", "T", 0], alone.offsets["g", "U", 0]) == (1, 1)


async def test_a_plain_listener_runs_in_a_thread(alone: GroupBroker) -> None:
    """And may acknowledge there, also when it has returned."""
    threads: set[str] = set()
    acknowledged = trio.Event()
    contexts: list[Context] = []
    token = trio.lowlevel.current_trio_token()

    def listener(message: BytesMessage, context: Context) -> None:
        import threading

        threads.add(threading.current_thread().name)
        contexts.append(context)
        token.run_sync_soon(acknowledged.set)

    async with pushing() as consumer:
        await consumer.attach_queue("T", listener)
        alone.put(b"x")
        with trio.fail_after(20):
            await acknowledged.wait()
            await trio.to_thread.run_sync(contexts[0].ack)
    assert alone.offsets["g", "T", 0] == 1
    assert "MainThread" not in threads


async def test_leaving_while_a_message_is_not_acknowledged(
    alone: GroupBroker, clock: MockClock
) -> None:
    listener = Listener(lambda message, context: None)
    async with pushing() as consumer:
        await consumer.attach_queue("T", listener)
        alone.put(b"x")
        await after(1)
        began = trio.current_time()
    assert trio.current_time() - began < 10
    with pytest.raises(ClientError, match="the consumer was left"):
        listener.contexts[0].ack()
    assert alone.offsets["g", "T", 0] == 0


@pytest.mark.parametrize("create", [pushing, pulling])
async def test_misuse(
    alone: GroupBroker, create: Callable[[], PushConsumer | PullConsumer], clock: MockClock
) -> None:
    consumer = create()
    arguments = (Listener(),) if isinstance(consumer, PushConsumer) else ()
    attach: Any = consumer.attach_queue
    with pytest.raises(UnusableNameError):
        await attach("no topic", *arguments)
    with pytest.raises(ClientError, match="'T' is not attached"):
        await consumer.detach_queue("T")
    await attach("T", *arguments)
    with pytest.raises(ClientError, match="T is attached already"):
        await attach("T", *arguments)
    async with consumer:
        with pytest.raises(ClientError, match="T is attached already"):
            await attach("T", *arguments)
        with pytest.raises(ClientError, match="once only"):
            await consumer.__aenter__()
        await consumer.detach_queue("T")
    for call in (attach("U", *arguments), consumer.detach_queue("T")):
        with pytest.raises(ClientError, match="the consumer was left: make a new one"):
            await call
    with pytest.raises(ClientError, match="once only"):
        await consumer.__aenter__()


@pytest.mark.parametrize("listener", [None, 5, "on_received"])
async def test_what_is_no_listener(listener: Any) -> None:
    with pytest.raises(ClientError, match="a function of a message and a context"):
        await pushing().attach_queue("T", listener)


# Pull.


async def test_receiving_and_acknowledging(alone: GroupBroker, clock: MockClock) -> None:
    """In any order: the offset is that of the first that is open."""
    for n in range(3):
        alone.put(b"%d" % n, UNIQ_KEY=f"ID{n}")
    async with pulling() as consumer:
        await consumer.attach_queue("T")
        got = [await consumer.receive() for _ in range(3)]
        assert [m and m.body for m in got] == [b"0", b"1", b"2"]
        began = trio.current_time()
        assert await consumer.receive() is None
        assert trio.current_time() - began == pytest.approx(5)
        assert await consumer.receive(timeout=0.5) is None
        consumer.ack("ID0")
        assert got[2] is not None
        consumer.ack(got[2])
        await after(6)
        assert alone.offsets["g", "T", 0] == 1
        consumer.ack("ID1")
    assert alone.offsets["g", "T", 0] == 3
    assert not alone.sent_back


async def test_the_same_id_twice(alone: GroupBroker, clock: MockClock) -> None:
    """A producer may have sent a message twice: each delivery is acknowledged."""
    for _ in range(2):
        alone.put(b"x", UNIQ_KEY="ID")
    async with pulling() as consumer:
        await consumer.attach_queue("T")
        for _ in range(2):
            assert await consumer.receive()
        for _ in range(2):
            consumer.ack("ID")
        with pytest.raises(ClientError, match="'ID' is not open"):
            consumer.ack("ID")
    assert alone.offsets["g", "T", 0] == 2


@pytest.mark.parametrize("name", ["none", "", None, 5, BytesMessage("T", b"x")])
async def test_acknowledging_what_is_not_open(
    alone: GroupBroker, name: Any, clock: MockClock
) -> None:
    async with pulling() as consumer:
        with pytest.raises(ClientError, match="is not open"):
            consumer.ack(name)


async def test_what_is_not_acknowledged_goes_back(alone: GroupBroker, clock: MockClock) -> None:
    """At the third level, once; a broker that refuses is asked again."""
    alone.put(b"x", UNIQ_KEY="ID")
    alone.change[SEND_BACK] = lambda c: c.reply(1)
    alone.change[SEND] = lambda c: c.reply(14)
    async with pulling() as consumer:
        await consumer.attach_queue("T")
        assert await consumer.receive()
        await after(90)
        assert not alone.sent_back
        assert alone.offsets["g", "T", 0] == 0
        del alone.change[SEND_BACK]
        await after(30)
        (back,) = alone.sent_back
        assert (back.ext["originMsgId"], back.ext["delayLevel"]) == ("ID", "3")
        assert alone.offsets["g", "T", 0] == 1
        with pytest.raises(ClientError, match="went back after the consume timeout"):
            consumer.ack("ID")


async def test_a_cache_that_is_full(alone: GroupBroker, clock: MockClock) -> None:
    """Pulling stops while too many are open."""
    for n in range(40):
        alone.put(b"%d" % n)
    options = {"rmq.pull.message.cache.capacity": 8, "rmq.pull.message.batch.nums": 4}
    async with pulling(**options) as consumer:
        await consumer.attach_queue("T")
        got = []
        while (message := await consumer.receive(timeout=1)) is not None:
            got.append(message)
        assert len(got) == 12, "the pull that goes over the limit is the last"
        for message in got:
            consumer.ack(message)
        assert await consumer.receive()
    assert {c.ext["maxMsgNums"] for c in alone.requests(PULL)} == {"4"}


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True, 1e12])
async def test_what_is_no_timeout(alone: GroupBroker, timeout: Any, clock: MockClock) -> None:
    async with pulling() as consumer:
        with pytest.raises(ClientError, match="seconds are needed"):
            await consumer.receive(timeout=timeout)


async def test_outside_of_the_context(alone: GroupBroker, clock: MockClock) -> None:
    consumer = pulling()

    async def refuses() -> None:
        with pytest.raises(ClientError, match="not connected"):
            await consumer.receive()
        with pytest.raises(ClientError, match="not connected"):
            consumer.ack("ID")

    await refuses()
    async with trio.open_nursery() as nursery, consumer:
        nursery.start_soon(waits, consumer)
        await after(1)
    await refuses()


async def waits(consumer: PullConsumer) -> None:
    with pytest.raises(ClientError, match="the consumer was left"):
        await consumer.receive(timeout=1000)


# Namespaces.


async def test_a_namespace_is_not_seen(alone: GroupBroker, clock: MockClock) -> None:
    point = MessagingAccessPoint(f"openmessaging:rocketmq://{StreamCluster.namesrv}/ns")
    alone.put(b"x", topic="ns%T", INSTANCE_ID="ns")
    async with point.create_pull_consumer({"CONSUMER_ID": "g"}) as consumer:
        await consumer.attach_queue("T")
        message = await consumer.receive()
        assert message is not None
        assert message.queue == "T"
        assert not message.user_headers
        assert subscribed(alone) == ["%RETRY%ns%g", "ns%T"]
        consumer.ack(message)
    assert alone.offsets["ns%g", "ns%T", 0] == 1
