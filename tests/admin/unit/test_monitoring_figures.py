"""What figures are made of: offsets of queues, and what members say of themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrmq.admin.connections import SubscribedTo
from pyrmq.admin.consume_stats import QueueProgress
from pyrmq.admin.monitoring.alarms import Sample
from pyrmq.admin.monitoring.asked_once import QueueEnd
from pyrmq.admin.monitoring.groups import add_delays, moved, undone
from pyrmq.admin.monitoring.rounds import Round
from pyrmq.admin.monitoring.running import figures
from pyrmq.admin.monitoring.settings import Settings
from pyrmq.admin.running_info import HeldQueue, Rates, RunningInfo
from pyrmq.model.message import MessageQueue

NOW = 10_000_000
QUEUE = MessageQueue("T", "b", 0)
HELD = HeldQueue(QUEUE, 0, 0, 0, 5, 0, 0, 0, 0, True, 0, NOW, False, NOW, NOW)


def row(queue_id: int, end: int, consumed: int, last: int = 0, topic: str = "T") -> QueueProgress:
    return QueueProgress(MessageQueue(topic, "b", queue_id), end, consumed, consumed, last)


def test_lag_is_the_sum_of_what_waits_and_the_queue_with_most() -> None:
    found = undone([row(0, 10, 4), row(1, 10, 2), row(2, 3, 9), row(0, 1, 1, topic="U")])
    assert {name: (t.total, t.most) for name, t in found.items()} == {"T": (14, 8), "U": (0, 0)}
    assert found["T"].queue == MessageQueue("T", "b", 1)
    assert found["U"].queue is None


def test_delay_is_of_the_queue_where_it_is_most_and_something_waits() -> None:
    rows = [
        row(0, 10, 4, last=1000), row(1, 10, 4, last=3000), row(2, 9, 9, last=1),
        row(3, 9, 1, last=0), row(4, 9, 1, last=1), row(5, 9, 1, last=90_000),
    ]  # fmt: skip
    found = undone(rows)
    ends = {MessageQueue("T", "b", n): QueueEnd(10, 61_000) for n in range(6) if n != 4}
    add_delays(found, rows, ends)
    assert found["T"].delay == 60
    assert found["T"].late == MessageQueue("T", "b", 0)


def info(client: str, *held: HeldQueue, topics: str = "T", **properties: str) -> RunningInfo:
    return RunningInfo(
        client,
        {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "1",
         **properties},
        [SubscribedTo(topic, "*") for topic in topics],
        list(held), [], [Rates("T", 0, 0, 0, 0, 0.5, 7)], {}, None,
    )  # fmt: skip


def asked(*infos: RunningInfo, partial: bool = False) -> dict[str, Sample]:
    found: dict[str, Sample] = {}

    def take(sample: Sample) -> None:
        found[sample.subject.metric] = sample

    round_ = Round(1, Settings(), take)
    figures("g", {i.client_id: i for i in infos}, NOW, round_, partial=partial)
    return found


def test_members_that_are_well() -> None:
    found = asked(info("a", HELD), info("b", replace(HELD, last_pull=0)))
    assert {name: s.value for name, s in found.items()} == {
        "blocked_queues": 0, "pull_stalled": 0, "subscriptions": 0, "failed_tps": 1,
        "failed_hour": 14,
    }  # fmt: skip
    assert found["failed_hour"].subject.topic == "T"
    assert all(s.detail == "" and not s.partial for s in found.values())


@pytest.mark.parametrize(
    ("member", "metric", "detail"),
    [
        (
            info("a", replace(HELD, last_consume=NOW - 60_001)),
            "blocked_queues", "T b 0 of a: can't consume for a while, maybe blocked, 60001ms",
        ),
        (
            info("a", replace(HELD, locked=False, last_lock=NOW - 9), PROP_CONSUMEORDERLY="true"),
            "blocked_queues", "T b 0 of a: can't lock for a while, 9ms",
        ),
        (
            info("a", replace(HELD, last_pull=NOW - 120_001)),
            "pull_stalled", "T b 0 of a: no pull for 120001ms",
        ),
        (info("b", topics="U"), "subscriptions", "a: T *; b: U *"),
    ],
    ids=["blocked", "not locked", "stalled", "subscriptions"],
)  # fmt: skip
def test_members_that_are_not(member: RunningInfo, metric: str, detail: str) -> None:
    others = [info("a")] if member.client_id == "b" else []
    found = asked(*others, member, partial=True)
    assert (found[metric].value, found[metric].detail, found[metric].partial) == (1, detail, True)
    wrong = [name for name, s in found.items() if not name.startswith("failed") and s.value]
    assert wrong == [metric]


def test_pull_consumers_hold_no_queues_that_count() -> None:
    found = asked(
        info("a", replace(HELD, last_pull=1, last_consume=1), PROP_CONSUME_TYPE="CONSUME_ACTIVELY")
    )
    assert (found["blocked_queues"].value, found["pull_stalled"].value) == (0, 0)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"consumerGroup": 1}'], ids=repr)
def test_what_is_no_event(body: bytes) -> None:
    class Received:
        pass

    message = Received()
    message.body = body  # type: ignore[attr-defined]
    assert moved(message)[1] == ""  # type: ignore[arg-type]
