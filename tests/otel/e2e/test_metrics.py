"""Metrics by OpenTelemetry's API."""

from __future__ import annotations

from typing import Any

import pytest

import pyrmq.otel
from pyrmq import (
    ConsumeFrom,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RequestTimeoutError,
)
from pyrmq.server import Running
from tests.otel.spans import Recorded
from tests.support.fixtures import Serve
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")
FIRST = ConsumeFrom.FIRST_OFFSET


def points(recorded: Recorded, name: str) -> list[tuple[dict[str, Any], float]]:
    found = recorded.metrics().get(name, [])
    return [
        (dict(point.attributes), getattr(point, "count", None) or point.value) for point in found
    ]


async def test_sends_and_listeners(serve: Serve, recorded: Recorded) -> None:
    seen: list[ReceivedMessage] = []

    async def listener(message: ReceivedMessage) -> None:
        seen.append(message)
        if len(seen) == 1:
            raise LookupError("once")

    async with serve() as server:
        async with Producer("p", namesrv=server.namesrv) as producer:
            await producer.send(Message("T", b"1"))
            await producer.send_batch([Message("T", b"2"), Message("T", b"3")])
            with pytest.raises(RequestTimeoutError):
                await producer.send(Message("Late", b"4"), timeout=1e-9)
        async with PushConsumer(
            "g", {"T": "*"}, namesrv=server.namesrv, consume_from=FIRST, listener=listener
        ) as consumer:
            await eventually_trio(lambda: len(seen) == 3, "all have come")
            client_id = consumer._client.client_id
            host, port = server.broker_address
            waiting = points(recorded, "rocketmq_consumer_cached_messages")
    send = {"messaging.system": "rocketmq", "messaging.operation.name": "send"}
    send |= {"messaging.operation.type": "send"}
    to_t = send | {
        "messaging.destination.name": "T",
        "server.address": host,
        "server.port": port,
    }
    assert (to_t, 3) in points(recorded, "messaging.client.sent.messages")
    assert (to_t, 2) in points(recorded, "messaging.client.operation.duration")
    ((failed, count),) = [
        point
        for point in points(recorded, "messaging.client.operation.duration")
        if "error.type" in point[0]
    ]
    assert (failed["messaging.destination.name"], count) == ("Late", 1)
    assert failed["error.type"] == "RequestTimeoutError"
    process = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "g",
        "messaging.destination.name": "T",
        "server.address": host,
        "server.port": port,
    }
    assert points(recorded, "messaging.client.consumed.messages") == [(process, 3)]
    durations = points(recorded, "messaging.process.duration")
    assert (process, 2) in durations
    assert (process | {"error.type": "LookupError"}, 1) in durations
    labels = {"topic": "T", "consumer_group": "g", "client_id": client_id}
    assert points(recorded, "rocketmq_await_time") == [(labels, 3)]
    ((said, answers),) = points(recorded, "rocketmq_delivery_latency")
    assert said == labels
    assert 1 <= answers <= 3
    times = points(recorded, "rocketmq_process_time")
    assert (labels | {"invocation_status": "success"}, 2) in times
    assert (labels | {"invocation_status": "failure"}, 1) in times
    costs = {
        (labels["topic"], labels["invocation_status"]): count
        for labels, count in points(recorded, "rocketmq_send_cost_time")
    }
    assert costs == {("T", "success"): 3, ("Late", "failure"): 1}
    assert labels in [said for said, _ in waiting]
    (point, *_) = recorded.metrics()["messaging.process.duration"]
    assert list(point.explicit_bounds)[:3] == [0.005, 0.01, 0.025]
    (point, *_) = recorded.metrics()["rocketmq_await_time"]
    assert list(point.explicit_bounds) == [1, 5, 20, 100, 1000, 5000, 10_000]


async def test_what_waits_and_polls(embedded: Running, recorded: Recorded) -> None:
    async with Producer("p", namesrv=embedded.namesrv) as producer:
        await producer.send_batch([Message("T", b"12345"), Message("T", b"67890")])
    async with LitePullConsumer(
        "g", {"T": "*"}, namesrv=embedded.namesrv, consume_from=FIRST
    ) as consumer:

        def waiting(name: str) -> float:
            found = points(recorded, f"rocketmq_consumer_cached_{name}")
            return sum(count for _, count in found)

        await eventually_trio(lambda: waiting("messages") == 2, "two messages wait")
        assert waiting("bytes") == 10
        while waiting("messages"):
            await consumer.poll(0.1)
    ((said, count),) = points(recorded, "messaging.client.consumed.messages")
    assert (said["messaging.operation.name"], count) == ("receive", 2)
    pyrmq.otel.uninstrument()
    assert points(recorded, "rocketmq_consumer_cached_messages") == []
