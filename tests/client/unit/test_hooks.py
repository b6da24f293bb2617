"""Hooks of producers and consumers: what they hear, in which order, and what their errors cost."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import (
    ClientError,
    ConsumeContext,
    ConsumeFrom,
    ConsumeMessageHook,
    ConsumeOutcome,
    LitePullConsumer,
    Message,
    Producer,
    ReceivedMessage,
    ResponseError,
    SendContext,
    SendMessageHook,
    TransactionalProducer,
    TransactionState,
)
from pyrmq.client.consumer.consume_service import ReconsumeLater
from tests.client.members import after, consumer
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import SEND, StreamCluster, stored

SEND_BATCH = 320
SPAN: ContextVar[str] = ContextVar("SPAN", default="")


class Sends(SendMessageHook):
    def __init__(self, log: list[Any], name: str = "") -> None:
        self.log, self.name = log, name

    def before(self, context: SendContext) -> None:
        self.log.append((f"before{self.name}", [m.body for m in context.messages]))
        for message in context.messages:
            message.properties["span"] = "s1"

    def after(self, context: SendContext) -> None:
        self.log.append((f"after{self.name}", context.error or context.result))


class Consumes(ConsumeMessageHook):
    def __init__(self) -> None:
        self.heard: list[ConsumeContext] = []

    def before(self, context: ConsumeContext) -> None:
        SPAN.set("from the hook")
        context.memo["mine"] = True

    def after(self, context: ConsumeContext) -> None:
        assert context.memo == {"mine": True}
        self.heard.append(context)


class Fails(SendMessageHook, ConsumeMessageHook):  # type: ignore[misc]
    def before(self, context: Any) -> None:
        raise ValueError("before")

    def after(self, context: Any) -> None:
        raise ValueError("after")


def sender(*hooks: SendMessageHook, **options: Any) -> Producer:
    return Producer("pg", namesrv=StreamCluster.namesrv, hooks=hooks, **options)


async def test_a_send(cluster: StreamCluster, clock: MockClock) -> None:
    """In order and back; what `before` writes is sent."""
    log: list[Any] = []
    async with sender(Sends(log), Fails(), Sends(log, "2")) as producer:
        result = await producer.send(Message("T", b"x"))
        assert log == [
            ("before", [b"x"]),
            ("before2", [b"x"]),
            ("after2", result),
            ("after", result),
        ]
    (sent,) = [c for b in cluster.brokers.values() for c in b.requests(SEND)]
    assert "span\x01s1" in sent.ext["i"]


async def test_other_ways_to_send(cluster: StreamCluster, clock: MockClock) -> None:
    for broker in cluster.brokers.values():
        broker.change[SEND_BATCH] = stored
    log: list[Any] = []
    async with sender(Sends(log)) as producer:
        batch = await producer.send_batch([Message("T", b"x"), Message("T", b"y")])
        assert log == [("before", [b"x", b"y"]), ("after", batch)]
        log.clear()
        await producer.send_oneway(Message("T", b"z"))
        assert log == [("before", [b"z"]), ("after", None)]
        log.clear()
        with pytest.raises(ClientError):
            await producer.request(Message("T", b"?"), timeout=1)
        assert log[0] == ("before", [b"?"])
        assert isinstance(log[1][1], ClientError)


async def test_a_send_that_fails(cluster: StreamCluster, clock: MockClock) -> None:
    for broker in cluster.brokers.values():
        broker.change[SEND] = lambda c: c.reply(13, {}, b"")
    log: list[Any] = []
    async with sender(Sends(log)) as producer:
        with pytest.raises(ResponseError) as caught:
            await producer.send(Message("T", b"x"))
    assert log[1] == ("after", caught.value)


async def test_a_half(cluster: StreamCluster, clock: MockClock) -> None:
    class Orders:
        async def execute_local_transaction(self, message: Message, arg: Any) -> TransactionState:
            return TransactionState.COMMIT

        async def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
            return TransactionState.UNKNOWN

    log: list[Any] = []
    async with TransactionalProducer(
        "pg", Orders(), namesrv=StreamCluster.namesrv, hooks=[Sends(log)]
    ) as producer:
        await producer.send_in_transaction(Message("T", b"x"))
    assert [name for name, _ in log] == ["before", "after"]


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("trace", [False, True])
async def test_a_listener(alone: GroupBroker, clock: MockClock, orderly: bool, trace: bool) -> None:
    """What it returns or raises; a context variable that a hook sets is there."""
    spans: list[str] = []
    failing = {b"later", b"error"}

    async def listener(message: ReceivedMessage) -> None:
        spans.append(SPAN.get())
        if message.body in failing:
            failing.remove(message.body)
            raise ReconsumeLater if message.body == b"later" else ValueError

    for body in (b"fine", b"later", b"error"):
        alone.put(body, queue=len(body) % 2)
    hook = Consumes()
    hooks = [Fails(), hook]
    options: Any = {"orderly": orderly, "hooks": hooks, "trace": trace}
    async with consumer(listener=listener, suspend_time=0.05, **options):
        await after(1)
    assert spans == ["from the hook"] * len(spans)
    found = {(c.messages[0].body, c.status) for c in hook.heard}
    assert found >= {
        (b"fine", ConsumeOutcome.SUCCESS),
        (b"later", ConsumeOutcome.FAILED),
        (b"error", ConsumeOutcome.EXCEPTION),
    }
    assert all((c.group, c.topic) == ("g", "T") for c in hook.heard)
    assert alone.offsets["g", "T", 0] == 1


async def test_a_loop_and_polls(alone: GroupBroker, clock: MockClock) -> None:
    hook = Consumes()
    alone.put(b"x")
    async with consumer(hooks=[hook]) as member:
        async for message in member:
            member.acknowledge(message)
            break
    assert [c.status for c in hook.heard] == [ConsumeOutcome.SUCCESS]
    async with LitePullConsumer(
        "lite",
        {"T": "*"},
        namesrv=StreamCluster.namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        hooks=[hook],
    ) as polled:
        with trio.fail_after(10):
            while not await polled.poll(1):
                pass
    assert [m.body for m in hook.heard[-1].messages] == [b"x"]


@pytest.mark.parametrize("hooks", [[print], "name", 5, [ConsumeMessageHook], [SendMessageHook()]])
def test_what_is_no_hook(hooks: Any) -> None:
    with pytest.raises(ClientError, match="hooks"):
        consumer(hooks=hooks)
