"""Attempts to send: how long each takes, where the next one goes, what the user gets."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyrmq import (
    CompressionType,
    ConnectError,
    Message,
    MessageIllegalError,
    MessageQueue,
    NoPermissionError,
    Producer,
    RequestTimeoutError,
    SendStatus,
    SystemBusyError,
    TopicNotExistError,
)
from pyrmq.client.producer import outgoing
from pyrmq.model.compression import decompress
from tests.support.scripted.script import HANG_UP, SILENCE, Change, times
from tests.support.scripted.streams import (
    ROUTE,
    SEND,
    StreamBroker,
    StreamCluster,
    sent_properties,
    stored,
)

BOTH = ("broker-a", "broker-b")


def producer(**options: Any) -> Producer:
    return Producer("pg", namesrv=StreamCluster.namesrv, **options)


def sends(cluster: StreamCluster) -> dict[str, int]:
    return {name: len(cluster[name].requests(SEND)) for name in BOTH}


def every(cluster: StreamCluster, change: Change) -> None:
    for name in BOTH:
        cluster[name].change[SEND] = change


async def test_a_silent_broker_costs_one_attempt(cluster: StreamCluster, clock: MockClock) -> None:
    """Its connection is given up; the message goes to the other one, and so on."""
    async with producer() as sender:
        await sender.send(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 0))
        await trio.sleep(1)  # what came on this connection came before
        cluster["broker-a"].change[SEND] = lambda c: SILENCE
        began = trio.current_time()
        results = [await sender.send(Message("T", b"x")) for _ in range(4)]
        taken = trio.current_time() - began
    assert {r.queue.broker_name for r in results} == {"broker-b"}
    silent = sends(cluster)["broker-a"] - 1
    assert 0 < silent <= 2
    assert taken == pytest.approx(silent * 1.0), "a third of the whole time each"
    assert len(cluster["broker-a"].connections) == silent, "each on a new connection"


async def test_a_host_that_answers_nothing_costs_one_attempt(
    cluster: StreamCluster,
    monkeypatch: pytest.MonkeyPatch,
    clock: MockClock,
) -> None:
    connect = cluster.connect

    async def hang(host: str, port: int) -> Any:
        if host == "broker-a":
            await trio.sleep_forever()
        return await connect(host, port)

    monkeypatch.setattr(trio, "open_tcp_stream", hang)
    async with producer(attempt_timeout=0.4) as sender:
        for _ in range(2):
            began = trio.current_time()
            result = await sender.send(Message("T", b"x"))
            assert result.queue.broker_name == "broker-b"
            assert trio.current_time() - began < 0.5


async def test_a_send_without_time_costs_nobody_the_connection(
    cluster: StreamCluster, clock: MockClock
) -> None:
    every(cluster, lambda c: SILENCE)
    async with producer(retry_times=0) as sender, trio.open_nursery() as nursery:
        (queue, *_) = await sender.queues("T")
        result: list[object] = []

        async def send() -> None:
            result.append(await sender.send(Message("T", b"x"), queue=queue))

        nursery.start_soon(send)
        await trio.sleep(1)
        with pytest.raises(RequestTimeoutError):
            await sender.send(Message("T", b"y"), queue=queue, timeout=0.01)
        broker = cluster[queue.broker_name]
        (connection,) = broker.connections
        await connection.send(stored(broker.requests(SEND)[0]))
    assert len(result) == 1


async def test_nobody_answers(cluster: StreamCluster, clock: MockClock) -> None:
    every(cluster, lambda c: SILENCE)
    async with producer() as sender:
        began = trio.current_time()
        text = r"message to T not acknowledged in 3 s \(brokers tried: broker-[ab], broker-[ab]\)"
        with pytest.raises(RequestTimeoutError, match=text):
            await sender.send(Message("T", b"x"))
        assert trio.current_time() - began == pytest.approx(3)
        with pytest.raises(RequestTimeoutError, match=r"in 0\.5 s"):
            await sender.send(Message("T", b"x"), timeout=0.5)
        assert trio.current_time() - began == pytest.approx(3.5)
    assert sum(sends(cluster).values()) == 6


async def test_brokers_that_are_gone(cluster: StreamCluster, clock: MockClock) -> None:
    every(cluster, lambda c: HANG_UP)
    async with producer() as sender:
        with pytest.raises(ConnectError, match="is gone") as caught:
            await sender.send(Message("T", b"x"))
    (note,) = caught.value.__notes__
    assert note.startswith("attempts: 3, brokers tried: broker-")
    assert sum(sends(cluster).values()) == 3
    assert min(sends(cluster).values()) == 1, "never the same one twice in a row"


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
async def test_codes_that_another_broker_may_not_give(
    cluster: StreamCluster, code: int, clock: MockClock
) -> None:
    change = times(1, lambda c: c.reply(code))
    every(cluster, change)
    async with producer() as sender:
        assert (await sender.send(Message("T", b"x"))).status is SendStatus.SEND_OK
    assert sends(cluster) == {"broker-a": 1, "broker-b": 1}


async def test_codes_that_settle_it(cluster: StreamCluster, clock: MockClock) -> None:
    every(cluster, lambda c: c.reply(13))
    async with producer() as sender:
        with pytest.raises(MessageIllegalError):
            await sender.send(Message("T", b"x"))
    assert sum(sends(cluster).values()) == 1
    every(cluster, lambda c: c.reply(2))
    async with producer(retry_codes=()) as sender:
        with pytest.raises(SystemBusyError):
            await sender.send(Message("T", b"x"))
    assert sum(sends(cluster).values()) == 2


@pytest.mark.parametrize("again", [False, True])
async def test_stored_but_not_safely(cluster: StreamCluster, again: bool, clock: MockClock) -> None:
    every(cluster, times(1, lambda c: stored(c, 12)))
    async with producer(retry_another_broker_when_not_store_ok=again) as sender:
        result = await sender.send(Message("T", b"x"))
        assert result.status is (SendStatus.SEND_OK if again else SendStatus.FLUSH_SLAVE_TIMEOUT)
        every(cluster, times(1, lambda c: stored(c, 10)))
        only = MessageQueue("T", "broker-a", 0)
        result = await sender.send(Message("T", b"x"), queue=only)
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT


@pytest.mark.parametrize(("code", "asked"), [(2, 3), (13, 2)], ids=["failure", "refusal"])
async def test_what_is_stored_is_not_lost_by_what_comes_after_it(
    cluster: StreamCluster, clock: MockClock, code: int, asked: int
) -> None:
    answers = itertools.count()
    every(cluster, lambda c: stored(c, 11) if next(answers) == 0 else c.reply(code))
    async with producer(retry_another_broker_when_not_store_ok=True) as sender:
        result = await sender.send(Message("T", b"x"))
    assert result.status is SendStatus.SLAVE_NOT_AVAILABLE
    assert next(answers) == asked


async def test_a_route_that_cannot_be_read_keeps_no_other_from_being_refreshed(
    cluster: StreamCluster, clock: MockClock
) -> None:
    async with producer() as sender:
        topics = [f"T{n}" for n in range(8)]
        for topic in topics:
            await sender.queues(topic)
        cluster.asked.clear()
        cluster.change[ROUTE] = lambda c: c.reply(0, {}, b"nonsense")
        await trio.sleep(35)
        assert {c.ext["topic"] for c in cluster.asked if c.code == ROUTE} == set(topics)


async def test_a_name_server_that_hangs_leaves_time_for_the_next_attempt(
    cluster: StreamCluster,
    clock: MockClock,
) -> None:
    every(cluster, times(1, lambda c: c.reply(17)))
    async with producer() as sender:
        await sender.queues("T")
        cluster.change[ROUTE] = lambda c: SILENCE
        await sender.send(Message("T", b"x"))


async def test_many_senders_of_a_new_topic_ask_once(
    cluster: StreamCluster,
    clock: MockClock,
) -> None:
    cluster.missing.add("T")
    async with producer() as sender:
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(sender.send, Message("T", b"x"))
        assert [c.ext["topic"] for c in cluster.asked] == ["T", "TBW102"]
        cluster.missing.clear()
        await trio.sleep(0.1)
        await sender.send(Message("T", b"x"))
        await sender.send(Message("T", b"x"))
        assert [c.ext["topic"] for c in cluster.asked] == ["T", "TBW102", "T"]


async def test_a_new_topic_whose_broker_registers_again(
    cluster: StreamCluster,
    clock: MockClock,
) -> None:
    """Name server and broker are started anew together: for a moment nobody has routes."""
    cluster.missing.add("T")
    async with producer() as sender:
        await sender.send(Message("T", b"x"))
        cluster.missing.add("TBW102")
        cluster.change[ROUTE] = lambda c: c.reply(1)
        await trio.sleep(1)
        with pytest.raises(ConnectError, match="no name server answered"):
            await sender.send(Message("T", b"x"))
        del cluster.change[ROUTE]
        for _ in range(2):
            await trio.sleep(1)
            await sender.send(Message("T", b"x"))
        cluster.missing.clear()
        await trio.sleep(1)
        await sender.send(Message("T", b"x"))
        assert cluster.asked[-1].ext["topic"] == "T"


async def test_a_refusal_of_the_name_server_is_not_asked_for_again(
    cluster: StreamCluster,
    clock: MockClock,
) -> None:
    cluster.change[ROUTE] = lambda c: c.reply(16)
    async with producer() as sender:
        with pytest.raises(NoPermissionError, match="CODE 16: name server names:9876"):
            await sender.send(Message("T", b"x"))
    assert len(cluster.asked) == 1


async def test_busy_brokers_make_no_work_for_name_servers(
    cluster: StreamCluster,
    clock: MockClock,
) -> None:
    async with producer() as sender:
        await sender.queues("T")
        asked = len(cluster.asked)
        every(cluster, lambda c: c.reply(2))
        with pytest.raises(SystemBusyError):
            await sender.send(Message("T", b"x"))
        assert len(cluster.asked) == asked
        every(cluster, lambda c: HANG_UP)
        with pytest.raises(ConnectError):
            await sender.send(Message("T", b"x"))
        assert len(cluster.asked) > asked


async def test_a_large_body_has_time_to_leave(cluster: StreamCluster, clock: MockClock) -> None:
    every(cluster, lambda c: SILENCE)
    async with producer(compress_over=1 << 30) as sender:
        for size, attempts in ((100, 3), (2 << 20, 2), (4 << 20, 1)):
            before = sum(sends(cluster).values())
            with pytest.raises(RequestTimeoutError, match="in 3 s"):
                await sender.send(Message("T", bytes(size)))
            assert sum(sends(cluster).values()) - before == attempts


async def test_latency_faults(cluster: StreamCluster, clock: MockClock) -> None:
    """A broker that failed gets nothing for ten seconds, then its part again."""
    cluster["broker-a"].change[SEND] = times(1, lambda c: SILENCE)
    async with producer(send_latency_fault=True) as sender:
        while not sends(cluster)["broker-a"]:
            await sender.send(Message("T", b"x"))
        for _ in range(8):
            result = await sender.send(Message("T", b"x"))
            assert result.queue.broker_name == "broker-b"
        await trio.sleep(10)
        for _ in range(4):
            await sender.send(Message("T", b"x"))
    assert sends(cluster)["broker-a"] == 3


async def test_sharding_key(cluster: StreamCluster, clock: MockClock) -> None:
    async with producer() as sender:
        for n in range(8):
            result = await sender.send(Message("T", b"%d" % n), sharding_key="order-1")
            assert (result.queue.broker_name, result.queue.queue_id) == ("broker-b", 0)
    for request in cluster["broker-b"].requests(SEND):
        assert sent_properties(request)["__SHARDINGKEY"] == "order-1"


async def test_a_namespace(cluster: StreamCluster, broker: StreamBroker, clock: MockClock) -> None:
    seen: list[str] = []

    def select(queues: list[MessageQueue]) -> MessageQueue:
        seen.extend(q.topic for q in queues)
        return queues[1]

    async with producer(namespace="ns") as sender:
        queues = await sender.queues("T")
        assert queues[0] == MessageQueue("T", "broker-a", 0)
        results = [
            await sender.send(Message("T", b"x"), queue=queues[1]),
            await sender.send(Message("T", b"x"), select=select),
        ]
        assert sender.group == "pg"
    assert {r.queue for r in results} == {queues[1]}
    assert set(seen) == {"T"}
    for sent in broker.requests(SEND):
        assert (sent.ext["a"], sent.ext["b"]) == ("ns%pg", "ns%T")
        assert sent_properties(sent)["INSTANCE_ID"] == "ns"
    assert {r.ext["producerGroup"] for r in broker.requests(35)} == {"ns%pg"}


# What waits for answers.


async def test_messages_in_flight(cluster: StreamCluster, clock: MockClock) -> None:
    every(cluster, lambda c: SILENCE)
    async with producer(max_in_flight=3, send_timeout=5, retry_times=0) as sender:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(sender.send, Message("T", b"x"))
            await trio.sleep(1)
            assert sum(sends(cluster).values()) == 3
            with pytest.raises(RequestTimeoutError, match=r"not sent: .* in flight for 0\.5 s"):
                await sender.send(Message("T", b"x"), timeout=0.5)
            nursery.cancel_scope.cancel()
        every(cluster, lambda c: None)
        await sender.send(Message("T", b"x"))


async def test_bytes_in_flight(cluster: StreamCluster, clock: MockClock) -> None:
    every(cluster, lambda c: SILENCE)
    async with producer(max_in_flight_bytes=100, retry_times=0) as sender:
        async with trio.open_nursery() as nursery:
            for size in (60, 60, 10):
                nursery.start_soon(sender.send, Message("T", bytes(size)))
                await trio.testing.wait_all_tasks_blocked()
            assert sum(sends(cluster).values()) == 1, "nobody overtakes"
            nursery.cancel_scope.cancel()
        every(cluster, lambda c: None)
        await sender.send(Message("T", bytes(500)))  # alone, whatever its size


# Compression.


@pytest.mark.parametrize("kind", CompressionType)
async def test_compression_types(
    broker: StreamBroker, kind: CompressionType, clock: MockClock
) -> None:
    body = b"grow " * 1000
    async with producer(compress_type=kind, compress_level=3) as sender:
        await sender.send(Message("T", body), queue=MessageQueue("T", "broker-a", 0))
    (sent,) = broker.requests(SEND)
    flag = int(sent.ext["f"])
    assert flag == kind.value | 1
    assert len(sent.body) < 200
    assert decompress(sent.body, flag) == body


async def test_large_bodies_are_compressed_in_threads(
    broker: StreamBroker,
    monkeypatch: pytest.MonkeyPatch,
    clock: MockClock,
) -> None:
    threads: list[int] = []

    def compress(raw: bytes, kind: CompressionType, level: int) -> bytes:
        threads.append(threading.get_ident())
        return b"packed"

    monkeypatch.setattr(outgoing, "compress", compress)
    async with producer(send_timeout=1e9) as sender:
        for size in (5000, 1 << 20):
            await sender.send(Message("T", bytes(size)))
    here = threading.get_ident()
    assert threads[0] == here, "a small one costs less than a thread"
    assert threads[1] != here


async def test_topics_that_are_missing(cluster: StreamCluster, clock: MockClock) -> None:
    cluster.missing |= {"T", "TBW102"}
    async with producer() as sender:
        with pytest.raises(TopicNotExistError, match="create the topic, or let the broker"):
            await sender.send(Message("T", b"x"))
