"""pyrmq.aio: clients for asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import pyrmq.testing
from pyrmq import (
    ClientError,
    ConnectError,
    ConsumeFrom,
    MessageIllegalError,
    TransactionState,
    sync,
)
from pyrmq.aio import (
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    TransactionalProducer,
)
from pyrmq.portal.thread import SHARED
from pyrmq.server import Running

FIRST: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET}


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    """What happens in another thread."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


def test_sending_and_a_loop(server: Running) -> None:
    async def test() -> None:
        async with Producer("pg", namesrv=server.namesrv) as producer:
            sends = (producer.send(Message("Aio", b"%d" % n)) for n in range(50))
            results = await asyncio.gather(*sends)
            with pytest.raises(MessageIllegalError, match="empty"):
                await producer.send(Message("Aio", b""))
        got: list[ReceivedMessage] = []
        async with PushConsumer("cg", {"Aio": "*"}, namesrv=server.namesrv, **FIRST) as consumer:
            async for message in consumer:
                got.append(message)
                if len(got) == 50:
                    await consumer.acknowledge(message)
                    break
        assert {m.msg_id for m in got} == {r.msg_id for r in results}

    run(test)


def test_polls(server: Running) -> None:
    async def test() -> None:
        async with Producer("pg", namesrv=server.namesrv) as producer:
            queue = (await producer.queues("AioP"))[0]
            for n in range(15):
                result = await producer.send(Message("AioP", b"%d" % n), queue=queue)
        queue = result.queue
        async with LitePullConsumer("polls", namesrv=server.namesrv) as consumer:
            assert queue in await consumer.queues("AioP")
            await consumer.assign([queue])
            await consumer.seek_to_begin(queue)
            assert [int(m.body) for m in await consumer.poll(20)] == list(range(10))
            assert consumer.assigned == [queue]
            await consumer.commit()
            assert await consumer.committed(queue) == 10
            await consumer.pause([queue])
            assert await consumer.poll(timeout=0) == []
            await consumer.resume([queue])
            await consumer.seek(queue, 2)
            async for message in consumer:
                if message.body == b"14":
                    break
            begin = await consumer.offset_for_timestamp(queue, 0)
            end = await consumer.offset_for_timestamp(queue, 1 << 60)
            assert (begin, end) == (0, 15)
            await consumer.seek_to_end(queue)
            with pytest.raises(ClientError, match="cannot subscribe"):
                await consumer.subscribe("AioP")

    run(test)


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
def test_what_a_cancelled_task_did_not_get_comes_again(server: Running, kind: Any) -> None:
    """It was taken for the task before the cancellation, and on its way from thread to thread."""
    topic, group = f"AioLost{kind.__name__}", f"lost-{kind.__name__}"

    def taken(consumer: Any, loop: Any) -> object:
        polls = getattr(consumer._client, "_polls", None)
        return polls._polled if loop is None else loop._messages._current

    async def test() -> None:
        options: Any = {"namesrv": server.namesrv, **FIRST}
        with sync.Producer("pg", namesrv=server.namesrv) as producer:
            queues = len(producer.queues(topic))
            producer.send(Message(topic, b"first"))
            async with kind(group, {topic: "*"}, **options) as consumer:
                ways = [aiter(consumer), None] if kind is LitePullConsumer else [aiter(consumer)]
                await anext(ways[0])
                await until(lambda: len(consumer.assigned) == queues)
                for way in ways:
                    call = consumer.poll(30) if way is None else anext(way)
                    task = asyncio.ensure_future(call)
                    await asyncio.sleep(0.01)  # it asks
                    producer.send(Message(topic, b"x"))  # blocks this loop
                    limit = time.monotonic() + 20
                    while taken(consumer, way) is None and time.monotonic() < limit:
                        time.sleep(0.001)  # noqa: ASYNC251 - so does this
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    if way is None:
                        assert [m.body for m in await consumer.poll(5)] == [b"x"]
                    else:
                        async with asyncio.timeout(5):
                            assert (await anext(aiter(consumer))).body == b"x", "another loop"

    run(test)


def test_receiving(server: Running) -> None:
    """A cancelled call has taken nothing, and a listener that pops runs in the loop."""

    async def test() -> None:
        options: Any = {"namesrv": server.namesrv, **FIRST}
        async with SimpleConsumer("aio-simple", {"AioSimple": "*"}, **options) as consumer:
            call = asyncio.ensure_future(consumer.receive(timeout=20))
            await asyncio.sleep(0.05)  # it waits
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            with sync.Producer("pg", namesrv=server.namesrv) as producer:
                producer.send(Message("AioSimple", b"m"))
            (message,) = await consumer.receive(timeout=20)
            await consumer.change_invisible(message, 30)
            await consumer.ack_all([message])
        loop, popped = asyncio.get_running_loop(), asyncio.Event()

        async def listener(message: ReceivedMessage) -> None:
            assert asyncio.get_running_loop() is loop
            popped.set()

        async with PushConsumer(
            "aio-pop", {"AioSimple": "*"}, listener=listener, pop=True, **options
        ):
            await popped.wait()

    run(test)


def test_a_listener_runs_in_the_loop(server: Running) -> None:
    async def test() -> None:
        here, done = threading.get_ident(), asyncio.Event()

        async def listener(message: ReceivedMessage) -> None:
            assert threading.get_ident() == here
            await asyncio.sleep(0)
            done.set()

        options: Any = {"namesrv": server.namesrv, "listener": listener, **FIRST}
        async with (
            PushConsumer("listeners", {"AioL": "*"}, **options),
            Producer("pg", namesrv=server.namesrv) as producer,
        ):
            await producer.send(Message("AioL", b"x"))
            await done.wait()

    run(test)


def test_transactions(server: Running) -> None:
    class Listener:
        thread = 0

        async def execute_local_transaction(self, message: Any, arg: Any) -> TransactionState:
            self.thread = threading.get_ident()
            await asyncio.sleep(0)
            return TransactionState.ROLLBACK

        def check_local_transaction(self, message: Any) -> TransactionState:
            return TransactionState.UNKNOWN

    async def test() -> None:
        listener = Listener()
        async with TransactionalProducer("tx", listener, namesrv=server.namesrv) as producer:
            result = await producer.send_in_transaction(Message("AioTx", b"x"))
        assert result.local_state is TransactionState.ROLLBACK
        assert listener.thread == threading.get_ident()

    run(test)


def test_a_cancelled_task_cancels_its_call(server: Running) -> None:
    async def test() -> None:
        async with Producer("pg", namesrv=server.namesrv) as producer:
            await producer.send(Message("AioC", b"x"))
            task = asyncio.create_task(producer.request(Message("AioC", b"x"), timeout=1000))
            waiting = producer._client._requests._waiting
            await until(lambda: bool(waiting))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: not waiting)

    run(test)


def test_a_cancellation_while_it_is_left(server: Running) -> None:
    """It is left all the same, and others are not disturbed."""

    async def leave(entered: asyncio.Event) -> None:
        async with Producer("pg", namesrv=server.namesrv) as producer:
            await producer.queues("AioD")
            entered.set()
        await asyncio.sleep(0)

    async def test() -> None:
        for _ in range(5):
            entered = asyncio.Event()
            task = asyncio.create_task(leave(entered))
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not SHARED._open

    run(test)


def test_no_broker() -> None:
    async def test() -> None:
        async with Producer("pg", namesrv="127.0.0.1:1") as producer:
            with pytest.raises(ConnectError):
                await producer.send(Message("T", b"x"))

    run(test)


def test_a_broker_of_ones_own() -> None:
    async def test() -> None:
        async with (
            pyrmq.testing.broker() as server,
            Producer("pg", namesrv=server.namesrv) as producer,
        ):
            await producer.send(Message("T", b"x"))

    run(test)


def test_sending_soon(server: Running) -> None:
    async def test() -> None:
        async with Producer("pg", namesrv=server.namesrv, auto_batch=True) as producer:
            queue = (await producer.queues("AioSoon"))[0]
            messages = [Message("AioSoon", b"%d" % n) for n in range(20)]
            pending = [await producer.send_soon(m, queue=queue) for m in messages]
            results = await asyncio.gather(*(p.result() for p in pending))
            await producer.flush()
            last = await producer.send_soon(Message("AioSoon", b"last"), queue=queue)
        offsets = [r.queue_offset for r in results]
        assert offsets == list(range(offsets[0], offsets[0] + 20))
        assert (await last).queue_offset == offsets[-1] + 1

    run(test)
