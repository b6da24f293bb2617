"""The broker's statistics, on counters and a clock of the test's own."""

from __future__ import annotations

import logging
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pyrmq.broker.stats import broker_stats as module
from pyrmq.broker.stats.broker_stats import CLEANING, BrokerStats, Rates, Totals
from pyrmq.broker.stats.items import DAY, MINUTE, NOTHING, Figures

PERIOD = 10.0
CLUSTER = "C"


class World:
    def __init__(self) -> None:
        self.puts: dict[str, tuple[int, int]] = {}
        self.topics = {"T", "U", "SYS"}
        self.groups: dict[str, object] = {"G": None}
        self.granted: list[tuple[str, str, int, int, int]] = []
        self.now = 0.0
        self.day = date(2026, 11, 23)
        topics: Any = SimpleNamespace(
            get=lambda topic: topic if topic in self.topics else None,
            is_system=lambda topic: topic == "SYS",
        )
        groups: Any = SimpleNamespace(groups=self.groups)
        store: Any = SimpleNamespace(
            puts=lambda: [(t, *n) for t, n in self.puts.items()],
            figures=lambda: {"sendLatency": [0, 0, 0]},
        )
        self.stats = BrokerStats(
            CLUSTER, store, topics, groups, self._take, period=PERIOD,
            clock=lambda: self.now, today=lambda: self.day,
        )  # fmt: skip

    async def _take(self) -> None:
        while self.granted:
            self.stats.pulled(*self.granted.pop())

    def put(self, topic: str, messages: int, nbytes: int) -> None:
        before = self.puts.get(topic, (0, 0))
        self.puts[topic] = (before[0] + messages, before[1] + nbytes)

    async def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += PERIOD
            await self.stats.sample()

    def shown(self, name: str, key: str) -> Figures:
        return self.stats.figures(name, key, MINUTE)


@pytest.fixture
async def world() -> World:
    made = World()
    await made.stats.sample()
    return made


async def test_what_topics_stored(world: World) -> None:
    world.put("T", 30, 3000)
    world.put("SYS", 5, 50)
    assert not world.stats.has("TOPIC_PUT_NUMS", "T")
    await world.step()
    world.put("T", 10, 500)
    await world.step()
    assert world.shown("TOPIC_PUT_NUMS", "T") == Figures(40, 2.0, 1.0)
    assert world.shown("TOPIC_PUT_SIZE", "T") == Figures(3500, 175.0, 87.5)
    assert world.shown("BROKER_PUT_NUMS", CLUSTER) == Figures(45, 2.25, 0.0)
    assert world.shown("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER).sum == 40
    assert world.stats.put_tps("T") == 2.0
    assert world.stats.put_tps("unknown") == 0.0
    assert world.stats.totals() == Totals(put=45, put_bytes=3550, plain_put=40)


async def test_a_topic_that_is_made_anew_counts_from_zero(world: World) -> None:
    world.put("T", 30, 3000)
    world.put("U", 1, 1)
    await world.step()
    world.puts["T"] = (4, 40)
    del world.puts["U"]
    await world.step()
    world.put("U", 2, 2)
    await world.step()
    assert world.shown("TOPIC_PUT_NUMS", "T").sum == 34
    assert world.shown("TOPIC_PUT_SIZE", "T").sum == 3040
    assert world.shown("TOPIC_PUT_NUMS", "U").sum == 3


async def test_what_groups_got(world: World) -> None:
    world.stats.pulled("T", "G", 1, 32, 3200)
    world.granted.append(("T", "G", 3, 64, 6400))
    world.stats.pulled("SYS", "G", 1, 4, 40)
    world.stats.missed()
    await world.step()
    assert world.shown("GROUP_GET_NUMS", "T@G") == Figures(96, 9.6, 24.0)
    assert world.shown("GROUP_GET_SIZE", "T@G") == Figures(9600, 960.0, 2400.0)
    assert world.shown("BROKER_GET_NUMS", CLUSTER) == Figures(100, 10.0, 0.0)
    assert world.shown("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER).sum == 96
    assert world.stats.get_tps("T", "G") == 9.6
    assert world.stats.get_tps("T", "H") == 0.0
    assert world.stats.totals() == Totals(found=5, missed=1, got=100, plain_got=96)
    rates = [world.stats.rates.text(name) for name in ("found", "missed", "got")]
    assert rates == ["0.5  ", "0.1  ", "10.0  "]
    assert world.stats.rates.text("found", "missed") == "0.6  "


async def test_what_was_sent_back(world: World) -> None:
    world.stats.sent_back("T", "G", dead=False)
    assert not world.stats.has("DLQ_PUT_NUMS", "T@G")
    world.stats.sent_back("T", "G", dead=True)
    await world.step()
    assert world.shown("SNDBCK_PUT_NUMS", "T@G").sum == 2
    assert world.shown("DLQ_PUT_NUMS", "T@G").sum == 1


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "U"),
        ("TOPIC_PUT_NUMS", "T@G"),
        ("GROUP_GET_NUMS", "T"),
        ("GROUP_GET_LATENCY", "T@G"),
        ("", ""),
    ],
)
async def test_what_does_not_exist(world: World, name: str, key: str) -> None:
    world.put("T", 1, 1)
    world.stats.pulled("T", "G", 1, 1, 1)
    await world.step()
    assert not world.stats.has(name, key)
    assert world.shown(name, key) == NOTHING


async def test_items_of_what_is_gone_go(world: World) -> None:
    world.groups["gone"] = None
    for topic in ("T", "U"):
        world.put(topic, 1, 1)
        for group in ("G", "gone"):
            world.stats.pulled(topic, group, 1, 1, 1)
            world.stats.sent_back(topic, group, dead=True)
    await world.step()
    world.topics.remove("U")
    del world.groups["gone"]
    await world.step(CLEANING)
    keys = ["T@G", "T@gone", "U@G", "U@gone"]
    for name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS", "DLQ_PUT_NUMS"):
        assert [key for key in keys if world.stats.has(name, key)] == ["T@G"]
    assert world.stats.has("TOPIC_PUT_NUMS", "T")
    assert not world.stats.has("TOPIC_PUT_NUMS", "U")


async def test_silent_items_go_and_come_back(world: World) -> None:
    world.put("T", 100, 1000)
    await world.step(CLEANING * 2)
    assert world.stats.has("TOPIC_PUT_NUMS", "T")
    await world.step(DAY.every * DAY.points)
    assert not world.stats.has("TOPIC_PUT_NUMS", "T")
    world.put("T", 7, 70)
    await world.step()
    assert world.shown("TOPIC_PUT_NUMS", "T").sum == 7, "not what was counted before"
    assert world.stats.totals().put == 107


async def test_more_topics_than_items(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    world = World()
    for n in range(10):
        world.put(f"T{n}", 1, 10)
    with caplog.at_level(logging.WARNING):
        await world.step(2)
    assert sum(world.stats.has("TOPIC_PUT_NUMS", f"T{n}") for n in range(10)) == 3
    assert len(caplog.messages) == 1
    assert world.stats.totals().put == 10, "all count for the broker"


async def test_midnights(world: World) -> None:
    mornings = world.stats.mornings
    world.put("T", 10, 1)
    world.put("SYS", 1, 1)
    await world.step()
    assert (mornings.yesterday, mornings.today) == ((0, 0), (0, 0))
    world.day += timedelta(1)
    world.stats.pulled("T", "G", 1, 4, 1)
    await world.step()
    world.put("T", 5, 1)
    await world.step()
    assert (mornings.yesterday, mornings.today) == ((0, 0), (10, 4))
    world.day += timedelta(1)
    await world.step()
    assert (mornings.yesterday, mornings.today) == ((10, 4), (15, 4))
    world.day -= timedelta(1)
    await world.step()
    assert mornings.today == (15, 4), "the clock was set back"


def test_rates_over_three_spans() -> None:
    rates = Rates()
    assert rates.text("put") == "  "
    for n in range(200):
        rates.sample(n * PERIOD, Totals(put=n * n))
    # (199^2 - 198^2) / 10, (199^2 - 193^2) / 60, (199^2 - 139^2) / 600
    assert rates.text("put") == "39.7 39.2 33.8"
    rates.sample(199 * PERIOD, Totals(put=50_000))
    assert rates.text("put").startswith("0.0 "), "no time went by"


async def test_it_goes_on_after_an_error(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    calls: list[float] = []

    def fail() -> list[tuple[str, int, int]]:
        calls.append(trio.current_time())
        raise OSError("no")

    world.stats._store.puts = fail  # type: ignore[method-assign]
    start = trio.current_time()
    with trio.move_on_after(PERIOD * 3 + 1), caplog.at_level(logging.ERROR):
        await world.stats.run()
    assert [t - start for t in calls] == [0, PERIOD, 2 * PERIOD, 3 * PERIOD]
    assert "statistics are not sampled" in caplog.messages[0]


async def test_others_run_while_many_topics_are_counted() -> None:
    world = World()
    for n in range(module.LOOK * 60):
        world.put(f"T{n}", 1, 10)
    done = trio.Event()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await trio.lowlevel.checkpoint()
        await world.step()
        done.set()
    assert turns > 3
