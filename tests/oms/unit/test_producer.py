"""Producers of a scripted broker: what is sent, what goes wrong, and how they are left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import pyrmq
from pyrmq import oms
from pyrmq.client.producer.faults import java_hash
from pyrmq.errors import ClientError, ConnectError, NotSupportedError, RequestTimeoutError
from pyrmq.oms import BytesMessage, Header, MessagingAccessPoint, Producer, Promise, SendResult
from tests.support.scripted.groups import SEND, GroupBroker
from tests.support.scripted.script import HANG_UP, SILENCE
from tests.support.scripted.streams import StreamCluster, sent_properties, stored

POINT = MessagingAccessPoint(f"oms:rocketmq://{StreamCluster.namesrv}/default")


def producer(**attributes: Any) -> Producer:
    return POINT.create_producer(attributes)


async def test_what_is_sent(alone: GroupBroker, clock: MockClock) -> None:
    async with producer(**{"rmq.producer.group": "pg"}) as sender:
        message = sender.create_bytes_message(
            "T", b"body", user_headers={"n": 1}, sys_headers={Header.SEARCH_KEYS: "k"}
        )
        result = await sender.send(message)
        again = await sender.send(message)
    first, _ = alone.requests(SEND)
    assert (first.ext["a"], first.ext["b"], first.body) == ("pg", "T", b"body")
    properties = sent_properties(first)
    assert properties.pop("UNIQ_KEY") == result.message_id != again.message_id
    assert properties == {"n": "1", "KEYS": "k", "WAIT": "true"}
    assert message.message_id == again.message_id == again.rocketmq.msg_id


async def test_a_stream_key_chooses_the_queue(alone: GroupBroker, clock: MockClock) -> None:
    async with producer() as sender:
        for key in ("a", "b", "a"):
            message = BytesMessage("T", b"x", sys_headers={Header.STREAM_KEY: key})
            await sender.send(message)
            await sender.send_oneway(message)
            await trio.testing.wait_all_tasks_blocked()
    queues = [int(c.ext["e"]) for c in alone.requests(SEND)]
    assert queues == [java_hash(key) % 2 for key in "aabbaa"]
    assert sent_properties(alone.requests(SEND)[0])["STREAM_KEY"] == "a"


async def test_a_namespace(alone: GroupBroker, clock: MockClock) -> None:
    point = MessagingAccessPoint(f"openmessaging:rocketmq://{StreamCluster.namesrv}/ns")
    async with point.create_producer({"rmq.producer.group": "pg"}) as sender:
        result = await sender.send(BytesMessage("T", b"x"))
    (request,) = alone.requests(SEND)
    assert (request.ext["a"], request.ext["b"]) == ("ns%pg", "ns%T")
    assert result.rocketmq.queue.topic == "T"


async def test_not_as_safely_as_configured(alone: GroupBroker, clock: MockClock) -> None:
    alone.change[SEND] = lambda c: stored(c, code=10)
    message = BytesMessage("T", b"x")
    async with producer() as sender:
        with pytest.raises(ClientError, match="the broker has message .* FLUSH_DISK_TIMEOUT"):  # noqa: RUF043
            await sender.send(message)
    assert len(alone.requests(SEND)) == 1
    assert message.message_id == sent_properties(alone.requests(SEND)[0])["UNIQ_KEY"]


@pytest.mark.parametrize(
    ("change", "error", "name"),
    [
        (lambda c: SILENCE, RequestTimeoutError, oms.OMSTimeoutError),
        (lambda c: HANG_UP, ConnectError, oms.OMSRuntimeError),
        (lambda c: c.reply(13), pyrmq.MessageIllegalError, None),
        (lambda c: c.reply(2), pyrmq.SystemBusyError, oms.OMSRuntimeError),
    ],
)
async def test_what_brokers_answer(
    alone: GroupBroker,
    change: Callable[[Any], Any],
    error: type[Exception],
    name: type[Exception] | None,
    clock: MockClock,
) -> None:
    alone.change[SEND] = change
    async with producer(OPERATION_TIMEOUT=2000) as sender:
        began = trio.current_time()
        with pytest.raises(name or oms.OMSMessageFormatError) as caught:
            await sender.send(BytesMessage("T", b"x"))
        assert isinstance(caught.value, error)
        assert trio.current_time() - began <= 2.01


async def test_a_time_of_its_own(alone: GroupBroker, clock: MockClock) -> None:
    alone.change[SEND] = lambda c: SILENCE
    async with producer() as sender:
        began = trio.current_time()
        with pytest.raises(RequestTimeoutError):
            await sender.send(BytesMessage("T", b"x"), timeout=0.3)
        assert trio.current_time() - began == pytest.approx(0.3)
        for timeout in (0, -1, float("inf"), float("nan"), "5", True):
            with pytest.raises(ClientError, match="seconds are needed"):
                await sender.send(BytesMessage("T", b"x"), timeout=timeout)  # type: ignore[arg-type]


async def test_what_cannot_be_sent(alone: GroupBroker, clock: MockClock) -> None:
    reliable = BytesMessage("T", b"x", sys_headers={Header.RELIABILITY: 5})
    empty = BytesMessage("T", b"")
    nowhere = BytesMessage("", b"x")
    async with producer() as sender:
        for send in (sender.send, sender.send_async, sender.send_oneway):
            with pytest.raises(NotSupportedError):
                await send(reliable)  # type: ignore[operator]
            with pytest.raises(ClientError, match="a BytesMessage is needed"):
                await send(pyrmq.Message("T", b"x"))  # type: ignore[operator]
        with pytest.raises(oms.OMSMessageFormatError, match="empty"):
            await sender.send(empty)
        with pytest.raises(oms.OMSMessageFormatError, match="empty"):
            await (await sender.send_async(empty))
        with pytest.raises(pyrmq.UnusableNameError):
            await sender.send(nowhere)
    assert not alone.requests(SEND)


# Promises.


async def test_promises(alone: GroupBroker, clock: MockClock) -> None:
    called: list[Promise[SendResult]] = []
    async with producer() as sender:
        message = BytesMessage("T", b"x")
        promise = await sender.send_async(message)
        promise.add_done_callback(called.append)
        assert not promise.done()
        for look in (promise.result, promise.exception):
            with pytest.raises(ClientError, match="no result yet"):
                look()
        result = await promise
        assert promise.done()
        assert await promise is promise.result() is result
        assert promise.exception() is None
        assert message.message_id == result.message_id
        promise.add_done_callback(called.append)
    assert called == [promise, promise]


async def test_a_promise_that_fails(
    alone: GroupBroker, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """And callbacks that fail hurt nobody else."""
    alone.change[SEND] = lambda c: c.reply(2)
    called: list[Promise[SendResult]] = []

    def fail(promise: Promise[SendResult]) -> None:
        raise ValueError("callback")

    async with producer(OPERATION_TIMEOUT=100) as sender:
        promise = await sender.send_async(BytesMessage("T", b"x"))
        promise.add_done_callback(fail)
        promise.add_done_callback(called.append)
        with pytest.raises(pyrmq.SystemBusyError):
            await promise
        with pytest.raises(pyrmq.SystemBusyError):
            promise.result()
        assert isinstance(promise.exception(), pyrmq.SystemBusyError)
    assert called == [promise]
    assert "a callback of a promise failed" in caplog.text


async def test_leaving_waits_for_promises(alone: GroupBroker, clock: MockClock) -> None:
    """Also with an error; nothing new is sent meanwhile."""
    alone.change[SEND] = lambda c: SILENCE
    promises = []
    refused = trio.Event()

    async def late(sender: Producer) -> None:
        await trio.sleep(1)
        with pytest.raises(ClientError, match="not connected"):
            await sender.send(BytesMessage("T", b"late"))
        refused.set()

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        with suppress(ZeroDivisionError):
            async with producer() as sender:
                nursery.start_soon(late, sender)
                promises = [await sender.send_async(BytesMessage("T", b"x")) for _ in range(3)]
                raise ZeroDivisionError
        assert trio.current_time() - began == pytest.approx(5)
    assert refused.is_set()
    assert all(isinstance(p.exception(), RequestTimeoutError) for p in promises)


async def test_a_cancelled_program_does_not_wait(alone: GroupBroker, clock: MockClock) -> None:
    alone.change[SEND] = lambda c: SILENCE
    with trio.move_on_after(1) as scope:
        async with producer(OPERATION_TIMEOUT=60_000) as sender:
            promise = await sender.send_async(BytesMessage("T", b"x"))
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() < 10
    with pytest.raises(ClientError, match="was left before an answer came"):
        await promise


async def test_many_promises(
    alone: GroupBroker, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    """Further ones wait for room."""
    monkeypatch.setattr("pyrmq.oms.producer.MAX_PENDING", 3)
    alone.change[SEND] = lambda c: SILENCE
    async with producer(OPERATION_TIMEOUT=1000) as sender:
        began = trio.current_time()
        for _ in range(7):
            await sender.send_async(BytesMessage("T", b"x"))
        assert trio.current_time() - began == pytest.approx(2)


async def test_misuse(alone: GroupBroker, clock: MockClock) -> None:
    sender = producer()

    async def refuses() -> None:
        for send in (sender.send, sender.send_async, sender.send_oneway):
            with pytest.raises(ClientError, match="not connected"):
                await send(BytesMessage("T", b"x"))  # type: ignore[operator]

    await refuses()
    async with sender:
        with pytest.raises(ClientError, match="once only"):
            await sender.__aenter__()
        await sender.send(BytesMessage("T", b"x"))
    await refuses()
    with pytest.raises(ClientError, match="once only"):
        await sender.__aenter__()


def test_in_asyncio() -> None:
    import asyncio

    async def main() -> None:
        consumer = POINT.create_pull_consumer({"CONSUMER_ID": "g"})
        for client in (producer(), consumer):
            with pytest.raises(ClientError, match=r"not on asyncio: use pyrmq\.oms\.aio"):
                await client.__aenter__()

    asyncio.run(main())
