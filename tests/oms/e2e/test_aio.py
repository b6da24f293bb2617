"""OpenMessaging on asyncio, with a real broker."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from pyrmq import oms
from pyrmq.errors import ClientError, NotSupportedError
from pyrmq.oms import BytesMessage, Context, Header, aio
from pyrmq.oms.aio import MessagingAccessPoint, PullConsumer
from pyrmq.server import Running

SECONDS = 20.0


def point(server: Running) -> MessagingAccessPoint:
    return MessagingAccessPoint(f"oms:rocketmq://{server.namesrv}/default")


async def receive(consumer: PullConsumer) -> BytesMessage:
    async with asyncio.timeout(SECONDS):
        while (message := await consumer.receive(timeout=0.5)) is None:
            pass
    return message


def test_sending_and_pulling(server: Running) -> None:
    async def main() -> None:
        producer = point(server).create_producer()
        await producer.startup()
        message = producer.create_bytes_message("AioPulled", b"sync", user_headers={"n": 5})
        sent = await producer.send(message, timeout=SECONDS)
        other = producer.create_bytes_message("AioPulled", b"async")
        future = await producer.send_async(other, timeout=SECONDS)
        assert (await future).message_id == other.message_id
        await producer.send_oneway(producer.create_bytes_message("AioPulled", b"one-way"))
        with pytest.raises(NotSupportedError):
            await producer.send_async(
                producer.create_bytes_message("T", b"x", sys_headers={Header.RELIABILITY: 1})
            )
        await asyncio.gather(producer.shutdown(), producer.shutdown())
        with pytest.raises(ClientError, match="not connected"):
            await producer.send(message)
        async with point(server).create_pull_consumer({"CONSUMER_ID": "aio-pull"}) as consumer:
            await consumer.attach_queue("AioPulled")
            got = {m.body: m for m in [await receive(consumer) for _ in range(3)]}
            assert set(got) == {b"sync", b"async", b"one-way"}
            assert got[b"sync"].message_id == sent.message_id
            assert got[b"sync"].user_headers.get_int("n") == 5
            for m in got.values():
                await consumer.ack(m)
            with pytest.raises(ClientError, match="not open"):
                await consumer.ack(got[b"sync"])

    asyncio.run(main())


def test_listeners(server: Running) -> None:
    """Async ones run in the loop, plain ones do not; what fails comes again."""
    seen: list[tuple[str, bytes, bool]] = []

    def in_loop() -> bool:
        try:
            return asyncio.get_running_loop() is not None
        except RuntimeError:
            return False

    async def on_async(message: BytesMessage, context: Context) -> None:
        await asyncio.sleep(0)
        seen.append(("async", message.body, in_loop()))
        context.ack()

    def on_plain(message: BytesMessage, context: Context) -> None:
        seen.append(("plain", message.body, in_loop()))
        context.ack()

    async def main() -> None:
        async with (
            point(server).create_producer() as producer,
            point(server).create_pull_consumer({"CONSUMER_ID": "aio-first"}) as first,
        ):
            for queue in ("AioOne", "AioTwo"):
                await producer.send(producer.create_bytes_message(queue, b"first"))
                await first.attach_queue(queue)
                await first.ack(await receive(first))  # the topics are there
            consumer = point(server).create_push_consumer({"CONSUMER_ID": "aio-push"})
            await consumer.attach_queue("AioOne", on_async)
            async with consumer:
                await consumer.attach_queue("AioTwo", on_plain)
                assert not await consumer.is_suspended()
                await consumer.suspend()
                assert await consumer.is_suspended()
                await consumer.resume()
                async with asyncio.timeout(SECONDS):
                    while {kind for kind, _, _ in seen} != {"async", "plain"}:
                        for queue in ("AioOne", "AioTwo"):
                            await producer.send(producer.create_bytes_message(queue, b"x"))
                        await asyncio.sleep(0.1)
                await consumer.detach_queue("AioOne")
                with pytest.raises(ClientError, match="not attached"):
                    await consumer.detach_queue("AioOne")

    asyncio.run(main())
    assert {(kind, where) for kind, _, where in seen} == {("async", True), ("plain", False)}


@pytest.mark.parametrize("name", ["Producer", "PushConsumer", "PullConsumer"])
def test_names_are_those_for_trio(name: str) -> None:
    def public(kind: Any) -> set[str]:
        return {n for n, _ in inspect.getmembers(kind) if not n.startswith("_")}

    missing = public(getattr(oms, name)) - public(getattr(aio, name))
    assert missing <= {"attach_first", "detach_first"}


def test_a_client_for_trio_says_which_one_to_use(server: Running) -> None:
    async def main() -> None:
        access_point = oms.MessagingAccessPoint(f"oms:rocketmq://{server.namesrv}/default")
        with pytest.raises(ClientError, match=r"use pyrmq\.oms\.aio"):
            async with access_point.create_producer():
                pass

    asyncio.run(main())
