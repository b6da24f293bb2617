"""Consumers with a namespace: `ns%name` for brokers, the plain name for users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq import Configured, ConsumeFrom, LitePullConsumer, MessageModel, ReceivedMessage
from pyrmq.client import PushConsumer
from pyrmq.errors import UnusableNameError
from pyrmq.model.message import MessageQueue
from tests.client.members import after, client_id, consumer
from tests.support.records import encode_record
from tests.support.scripted.groups import LOCK, PULL, GroupBroker
from tests.support.scripted.streams import HEART_BEAT, StreamCluster
from tests.support.wire import Command

Q0, Q1 = (MessageQueue("T", "broker-a", n) for n in (0, 1))
DIRECTLY = 309


def registered(broker: GroupBroker) -> tuple[str, set[str]]:
    (data,) = json.loads(broker.requests(HEART_BEAT)[-1].body)["consumerDataSet"]
    return data["groupName"], {s["topic"] for s in data["subscriptionDataSet"]}


async def test_a_push_consumer(alone: GroupBroker, clock: MockClock) -> None:
    alone.put(b"x", topic="ns%T")
    alone.put(b"y", topic="%RETRY%ns%g", RETRY_TOPIC="ns%T")
    got: list[ReceivedMessage] = []

    async def listener(message: ReceivedMessage) -> None:
        got.append(message)
        raise ValueError

    async with consumer(namespace="ns", listener=listener, orderly=False) as member:
        await after(2)
        assert member.assigned == [Q0, Q1]
        assert registered(alone) == ("ns%g", {"ns%T", "%RETRY%ns%g"})
    assert {(m.topic, m.body) for m in got} == {("T", b"x"), ("T", b"y")}
    assert [(c.ext["group"], c.ext["originTopic"]) for c in alone.sent_back] == [
        ("ns%g", "ns%T")
    ] * 2
    assert {c.ext["consumerGroup"] for c in alone.requests(PULL)} == {"ns%g"}
    assert not alone.members["ns%g"], "it has left"
    assert alone.offsets["ns%g", "ns%T", 0] == alone.offsets["ns%g", "%RETRY%ns%g", 0] == 1


async def test_a_loop(alone: GroupBroker, clock: MockClock) -> None:
    for body in (b"0", b"1", b"2"):
        alone.put(body, topic="ns%T")
    async with consumer(namespace="ns") as member:
        with trio.fail_after(5):
            loop = aiter(member)
            await member.send_back(await anext(loop))
            member.acknowledge(await anext(loop))
            await anext(loop)
    assert alone.offsets["ns%g", "ns%T", 0] == 2
    assert alone.sent_back[0].ext["originTopic"] == "ns%T"


async def test_topics_that_come_and_go(alone: GroupBroker, clock: MockClock) -> None:
    async with consumer(namespace="ns") as member:
        await member.subscribe("U")
        await after(1)
        assert {q.topic for q in member.assigned} == {"T", "U"}
        assert registered(alone) == ("ns%g", {"ns%T", "ns%U", "%RETRY%ns%g"})
        await member.unsubscribe("T")
        await after(1)
        assert {q.topic for q in member.assigned} == {"U"}


async def test_in_order_and_as_configured(alone: GroupBroker, clock: MockClock) -> None:
    async def listener(message: ReceivedMessage) -> None: ...

    options: Any = {"strategy": Configured([Q1]), "orderly": True, "listener": listener}
    async with consumer(namespace="ns", **options) as member:
        await after(2)
        assert member.assigned == [Q1]
    locked = json.loads(alone.requests(LOCK)[0].body)
    assert locked["consumerGroup"] == "ns%g"
    assert {q["topic"] for c in alone.requests(LOCK) for q in json.loads(c.body)["mqSet"]} <= {
        "ns%T", "%RETRY%ns%g",
    }  # fmt: skip


async def test_broadcasting(alone: GroupBroker, tmp_path: Path, clock: MockClock) -> None:
    model: Any = {"message_model": MessageModel.BROADCASTING, "offset_folder": tmp_path}
    alone.put(b"x", topic="ns%T")
    async with consumer(namespace="ns", **model) as member:
        member.acknowledge(await anext(aiter(member)))
    file = tmp_path / client_id(member) / "ns%g" / "offsets.json"
    assert '"topic":"ns%T"' in file.read_text().replace(" ", "")


async def test_a_message_that_an_operator_chose(alone: GroupBroker, clock: MockClock) -> None:
    got: list[str] = []

    async def listener(message: ReceivedMessage) -> None:
        got.append(message.topic)

    async with consumer(namespace="ns", listener=listener) as member:
        await after(1)
        record = alone.put(b"x", topic="ns%U")
        ext = {"consumerGroup": "ns%g", "clientId": client_id(member), "brokerName": "broker-a"}
        await alone.connections[0].send(Command(DIRECTLY, ext, encode_record(record), opaque=9))
        await after(1)
    assert got == ["U"]


async def test_a_lite_pull_consumer(alone: GroupBroker, clock: MockClock) -> None:
    for _ in range(3):
        alone.put(b"x", topic="ns%T")
    options: Any = {"namesrv": StreamCluster.namesrv, "consume_from": ConsumeFrom.FIRST_OFFSET}
    async with LitePullConsumer("g", {"T": "*"}, namespace="ns", **options) as member:
        assert {m.topic for m in await member.poll()} == {"T"}
        assert member.assigned == await member.queues("T") == [Q0, Q1]
        await member.commit()
        assert await member.committed(Q0) == 3
        await member.commit({Q0: 2})
        member.pause([Q0])
        member.resume([Q0])
        await member.seek(Q0, 1)
        assert [m.queue_offset for m in await member.poll()] == [1, 2]
        await member.seek_to_begin(Q0)
        assert len(await member.poll()) == 3
        await member.seek_to_end(Q0)
        assert await member.offset_for_timestamp(Q0, 0) == 0
        await member.subscribe("U")
        await after(1)
        assert {q.topic for q in member.assigned} == {"T", "U"}
        assert registered(alone) == ("ns%g", {"ns%T", "ns%U"})
    async with LitePullConsumer("h", namespace="ns", **options) as member:
        member.assign([Q0])
        assert len(await member.poll()) == 3
        assert member.assigned == [Q0]


def test_names_that_get_too_long() -> None:
    for kind in (PushConsumer, LitePullConsumer):
        for group, topic in (("g" * 250, "T"), ("g", "T" * 120)):
            with pytest.raises(UnusableNameError):
                kind(group, {topic: "*"}, namesrv="127.0.0.1:1", namespace="namespace")
