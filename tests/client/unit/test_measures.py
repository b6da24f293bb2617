"""What clients measure: labels within a limit, and messages that never were consumed."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyrmq import ClientError, ClientMetrics
from pyrmq.client import telemetry
from pyrmq.client.measures import AWAIT_TIME, MAX_WAITING, Fold, Measures
from pyrmq.client.telemetry import ClientInfo, Operation, Work
from pyrmq.model.record import received

CLIENT = ClientInfo("g", "", "id", True)


def message(offset: int, topic: str = "T") -> Any:
    found = received(
        topic=topic, body=b"b", queue_id=0, flag=0, sys_flag=0, born_timestamp=0, born_host="",
        store_timestamp=0, store_host="", reconsume_times=0, properties={},
    )  # fmt: skip
    found.queue_offset = offset
    return found


def send(topic: str) -> Operation:
    return Operation(Work.SEND, CLIENT, topic, [object()], seconds=0.003)


def values(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == name
    }


def test_topics_are_folded() -> None:
    fold = Fold(2)
    assert [fold.topic("x", topic, "g") for topic in "abca"] == ["a", "b", "_other", "a"]
    assert fold.topic("x", "a", "another group") == "_other"


def test_prometheus() -> None:
    metrics = ClientMetrics(max_series=2)
    try:
        registry = CollectorRegistry()
        registry.register(metrics)
        assert metrics._measures in telemetry._installed
        for topic in ("a", "b", "c", "d", "a"):
            metrics._measures.end(send(topic))
        counts = values(registry, "rocketmq_send_cost_time_count")
        assert counts == {
            ("a", "id", "success"): 2,
            ("b", "id", "success"): 1,
            ("_other", "id", "success"): 2,
        }
        buckets = values(registry, "rocketmq_send_cost_time_bucket")
        assert {labels: n for labels, n in buckets.items() if "a" in labels} == {
            ("a", "id", "success", le): n
            for le, n in zip(
                ("1.0", "5.0", "10.0", "20.0", "50.0", "200.0", "500.0", "+Inf"),
                (0, 2, 2, 2, 2, 2, 2, 2),
                strict=True,
            )
        }
        assert values(registry, "rocketmq_send_cost_time_sum")["a", "id", "success"] == 6
    finally:
        metrics.close()
    assert metrics._measures not in telemetry._installed


@pytest.mark.parametrize("most", [0, True, "many", 10**9])
def test_bad_limits(most: Any) -> None:
    with pytest.raises(ClientError, match="max_series"):
        ClientMetrics(max_series=most)
    assert telemetry._installed == ()


def test_messages_that_nobody_consumed_are_forgotten() -> None:
    waited: list[tuple[str, ...]] = []
    measures = Measures(
        lambda histogram, labels, value: waited.append(labels) if histogram is AWAIT_TIME else None
    )
    first = message(0)
    measures.arrived(CLIENT, [first], True)
    measures.arrived(CLIENT, [message(n) for n in range(1, MAX_WAITING)], True)
    assert len(measures._arrived) == MAX_WAITING
    measures.begin(Operation(Work.PROCESS, CLIENT, "T", [first]))
    assert waited == [("T", "g", "id")]
    measures.arrived(CLIENT, [message(n) for n in range(MAX_WAITING, MAX_WAITING + 9)], True)
    assert len(measures._arrived) == MAX_WAITING
    measures.begin(Operation(Work.PROCESS, CLIENT, "T", [message(1)]))
    assert len(waited) == 1


def test_clients_that_are_gone_are_forgotten() -> None:
    measures = Measures(lambda histogram, labels, value: None)
    client = ClientInfo("g", "", "id", True, cached=lambda: [("T", 2, 20), ("T", 1, 5)])
    measures.opened(client)
    measures.opened(ClientInfo("p", "", "id", False, cached=lambda: [("T", 9, 9)]))
    assert measures.cached() == {("T", "g", "id"): (3, 25)}
    del client
    assert measures.cached() == {}
