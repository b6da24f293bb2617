"""Pops, timers, recalls and priorities with the Java client, and timers of the Go client.

PYRMQ_INTEROP_PEER=1 runs all of it against Apache RocketMQ's broker, with the same result.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.waiting import eventually
from tests.support.wire import Command

from . import toolchain
from .drivers import Driver, Line, body
from .pop.asking import now_ms
from .pop.requests import POP, SET_MESSAGE_REQUEST_MODE, make_group, make_topic, pop
from .pop.servers import Broker, broker
from .txn import use_peer

NOT_YET = False
"""Our broker has not all of it."""
pytestmark = pytest.mark.skipif(
    NOT_YET and not use_peer(), reason="this broker has no pops and timers yet"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    whose = "apache" if use_peer() else "pyrmq"
    folder = tmp_path_factory.mktemp("pop")
    with broker(whose, folder, autoCreateSubscriptionGroup="true") as started:
        yield started


@pytest.fixture
def wire(served: Broker) -> Iterator[Client]:
    with Client(served.address) as client:
        yield client


@pytest.fixture
def java(served: Broker) -> Driver:
    return served.driver(f"java-{toolchain.NEWEST}")


def numbers(lines: list[Line]) -> Counter[int]:
    """How often each message came."""
    return Counter(int(line["properties"]["index"]) for line in lines)


def popping(wire: Client, topic: str, group: str, queues: int = 4) -> None:
    """A topic and a group whose consumers pop."""
    make_topic(wire, topic, queues)
    make_group(wire, group)
    mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
    answer = wire.call(SET_MESSAGE_REQUEST_MODE, json.dumps(mode).encode())
    assert answer.code == 0, answer.remark


def nothing_left(wire: Client, topic: str, group: str) -> None:
    """The group has everything. (What waits to become visible again is not seen.)"""
    fields = pop(topic, group, queueId=-1, maxMsgNums=32)
    answer = wire.request(Command(POP, {name: str(value) for name, value in fields.items()}))
    assert answer.code == 210, answer


class TestPush:
    def test_each_once(self, java: Driver, wire: Client, topic: str, group: str) -> None:
        popping(wire, topic, group)
        java.run("produce", topic=topic, group="P-" + group, count=60)
        report = java.run("consume-pop", topic=topic, group=group, count=60, threads=4)
        assert numbers(report.received) == dict.fromkeys(range(60), 1)
        assert {line["topic"] for line in report.received} == {topic}
        nothing_left(wire, topic, group)

    def test_two_consumers_share(self, java: Driver, wire: Client, topic: str, group: str) -> None:
        popping(wire, topic, group)
        with (
            java.start(
                "consume-pop", topic=topic, group=group, stay=1, instance="one", pops=2, work=5
            ) as one,
            java.start(
                "consume-pop", topic=topic, group=group, stay=1, instance="two", pops=2, work=5
            ) as two,
        ):
            java.run("produce", topic=topic, group="P-" + group, count=200)
            eventually(
                lambda: len(one.report.received) + len(two.report.received),
                "all have come",
                until=lambda count: count >= 200,
            )
            both = one.report.received + two.report.received
        assert numbers(both) == dict.fromkeys(range(200), 1)

    def test_failed_ones_come_again(
        self, java: Driver, wire: Client, topic: str, group: str
    ) -> None:
        """The client makes them visible again in 10 s: it comes with a higher count."""
        popping(wire, topic, group)
        java.run("produce", topic=topic, group="P-" + group, count=4)
        report = java.run("consume-pop", topic=topic, group=group, count=4, deliveries=8, fail=1)
        by_message = defaultdict(list)
        for line in report.received:
            by_message[line["properties"]["index"]].append(line["reconsumeTimes"])
        assert by_message == {str(number): [0, 1] for number in range(4)}

    def test_in_order(self, java: Driver, wire: Client, topic: str, group: str) -> None:
        popping(wire, topic, group)
        java.run("produce-orderly", topic=topic, group="P-" + group, count=60, keys=6)
        report = java.run("consume-pop-orderly", topic=topic, group=group, count=60)
        steps = defaultdict(list)
        for line in report.received:
            steps[line["properties"]["order"]].append(int(line["properties"]["step"]))
        assert steps == {f"order-{key}": list(range(10)) for key in range(6)}


class TestSimple:
    @pytest.mark.parametrize("batch", [0, 1], ids=["acks", "batches of acks"])
    def test_pop_and_ack(
        self, java: Driver, wire: Client, topic: str, group: str, batch: int
    ) -> None:
        popping(wire, topic, group)
        java.run("produce", topic=topic, group="P-" + group, count=40)
        report = java.run("pop", topic=topic, group=group, count=40, batch=batch)
        assert numbers(report.received) == dict.fromkeys(range(40), 1)
        assert {line["status"] for line in report.of("acked")} == {"OK"}
        nothing_left(wire, topic, group)

    def test_given_back_ones_come_again(
        self, java: Driver, wire: Client, topic: str, group: str
    ) -> None:
        popping(wire, topic, group)
        java.run("produce", topic=topic, group="P-" + group, count=6)
        report = java.run("pop", topic=topic, group=group, count=6, fail=2, each=3, nack=1000)
        assert numbers(report.received) == {0: 3, 1: 1, 2: 1, 3: 3, 4: 1, 5: 1}
        zero = [line for line in report.received if line["properties"]["index"] == "0"]
        assert [line["reconsumeTimes"] for line in zero] == [0, 1, 2]
        assert all(body(line) == body(zero[0]) for line in zero)
        assert {line["status"] for line in report.of("changed")} == {"OK"}

    def test_lapsed_ones_come_again(
        self, java: Driver, wire: Client, topic: str, group: str
    ) -> None:
        popping(wire, topic, group, queues=1)
        java.run("produce", topic=topic, group="P-" + group, count=3)
        report = java.run("pop", topic=topic, group=group, count=3, fail=1, each=2, invisible=3000)
        assert numbers(report.received) == {0: 2, 1: 1, 2: 2}
        nothing_left(wire, topic, group)

    def test_in_order(self, java: Driver, wire: Client, topic: str, group: str) -> None:
        popping(wire, topic, group, queues=2)
        java.run("produce-orderly", topic=topic, group="P-" + group, count=24, keys=4)
        report = java.run("pop", topic=topic, group=group, count=24, fifo=1, pops=3)
        steps = defaultdict(list)
        for line in report.received:
            steps[line["properties"]["order"]].append(int(line["properties"]["step"]))
        assert steps == {f"order-{key}": list(range(6)) for key in range(4)}


class TestTimers:
    def test_none_is_early_and_each_comes_once(
        self, java: Driver, wire: Client, topic: str, group: str
    ) -> None:
        make_topic(wire, topic)
        plan = "a:ms=2500;b:sec=4;c:in=1500;d:plain;e:ms=0;f:in=-1000;g:level=1"
        sent = java.run("produce-timers", topic=topic, group="P-" + group, plan=plan).sent
        report = java.run("consume", topic=topic, group=group, count=7)
        came = {line["keys"]: line for line in report.received}
        assert Counter(line["keys"] for line in report.received) == dict.fromkeys("abcdefg", 1)
        for line in sent:
            late = came[line["name"]]["receivedAt"] - line["due"]
            assert line["name"] == "g" or late >= 0, line
            assert bool(line["handle"]) == (line["name"] in "abc"), line
        assert came["a"]["properties"]["REAL_TOPIC"] == topic

    def test_recalled_ones_never_come(
        self, java: Driver, wire: Client, topic: str, group: str
    ) -> None:
        make_topic(wire, topic)
        plan = "a:sec=4,recall;b:sec=4;c:sec=4,twice;d:sec=5"
        report = java.run("produce-timers", topic=topic, group="P-" + group, plan=plan)
        ids = {line["name"]: line["msgId"] for line in report.sent}
        recalled = report.of("recalled")
        assert [line["name"] for line in recalled] == ["a", "c", "c"]
        assert all(line["msgId"] == ids[line["name"]] for line in recalled), recalled
        received = java.run("consume", topic=topic, group=group, count=2).received
        assert {line["keys"] for line in received} == {"b", "d"}
        eventually(lambda: wire.max_offset(topic, 0), "all are there", until=lambda end: end == 2)

    def test_go(self, served: Broker, wire: Client, topic: str, group: str) -> None:
        """Its client has no call for it, but it takes any property."""
        make_topic(wire, topic)
        go = served.driver("go")
        before = now_ms()
        go.run("produce", topic=topic, group="P-" + group, count=3, timer=2000)
        report = go.run("consume", topic=topic, group=group, count=3)
        assert numbers(report.received) == dict.fromkeys(range(3), 1)
        out = [int(line["properties"]["TIMER_OUT_MS"]) for line in report.received]
        assert min(out) >= before + 1000


def test_priorities(java: Driver, wire: Client, topic: str, group: str) -> None:
    """The higher ones are popped first, whatever queue the client had chosen for them."""
    make_topic(wire, topic, 4, message_type="PRIORITY")
    make_group(wire, group)
    wanted = [0, 3, 1, 2, 9, 1]
    plan = ";".join(f"n{at}:priority={value}" for at, value in enumerate(wanted))
    sent = java.run("produce-timers", topic=topic, group="P-" + group, plan=plan).sent
    queues = [min(value, 3) for value in wanted]
    for queue in range(4):
        eventually(
            lambda: wire.max_offset(topic, queue),  # noqa: B023 - called at once
            "they are in their queues",
            until=lambda end: end == queues.count(queue),  # noqa: B023
        )
    report = java.run("pop", topic=topic, group=group, count=len(sent), pops=1)
    assert [line["queueId"] for line in report.received] == sorted(queues, reverse=True)
