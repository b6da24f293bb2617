"""What consumers record of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import ConsumeFrom, LitePullConsumer, Producer, PushConsumer, ReceivedMessage
from pyrmq.client.consumer.consume_service import ConsumeResult, ReconsumeLater
from pyrmq.errors import ClientError
from tests.client.members import after, consumer
from tests.client.unit.test_trace import fields
from tests.support.scripted.groups import GroupBroker
from tests.support.scripted.streams import SEND, StreamCluster
from tests.support.wire import Command

REGION: Any = {"MSG_REGION": "R", "TRACE_ON": "true"}


def traces(broker: GroupBroker, topic: str = "RMQ_SYS_TRACE_TOPIC") -> list[Command]:
    return [c for c in broker.requests(SEND) if c.ext["b"] == topic]


def put(broker: GroupBroker, body: bytes, **properties: str) -> None:
    broker.put(body, times=2, **{"UNIQ_KEY": body.decode(), **REGION, **properties})


async def fail(message: ReceivedMessage) -> None:
    raise ValueError


async def later(message: ReceivedMessage) -> None:
    raise ReconsumeLater


async def answer_later(message: ReceivedMessage) -> ConsumeResult:
    return ConsumeResult.RECONSUME_LATER


async def too_long(message: ReceivedMessage) -> None:
    await trio.sleep(70)


async def take_250_ms(message: ReceivedMessage) -> None:
    await trio.sleep(0.25)


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize(
    ("listener", "code", "cost"),
    [
        (take_250_ms, 0, 250),
        (fail, 2, 0),
        (later, 4, 0),
        (answer_later, 4, 0),
        (too_long, 1, 70_000),
    ],
)
async def test_a_listener(
    listener: Callable[[ReceivedMessage], Any],
    code: int,
    cost: int,
    orderly: bool,
    alone: GroupBroker,
    clock: MockClock,
) -> None:
    if orderly and listener is too_long:
        code = 0  # what is consumed in order may take as long as it takes
    put(alone, b"id", KEYS="k1 k2")
    options: Any = {"listener": listener, "orderly": orderly, "consume_timeout": 60.0}
    async with consumer(trace=True, suspend_time=30.0, close_grace=80.0, **options):
        await after(5)
    (before, end) = fields(traces(alone))[:2]
    request = before[4]
    assert [before[0], *before[2:]] == ["SubBefore", "R", "g", request, "id", "2", "k1 k2"]
    assert [end[0], *end[1:3]] == ["SubAfter", request, "id"]
    success = "false" if code else "true"
    assert end[3:] == [str(cost), success, "k1 k2", str(code), end[7], "g"]
    assert int(end[7]) >= int(before[1])


async def test_a_loop(alone: GroupBroker, clock: MockClock) -> None:
    for n in range(4):
        put(alone, b"%d" % n)
    async with consumer(trace=True) as member:
        loop = aiter(member)
        await anext(loop)
        await trio.sleep(0.1)
        second = await anext(loop)
        await member.send_back(second)
        member.acknowledge(await anext(loop))
        await anext(loop)
    records = fields(traces(alone))
    assert [r[5] for r in records if r[0] == "SubBefore"] == ["0", "1", "2", "3"]
    ends = [[r[2], r[3], r[6]] for r in records if r[0] == "SubAfter"]
    assert ends == [["0", "100", "0"], ["1", "0", "4"], ["2", "0", "0"]], "the last one is open"


async def test_polls(alone: GroupBroker, clock: MockClock) -> None:
    for n in range(12):
        put(alone, b"%d" % n)
    options: Any = {"consume_from": ConsumeFrom.FIRST_OFFSET, "trace_topic": "Traces"}
    async with LitePullConsumer(
        "g", {"T": "*"}, namesrv=StreamCluster.namesrv, trace=True, **options
    ) as member:
        assert len(await member.poll()) == 10
        await anext(aiter(member))
    records = fields(traces(alone, "Traces"))
    for kind, place in (("SubBefore", 5), ("SubAfter", 2)):
        assert [int(r[place]) for r in records if r[0] == kind] == list(range(11))


async def test_what_is_not_recorded(alone: GroupBroker, clock: MockClock) -> None:
    put(alone, b"0", TRACE_ON="false")
    alone.put(b"1")
    async with consumer(trace=True, listener=take_250_ms):
        await after(5)
    async with consumer(group="h", listener=take_250_ms):
        await after(5)
    assert not traces(alone)


@pytest.mark.parametrize("kind", [Producer, PushConsumer, LitePullConsumer])
def test_options(kind: Any) -> None:
    topics = () if kind is Producer else ({"T": "*"},)
    with pytest.raises(ClientError, match="trace_topic needs trace=True"):
        kind("g", *topics, namesrv="127.0.0.1:1", trace_topic="Traces")
    with pytest.raises(ClientError, match="illegal"):
        kind("g", *topics, namesrv="127.0.0.1:1", trace=True, trace_topic="no topic")
