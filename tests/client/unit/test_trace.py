"""What is recorded of messages, and how the records leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import pytest
import trio
from trio.testing import MockClock

from pyrmq import (
    ConnectError,
    Message,
    MessageIllegalError,
    MessageQueue,
    Producer,
    ReceivedMessage,
    SendResult,
    SendStatus,
)
from pyrmq.client.trace.records import ConsumeCode
from pyrmq.client.trace.tracer import (
    MAX_AGE,
    MAX_CHARACTERS,
    WAITING,
    Tracer,
)
from pyrmq.model.names import TRACE_TOPIC
from tests.client.listeners import COMMIT, Async
from tests.client.unit.transactional import producer as transactional
from tests.support import build
from tests.support.scripted.script import times
from tests.support.scripted.streams import (
    PHYSICAL_OFFSET,
    SEND,
    StreamBroker,
    StreamCluster,
    record,
    sent_properties,
    stored,
)
from tests.support.wire import Command

QUEUE = MessageQueue("T", "broker-a", 0)


def producer(**options: Any) -> Producer:
    return Producer("pg", namesrv=StreamCluster.namesrv, trace=True, **options)


def traces(cluster: StreamCluster, topic: str = TRACE_TOPIC) -> list[Command]:
    brokers = cluster.brokers.values()
    return [c for b in brokers for c in b.requests(SEND) if c.ext["b"] == topic]


def fields(commands: Sequence[Command]) -> list[list[str]]:
    """The fields of all records."""
    texts = [c.body.decode().split("\x02") for c in commands]
    assert all(parts[-1] == "" for parts in texts)
    return [text.split("\x01") for parts in texts for text in parts[:-1]]


def sends_of(broker: StreamBroker, topic: str) -> list[Command]:
    return [c for c in broker.requests(SEND) if c.ext["b"] == topic]


async def test_a_send(cluster: StreamCluster, broker: StreamBroker, clock: MockClock) -> None:
    message = Message("T", b"body", tags="TagA", keys=["k1", "k2"])
    async with producer() as sender:
        result = await sender.send(message, queue=QUEUE)
        await sender.send(Message("T", b"x", delay_time_level=1), queue=QUEUE)
        assert not traces(cluster), "later"
    trace = traces(cluster)
    first, second = fields(trace)
    ((kind, time, *found), offset_id) = first, result.offset_msg_id
    assert (kind, len(time)) == ("Pub", 13)
    assert found == [
        "DefaultRegion", "pg", "T", result.msg_id, "TagA", "k1 k2", "broker-a:10911", "4", "0", "0",
        offset_id, "true",
    ]  # fmt: skip
    assert offset_id.endswith(f"{PHYSICAL_OFFSET:016X}")
    assert second[6:8] == ["null", "null"]
    assert second[11] == "3", "delayed"
    keys = sent_properties(trace[0])["KEYS"].split()
    assert keys == [result.msg_id, "k1", "k2", second[5]]
    assert trace[0].ext["a"].startswith("_INNER_TRACE_PRODUCER-pg-PRODUCE-")


async def test_what_is_not_traced(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    broker.change[SEND] = times(3, lambda c: stored(c, TRACE_ON="false"))
    async with producer() as sender:
        await sender.send(Message("T", b"x"), queue=QUEUE)
        await sender.send_oneway(Message("T", b"x"), queue=QUEUE)
        await sender.send(Message(TRACE_TOPIC, b"x"), queue=replace(QUEUE, topic=TRACE_TOPIC))
        broker.change[SEND] = times(1, lambda c: c.reply(13))
        with pytest.raises(MessageIllegalError):
            await sender.send(Message("T", b"x"), queue=QUEUE)
    assert [c.body for c in traces(cluster)] == [b"x"]
    async with Producer("pg", namesrv=cluster.namesrv) as plain:
        await plain.send(Message("T", b"x"))
        assert plain._tracer is None


async def test_a_check(cluster: StreamCluster, broker: StreamBroker, clock: MockClock) -> None:
    async with transactional(Async(lambda: COMMIT), trace=True):
        asked = record(PGROUP="pg", REAL_TOPIC="T", UNIQ_KEY="KEY", KEYS="k")
        await broker.ask(asked, tranStateTableOffset=1, commitLogOffset=2)
        await broker.next_end()
    (end,) = fields(traces(cluster))
    assert [end[0], *end[4:]] == [
        "EndTransaction", "T", "KEY", "null", "k", "broker-a:10911", "2", "KEY", "COMMIT_MESSAGE",
        "true",
    ]  # fmt: skip


async def test_regions_and_namespaces(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    broker.change[SEND] = times(1, lambda c: stored(c, MSG_REGION="north"))
    async with producer(namespace="ns", trace_topic="Traces") as sender:
        await sender.send(Message("T", b"x"), queue=QUEUE)
    (found,) = fields(traces(cluster, "Traces"))
    assert found[2:5] == ["north", "pg", "T"]


async def test_a_transaction(
    cluster: StreamCluster, broker: StreamBroker, clock: MockClock
) -> None:
    async with transactional(Async(lambda: COMMIT), trace=True) as sender:
        result = await sender.send_in_transaction(Message("T", b"x", tags="t"), queue=QUEUE)
        await broker.next_end()
    pub, end = fields(traces(cluster))
    assert (pub[0], pub[11]) == ("Pub", "1")
    assert [end[0], *end[2:]] == [
        "EndTransaction", "DefaultRegion", "pg", "T", result.msg_id, "t", "null", "broker-a:10911",
        "2", result.msg_id, "COMMIT_MESSAGE", "false",
    ]  # fmt: skip


class Sender:
    """Takes trace messages."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.failure: Exception | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def send(self, message: Message) -> SendResult:
        if self.failure is not None:
            raise self.failure
        self.sent.append(message)
        return SendResult(SendStatus.SEND_OK, "", "", QUEUE, 0)

    def records(self) -> list[list[str]]:
        return [r.split("\x01") for m in self.sent for r in m.body.decode().split("\x02")[:-1]]


def received(n: int, topic: str = "T", **properties: str) -> ReceivedMessage:
    text = {"UNIQ_KEY": f"id{n}", "MSG_REGION": "R", "TRACE_ON": "true", **properties}
    return replace(build.received(n), properties=text, topic=topic, reconsume_times=n)


async def test_consuming(clock: MockClock) -> None:
    sender = Sender()
    async with Tracer(sender, "cg") as tracer:
        consuming = tracer.consuming([received(1, KEYS="k"), received(2)])
        assert consuming is not None
        await trio.sleep(0.3)
        tracer.consumed(consuming, ConsumeCode.EXCEPTION)
        for untraced in (received(3, TRACE_ON="false"), received(3, MSG_REGION="")):
            untraced.properties = {n: v for n, v in untraced.properties.items() if v}
            assert tracer.consuming([untraced]) is None
        tracer.consumed(None, ConsumeCode.SUCCESS)
    request = consuming.request_id
    before, after = sender.records()[:2], sender.records()[2:]
    assert [[*r[:1], *r[2:]] for r in before] == [
        ["SubBefore", "R", "cg", request, "id1", "1", "k"],
        ["SubBefore", "R", "cg", request, "id2", "2", "null"],
    ]
    assert [[*r[:7], *r[8:]] for r in after] == [
        ["SubAfter", request, "id1", "150", "false", "k", "2", "cg"],
        ["SubAfter", request, "id2", "150", "false", "null", "2", "cg"],
    ]
    assert sender.sent[0].keys == ["id1", "k", "id2"]
    assert sender.sent[0].topic == TRACE_TOPIC


async def test_when_records_leave(clock: MockClock) -> None:
    sender = Sender()
    async with Tracer(sender, "cg") as tracer:
        for n in range(9):
            tracer.consuming([received(n)])
        await trio.sleep(MAX_AGE - 0.1)
        assert not sender.sent
        await trio.sleep(0.2)
        assert len(sender.records()) == 9
        for n in range(10):
            tracer.consuming([received(n)])
        await trio.sleep(0.1)
        assert len(sender.records()) == 19
        tracer.consuming([received(0, "T"), received(1, "T")])
        tracer.consuming([received(0, "U")])
    assert len(sender.sent) == 4, "one message for each topic"


async def test_bounds(clock: MockClock) -> None:
    sender = Sender()
    async with Tracer(sender, "cg") as tracer:
        for n in range(WAITING + 5):
            tracer.consuming([received(n, KEYS="k" * 200)])
        assert tracer.discarded == 5
    assert len(sender.records()) == WAITING
    assert len(sender.sent) > 1
    for message in sender.sent:
        assert len(message.body) <= MAX_CHARACTERS
        assert len(" ".join(message.keys or ())) <= 30_000


async def test_failures_stay_inside(clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    sender = Sender()
    sender.failure = ConnectError("gone")
    async with Tracer(sender, "cg") as tracer:
        tracer.consuming([received(1)])
    assert tracer.failed == 1
    assert "trace of group cg not sent: gone" in caplog.text


async def test_what_would_end_a_field(clock: MockClock) -> None:
    sender = Sender()
    async with Tracer(sender, "cg") as tracer:
        tracer.consuming([received(1, UNIQ_KEY="a\x01b\x02c")])
    ((*_, key, _retries, _keys),) = sender.records()
    assert key == "abc"
