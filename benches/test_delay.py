"""Delayed messages: delivering what is due beside sending it, and the look for what is due with
many waiting beside a look where one waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benches.stores import PROPERTIES, Frame, Producer, single_frame
from pyrmq.engine import Delays
from pyrmq.model.properties import encode_properties

DUE = 50_000
WAITING = 1_000_000
BODY = 100
FEED = 50
"""Sends in one feed."""
LEVEL = 3
LATER = 3_600_000
"""ms from now, when everything that waits here is due."""
BATCH = 4096
"""As the broker asks for."""


def frame(properties: str) -> Frame:
    return Frame(single_frame("T0", 0, BODY, properties) * FEED)


PLAIN = frame(PROPERTIES)
DELAYED = frame(PROPERTIES + encode_properties({"DELAY": str(LEVEL)}))


def send(producer: Producer, what: Frame, count: int) -> None:
    for _ in range(count // FEED):
        producer.feed(what)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.benchmark(group=f"delayed messages, {DUE:,} due at once")
def test_deliver(folder: Path, paired, report) -> None:
    """What is due was written just before: it is in memory."""
    producer = Producer(folder / "store", topics=1, index_enable=False)
    delays = Delays(producer.store.native)

    def waiting() -> int:
        given, end = delays.levels()[LEVEL - 1]
        return end - given

    def park() -> None:
        send(producer, DELAYED, DUE - waiting())
        producer.wait_prepared()

    def deliver() -> None:
        while waiting():
            assert delays.deliver(now_ms() + LATER, BATCH) > 0

    result = paired(deliver, lambda: send(producer, PLAIN, DUE), rounds=5, before=park)
    report(f"{result.speed:.2f} of the messages a second of plain sends, {FEED} in a feed")
    producer.close()


@pytest.mark.benchmark(group=f"delayed messages, {WAITING:,} wait")
def test_due_in(folder: Path, paired, report) -> None:
    """The broker's loop asks ten times a second and more."""
    made = [Producer(folder / name, topics=1, index_enable=False) for name in ("one", "many")]
    looks: list[Callable[[], None]] = []
    for producer, count in zip(made, (FEED, WAITING), strict=True):
        send(producer, DELAYED, count)
        delays = Delays(producer.store.native)
        assert delays.levels()[LEVEL - 1] == (0, count)
        assert delays.deliver(now_ms(), BATCH) == 0
        looks.append(_look(delays))
    few, many = looks
    result = paired(many, few, rounds=50)
    report(f"{result.speed:.2f} of the speed with {FEED} that wait", "about 1")
    for producer in made:
        producer.close()


def _look(delays: Delays) -> Callable[[], None]:
    now = now_ms()

    def look() -> None:
        for _ in range(1000):
            due = delays.due_in(now)
        assert due

    return look
