"""What a producer sends for timer messages, priorities and recalls, and what the answers become."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from trio.testing import MockClock

from pyrmq import (
    ClientError,
    IllegalOperationError,
    InvalidParameterError,
    Message,
    MessageIllegalError,
    MessageQueue,
    NoPermissionError,
    NotSentError,
    Producer,
    RequestTimeoutError,
    ResponseError,
    ServiceNotAvailableError,
    TopicNotExistError,
)
from pyrmq.model.codes import V5_0_0
from pyrmq.model.names import TRACE_TOPIC
from pyrmq.model.recall import RecallHandle
from tests.support.scripted.script import SILENCE, times
from tests.support.scripted.streams import (
    HEART_BEAT,
    SEND,
    StreamBroker,
    StreamCluster,
    sent_properties,
    stored,
)

RECALL = 370
BATCH = 320
HANDLE = RecallHandle("T", "broker-b", 1_900_000_000_001, "KEY")
QUEUE = MessageQueue("T", "broker-a", 0)


def producer(**options: Any) -> Producer:
    return Producer("pg", namesrv=StreamCluster.namesrv, **options)


def timers(broker: StreamBroker) -> list[dict[str, str]]:
    """The properties of each send that have to do with time and priority."""
    return [
        {n: v for n, v in sent_properties(c).items() if n.startswith(("TIMER", "DELAY", "_SYS"))}
        for c in broker.requests(SEND)
    ]


@pytest.mark.parametrize(
    ("fields", "property", "value"),
    [
        ({"delay": 1}, "TIMER_DELAY_MS", "1000"),
        ({"delay": 0.25}, "TIMER_DELAY_MS", "250"),
        ({"delay": timedelta(days=2, milliseconds=1)}, "TIMER_DELAY_MS", "172800001"),
        ({"deliver_at": 1_900_000_000.5}, "TIMER_DELIVER_MS", "1900000000500"),
        ({"deliver_at": datetime(2030, 1, 1, tzinfo=UTC)}, "TIMER_DELIVER_MS", "1893456000000"),
        (
            {"deliver_at": datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))},
            "TIMER_DELIVER_MS",
            "1893456000000",
        ),
        ({"delay_time_level": 3}, "DELAY", "3"),
        ({"priority": 0}, "_SYS_MSG_PRIORITY_", "0"),
        ({"priority": 7}, "_SYS_MSG_PRIORITY_", "7"),
    ],
)
async def test_what_is_sent(
    cluster: StreamCluster,
    broker: StreamBroker,
    clock: MockClock,
    fields: dict[str, Any],
    property: str,
    value: str,
) -> None:
    """In each of the ways to send, never in a batch."""
    message = Message("T", b"x", **fields)
    del cluster.brokers["broker-b"]
    async with producer(auto_batch=True) as sender:
        await sender.send(message)
        await sender.send(message, timeout=3)
        await sender.send_oneway(message)
        await (await sender.send_soon(message))
    assert timers(broker) == [{property: value}] * 4
    assert not broker.requests(BATCH)


@pytest.mark.parametrize("way", ["send", "oneway", "soon"])
async def test_a_broker_older_than_timers_gets_none(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock, way: str
) -> None:
    """It would deliver them at once. Levels it knows."""
    del cluster.brokers["broker-b"]
    broker.change[HEART_BEAT] = lambda c: replace(c.reply(0), version=V5_0_0 - 1)
    timer = Message("T", b"x", delay=10)

    async def send_it(sender: Producer) -> None:
        if way == "send":
            await sender.send(timer)
        elif way == "oneway":
            await sender.send_oneway(timer)
        else:
            await (await sender.send_soon(timer))

    async with producer(auto_batch=True) as sender:
        with pytest.raises(NotSentError, match=r"older than RocketMQ 5\.0.*delay_time_level"):
            await send_it(sender)
        assert not broker.requests(SEND)
        await sender.send(Message("T", b"x", delay_time_level=3))
        await sender.send(Message("T", b"x", delay=0), timeout=3)
    assert timers(broker) == [{"DELAY": "3"}, {}]


@pytest.mark.parametrize("answer", ["a later version", "no version", "refused"])
async def test_other_brokers_get_timers(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock, answer: str
) -> None:
    """One that refuses heartbeats does not say how old it is."""
    del cluster.brokers["broker-b"]
    code, version = {"a later version": (0, V5_0_0), "no version": (0, 0), "refused": (16, 400)}[
        answer
    ]
    broker.change[HEART_BEAT] = lambda c: replace(c.reply(code), version=version)
    async with producer() as sender:
        await sender.send(Message("T", b"x", delay=10))
    assert timers(broker) == [{"TIMER_DELAY_MS": "10000"}]


async def test_a_delay_of_nothing_is_none(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    async with producer() as sender:
        await sender.send(Message("T", b"x", delay=0), queue=QUEUE)
    assert timers(broker) == [{}]


async def test_a_priority_chooses_the_queue(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    message = Message("T", b"x", priority=1)
    async with producer(auto_batch=True) as sender:
        for choice in (
            {"queue": QUEUE},
            {"select": lambda queues: queues[0]},
            {"sharding_key": "k"},
        ):
            with pytest.raises(ClientError, match="the priority chooses the queue"):
                await sender.send(message, **choice)
        with pytest.raises(ClientError, match="the priority chooses the queue"):
            await sender.send_oneway(message, queue=QUEUE)
        with pytest.raises(ClientError, match="the priority chooses the queue"):
            await sender.send_soon(message, queue=QUEUE)
        assert not broker.requests(SEND)
        del cluster.brokers["broker-b"]
        broker.change[SEND] = lambda c: stored(c, queueId="1")
        result = await sender.send(message)
    assert result.queue == MessageQueue("T", "broker-a", 1)


async def test_the_handle_is_in_the_result(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    broker.change[SEND] = lambda c: stored(c, recallHandle="HANDLE")
    message = Message("T", b"x", delay=3)
    async with producer(auto_batch=True) as sender:
        sent = await sender.send(message, queue=QUEUE)
        soon = await (await sender.send_soon(message, queue=QUEUE))
        broker.change[SEND] = lambda c: stored(c)
        plain = await sender.send(Message("T", b"x"), queue=QUEUE, timeout=3)
    assert (sent.recall_handle, soon.recall_handle) == ("HANDLE", "HANDLE")
    assert plain.recall_handle is None


async def test_a_recall_goes_to_the_broker_of_the_handle(
    cluster: StreamCluster, clock: MockClock
) -> None:
    cluster["broker-b"].change[RECALL] = lambda c: c.reply(0, {"msgId": "KEY"})
    async with producer() as sender:
        assert await sender.recall("T", HANDLE.encode()) == "KEY"
    (request,) = cluster["broker-b"].requests(RECALL)
    assert not cluster["broker-a"].requests(RECALL)
    assert request.ext == {
        "producerGroup": "pg",
        "topic": "T",
        "recallHandle": HANDLE.encode(),
        "bname": "broker-b",
    }


async def test_a_recall_in_a_namespace(cluster: StreamCluster, clock: MockClock) -> None:
    handle = RecallHandle("ns%T", "broker-b", 1_900_000_000_001, "KEY").encode()
    async with producer(namespace="ns") as sender:
        with pytest.raises(NotSentError, match="of topic T, not ns%T"):
            await sender.recall("T", HANDLE.encode())
        assert await sender.recall("T", handle) == "KEY"
    (request,) = cluster["broker-b"].requests(RECALL)
    assert (request.ext["topic"], request.ext["producerGroup"]) == ("ns%T", "ns%pg")


@pytest.mark.parametrize(
    ("topic", "handle", "twin", "words"),
    [
        ("T", "", IllegalOperationError, "recall handle is invalid"),
        ("T", "not base64!", IllegalOperationError, "recall handle is invalid"),
        ("U", HANDLE.encode(), IllegalOperationError, "is of topic T, not U"),
        ("%RETRY%pg", HANDLE.encode(), InvalidParameterError, "have no handle"),
        ("%DLQ%pg", HANDLE.encode(), InvalidParameterError, "have no handle"),
        ("bad topic", HANDLE.encode(), InvalidParameterError, "bad topic"),
    ],
)
async def test_what_is_no_handle(
    cluster: StreamCluster,
    clock: MockClock,
    topic: str,
    handle: str,
    twin: type[ResponseError],
    words: str,
) -> None:
    async with producer() as sender:
        with pytest.raises(twin, match=words) as caught:
            await sender.recall(topic, handle)
        with pytest.raises(ClientError, match="the recall handle is NoneType"):
            await sender.recall("T", None)  # type: ignore[arg-type]
    assert isinstance(caught.value, NotSentError)
    assert (caught.value.code, caught.value.answered) == (None, False)
    assert not cluster["broker-b"].requests()


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (16, NoPermissionError, "recallMessageEnable=true"),
        (604, IllegalOperationError, "its time is over"),
        (17, TopicNotExistError, "CODE 17: no"),
        (14, ServiceNotAvailableError, "CODE 14: no"),
        (13, MessageIllegalError, "CODE 13: no"),
        (11, ResponseError, "CODE 11: no"),
        (1, ResponseError, "CODE 1: no"),
    ],
)
async def test_a_refused_recall(
    cluster: StreamCluster,
    clock: MockClock,
    code: int,
    error: type[ResponseError],
    words: str,
) -> None:
    cluster["broker-b"].change[RECALL] = lambda c: replace(c.reply(code), remark="no")
    async with producer() as sender:
        with pytest.raises(error, match=words) as caught:
            await sender.recall("T", HANDLE.encode())
    assert (caught.value.code, caught.value.answered) == (code, True)
    assert len(cluster["broker-b"].requests(RECALL)) == 1


async def test_a_recall_without_an_answer(cluster: StreamCluster, clock: MockClock) -> None:
    cluster["broker-b"].change[RECALL] = lambda c: SILENCE
    async with producer() as sender:
        with pytest.raises(RequestTimeoutError):
            await sender.recall("T", HANDLE.encode(), timeout=5)
        del cluster.brokers["broker-b"]
        gone = RecallHandle("T", "broker-c", 1, "KEY").encode()
        with pytest.raises(ClientError, match="broker broker-c has no master"):
            await sender.recall("T", gone)


async def test_the_trace_of_a_recall(cluster: StreamCluster, clock: MockClock) -> None:
    """One that a broker has answered with its region, refused or not, as in Java."""
    answers = cluster["broker-b"].change
    async with producer(trace=True) as sender:
        answers[RECALL] = times(1, lambda c: c.reply(0, {"msgId": "KEY", "MSG_REGION": "R"}))
        await sender.recall("T", HANDLE.encode())
        answers[RECALL] = times(1, lambda c: c.reply(604, {"MSG_REGION": "R"}))
        with pytest.raises(IllegalOperationError):
            await sender.recall("T", HANDLE.encode())
        answers[RECALL] = times(1, lambda c: c.reply(16))
        with pytest.raises(NoPermissionError):
            await sender.recall("T", HANDLE.encode())
    traced = [
        c
        for name in ("broker-a", "broker-b")
        for c in cluster[name].requests(SEND)
        if c.ext["b"] == TRACE_TOPIC
    ]
    records = [text.split("\x01") for c in traced for text in c.body.decode().split("\x02") if text]
    assert [(r[0], *r[2:]) for r in records] == [
        ("Recall", "R", "pg", "T", "KEY", "true"),
        ("Recall", "R", "pg", "T", "KEY", "false"),
    ]
    assert all(len(r[1]) == 13 for r in records)
    assert sent_properties(traced[0])["KEYS"] == "KEY"
