"""OpenMessaging in plain code and on trio, with a real broker. (Its example and the programs of
docs/oms.md: tests/docs.)"""

from __future__ import annotations

import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import Queue
from typing import Any

import pytest
import trio

import pyrmq.testing
from pyrmq import oms
from pyrmq.errors import ClientError, ConnectError, RequestTimeoutError
from pyrmq.oms import BytesMessage, Context, Header
from pyrmq.oms.sync import MessagingAccessPoint, PullConsumer, PushConsumer
from pyrmq.server import Running
from tests.support.waiting import eventually

SECONDS = 20.0
GONE = (ConnectError, RequestTimeoutError)


def point(server: Running, namespace: str = "default:default") -> MessagingAccessPoint:
    return MessagingAccessPoint(f"oms:rocketmq://{server.namesrv}/{namespace}")


def receive(consumer: PullConsumer) -> BytesMessage:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        message = consumer.receive(timeout=0.5)
        if message is not None:
            return message
    raise AssertionError("no message came")


def test_sending_and_pulling(server: Running) -> None:
    """With startup and shutdown, as OpenMessaging's samples do."""
    access_point = point(server)
    access_point.startup()
    producer = access_point.create_producer()
    producer.startup()
    message = producer.create_bytes_message(
        "Pulled",
        b"sync",
        user_headers={"region": "eu", "n": 5, "TAGS": "TagA"},
        sys_headers={Header.SEARCH_KEYS: "k1 k2", Header.STREAM_KEY: "s"},
    )
    sent = producer.send(message, timeout=SECONDS)
    other = producer.create_bytes_message("Pulled", b"async")
    future = producer.send_async(other, timeout=SECONDS)
    producer.send_oneway(producer.create_bytes_message("Pulled", b"one-way"))
    assert future.result(SECONDS).message_id
    producer.shutdown()
    producer.shutdown()

    consumer = point(server).create_pull_consumer({"CONSUMER_ID": "pullers"})
    consumer.attach_queue("Pulled")
    consumer.startup()
    got = {m.body: m for m in (receive(consumer) for _ in range(3))}
    for m in got.values():
        assert m.message_id is not None
        consumer.ack(m.message_id)
    consumer.shutdown()
    access_point.shutdown()
    assert set(got) == {b"sync", b"async", b"one-way"}
    first = got[b"sync"]
    assert first.message_id == sent.message_id
    assert first.user_headers.get_int("n") == 5
    assert dict(first.user_headers) == {"region": "eu", "n": "5", "TAGS": "TagA"}
    assert first.sys_headers[Header.SEARCH_KEYS] == "k1 k2"
    assert first.sys_headers[Header.STREAM_KEY] == "s"
    assert abs(first.sys_headers.get_int(Header.STORE_TIMESTAMP) / 1000 - time.time()) < 300

    with point(server).create_pull_consumer({"CONSUMER_ID": "pullers"}) as consumer:
        consumer.attach_queue("Pulled")
        assert consumer.receive(timeout=0.5) is None, "all is acknowledged"


def test_pushing(server: Running) -> None:
    """To listeners in threads; one may be attached, detached and suspended while it runs."""
    got: Queue[bytes] = Queue()

    def listener(message: BytesMessage, context: Context) -> None:
        got.put(message.body)
        context.ack()

    with (
        point(server).create_producer() as producer,
        point(server).create_push_consumer({"CONSUMER_ID": "pushed"}) as consumer,
    ):
        producer.send(producer.create_bytes_message("Pushed", b"1"))
        consumer.attach_queue("Pushed", listener)
        assert got.get(timeout=SECONDS) == b"1"
        consumer.suspend()
        assert consumer.is_suspended()
        producer.send(producer.create_bytes_message("Pushed", b"2"))
        time.sleep(0.2)
        assert got.empty()
        consumer.resume()
        assert got.get(timeout=SECONDS) == b"2"
        consumer.detach_queue("Pushed")
        producer.send(producer.create_bytes_message("Pushed", b"3"))
        time.sleep(0.2)
        assert got.empty()
        consumer.attach_queue("Pushed", listener)
        # The one before may come again: it was detached while its listener had it.
        eventually(lambda: got.get(timeout=SECONDS), "3", until=lambda body: body == b"3")
        assert consumer.attributes["CONSUMER_ID"] == "pushed"


def test_namespaces_are_apart(server: Running) -> None:
    for namespace in ("one", "two"):
        with point(server, namespace).create_producer() as producer:
            message = producer.create_bytes_message("Apart", namespace.encode())
            producer.send(message, timeout=SECONDS)
    for namespace in ("one", "two"):
        with point(server, namespace).create_pull_consumer({"CONSUMER_ID": "g"}) as consumer:
            consumer.attach_queue("Apart")
            message = receive(consumer)
            assert (message.queue, message.body) == ("Apart", namespace.encode())
            assert consumer.receive(timeout=0.2) is None
    with pyrmq.sync.PushConsumer(
        "plain",
        {"one%Apart": "*"},
        namesrv=server.namesrv,
        consume_from=pyrmq.ConsumeFrom.FIRST_OFFSET,
    ) as plain:
        assert next(iter(plain)).body == b"one"


def test_leaving_waits_for_futures(server: Running) -> None:
    """Callbacks run in the background thread, where a call that blocks says so."""
    called: Queue[Any] = Queue()

    def callback(future: Future[oms.SendResult]) -> None:
        try:
            called.put(producer.send(producer.create_bytes_message("Futures", b"x")))
        except ClientError as e:
            called.put(e)

    with point(server).create_producer() as producer:
        futures = [
            producer.send_async(producer.create_bytes_message("Futures", b"%d" % n))
            for n in range(20)
        ]
        futures[0].add_done_callback(callback)
    assert all(f.done() and f.result().message_id for f in futures)
    outcome = called.get(timeout=SECONDS)
    assert "blocking call" in str(outcome) or isinstance(outcome, oms.SendResult), "done before"


def test_shutting_down_in_several_threads(server: Running) -> None:
    """The thread that all clients share is given up once."""
    producer, other = point(server).create_producer(), point(server).create_producer()
    with other:
        producer.startup()
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(producer.shutdown) for _ in range(8)]:
                done.result(SECONDS)
        assert other.send(other.create_bytes_message("T", b"x")).message_id


def test_misuse(server: Running) -> None:
    producer = point(server).create_producer()
    message = producer.create_bytes_message("T", b"x")
    for _ in range(2):
        for send in (producer.send, producer.send_async, producer.send_oneway):
            with pytest.raises(ClientError, match="inside of its `with`"):
                send(message)  # type: ignore[operator]
        producer.shutdown()
    with producer:
        with pytest.raises(oms.OMSNotSupportedError):
            producer.send_async(
                producer.create_bytes_message("T", b"x", sys_headers={Header.RELIABILITY: 1})
            )
        with pytest.raises(oms.OMSMessageFormatError):
            producer.send_async(producer.create_bytes_message("T", b"")).result(SECONDS)
    with pytest.raises(ClientError, match="once only"):
        producer.startup()

    consumer: PushConsumer = point(server).create_push_consumer({"CONSUMER_ID": "g"})

    async def listener(message: BytesMessage, context: Context) -> None: ...

    for wrong, text in ((listener, "must be a plain function"), (5, "a function of a message")):
        with pytest.raises(ClientError, match=text):
            consumer.attach_queue("T", wrong)  # type: ignore[arg-type]
    with pytest.raises(ClientError, match="'T' is not attached"):
        consumer.detach_queue("T")
    consumer.attach_queue("T", print)
    consumer.detach_queue("T")
    with consumer:
        pass
    with pytest.raises(ClientError, match="not connected"):
        consumer.attach_queue("T", print)
    with pytest.raises(ClientError, match="not connected"):
        consumer.suspend()


def test_nobody_is_there() -> None:
    """A name server that is gone: an error in time for a producer, quiet for a consumer."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"oms:rocketmq://127.0.0.1:{held.getsockname()[1]}/default"
        shared = {"OPERATION_TIMEOUT": 300, "CONSUMER_ID": "g"}
        nowhere = MessagingAccessPoint(url, shared)
        with nowhere.create_producer() as producer, pytest.raises(GONE):
            producer.send(producer.create_bytes_message("T", b"x"))
        with nowhere.create_pull_consumer() as consumer:
            consumer.attach_queue("T")
            assert consumer.receive() is None


def test_a_broker_that_goes_away() -> None:
    with ExitStack() as stack:
        with pyrmq.testing.broker() as server:
            access_point = point(server)
            producer = stack.enter_context(access_point.create_producer({"OPERATION_TIMEOUT": 300}))
            consumer = access_point.create_pull_consumer({"CONSUMER_ID": "g"})
            consumer.attach_queue("T")
            stack.enter_context(consumer)
            producer.send(producer.create_bytes_message("T", b"x"), timeout=SECONDS)
            message = receive(consumer)
        with pytest.raises(oms.OMSRuntimeError):
            producer.send(producer.create_bytes_message("T", b"y"))
        future = producer.send_async(producer.create_bytes_message("T", b"z"))
        assert isinstance(future.exception(SECONDS), ClientError)
        consumer.ack(message)
        assert consumer.receive(timeout=0.2) is None


async def test_on_trio(server: Running) -> None:
    got: list[BytesMessage] = []
    arrived = trio.Event()

    async def on_received(message: BytesMessage, context: Context) -> None:
        got.append(message)
        context.ack()
        arrived.set()

    access_point = oms.MessagingAccessPoint(f"openmessaging:rocketmq://{server.namesrv}/default")
    with trio.fail_after(SECONDS):
        async with (
            access_point.create_producer() as producer,
            access_point.create_push_consumer({"CONSUMER_ID": "on-trio"}) as consumer,
        ):
            message = producer.create_bytes_message("Trio", b"x", user_headers={"n": 1.5})
            result = await (await producer.send_async(message))
            await consumer.attach_queue("Trio", on_received)
            await arrived.wait()
    assert [m.message_id for m in got] == [result.message_id]
    assert got[0].user_headers.get_float("n") == 1.5
