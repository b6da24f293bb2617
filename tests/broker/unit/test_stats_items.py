"""Windows of statistics, by a clock of their own. What is expected is what RocketMQ's StatsItem
shows, worked out by hand."""

from __future__ import annotations

import logging

import pytest

from pyrmq.broker.stats.items import (
    DAY,
    HOUR,
    MINUTE,
    NOTHING,
    Figures,
    StatsItemSet,
    Window,
)

PERIOD = 10.0
SAMPLES_OF_A_DAY = DAY.every * (DAY.points - 1) + 1


class World:
    """Items with two counters, of which the second one counts times."""

    def __init__(self, most: int = 100) -> None:
        self.items = StatsItemSet("things", 2, most, PERIOD)
        self.now = 1000.0
        self.items.sample(self.now)

    def step(self, times: int = 1) -> None:
        """Time goes on, and samples are taken."""
        for _ in range(times):
            self.now += PERIOD
            self.items.sample(self.now)

    def shown(self, key: str, window: Window = MINUTE) -> Figures:
        return self.items.figures(key, window, 0, 1)


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_known_before_the_next_sample(world: World) -> None:
    world.items.add("a", 30, 3)
    assert world.shown("a") == NOTHING
    assert world.shown("b") == NOTHING
    assert "a" in world.items
    assert "b" not in world.items
    world.step()
    assert world.shown("a") == Figures(30, 3.0, 10.0)


def test_a_minute_has_the_last_six_periods(world: World) -> None:
    for amount in (10, 20, 30, 40, 50, 60, 70, 80):
        world.items.add("a", amount, 1)
        world.step()
    assert world.shown("a") == Figures(330, 5.5, 55.0)
    world.step(5)
    assert world.shown("a") == Figures(80, 80 / 60, 80.0)
    world.step()
    assert world.shown("a") == Figures(0, 0.0, 0.0)


def test_one_that_came_late_is_rated_from_then_on(world: World) -> None:
    world.step(20)
    world.items.add("a", 40, 4)
    world.step()
    assert world.shown("a") == Figures(40, 4.0, 10.0)
    world.step()
    assert world.shown("a") == Figures(40, 2.0, 10.0)


def test_the_first_sample_of_all_is_rated_by_its_period() -> None:
    items = StatsItemSet("things", 2, 100, PERIOD)
    items.add("a", 30, 3)
    items.sample(5.0)
    assert items.figures("a", MINUTE, 0, 1) == Figures(30, 3.0, 10.0)
    assert items.figures("a", HOUR, 0, 1) == Figures(30, 30 / 600, 10.0)
    assert items.figures("a", DAY, 0, 1) == Figures(30, 30 / 3600, 10.0)


def test_a_late_sample_counts_by_the_time_it_took(world: World) -> None:
    world.items.add("a", 30, 1)
    world.now += 20
    world.step()
    assert world.shown("a") == Figures(30, 1.0, 30.0)


def test_hour_and_day(world: World) -> None:
    world.items.add("a", 600, 6)
    world.step(HOUR.every - 1)
    assert world.shown("a", HOUR) == NOTHING
    world.step()
    assert world.shown("a", HOUR) == Figures(600, 1.0, 100.0)
    assert world.shown("a", DAY) == NOTHING
    world.step(DAY.every - HOUR.every)
    assert world.shown("a", DAY) == Figures(600, 600 / 3600, 100.0)
    assert world.shown("a", HOUR) == Figures(600, 600 / 3600, 100.0), "six periods"
    world.step(HOUR.every)
    assert world.shown("a", HOUR) == Figures(0, 0.0, 0.0)
    assert world.shown("a", MINUTE) == Figures(0, 0.0, 0.0)
    world.step(SAMPLES_OF_A_DAY - DAY.every - HOUR.every - 1)
    assert world.shown("a", DAY) == Figures(600, 600 / 86_400, 100.0)
    world.step(DAY.every)
    assert world.shown("a", DAY) == Figures(0, 0.0, 0.0)


def test_averages(world: World) -> None:
    world.items.add("a", 7, 0)
    world.step()
    assert world.shown("a").avgpt == 0.0
    assert world.items.figures("a", MINUTE, 0, None) == Figures(7, 0.7, 0.0)
    assert world.items.figures("a", MINUTE, 0, 0) == Figures(7, 0.7, 1.0)


def test_a_place_is_used_again_as_if_new(world: World) -> None:
    world.items.add("a", 1000, 10)
    world.items.add("b", 1, 1)
    world.step(3)
    world.items.discard("a")
    world.items.discard("a")
    assert world.shown("a") == NOTHING
    world.items.add("c", 20, 2)
    world.step()
    assert world.shown("c") == Figures(20, 2.0, 10.0)
    world.items.add("a", 5, 5)
    world.step()
    assert world.shown("a") == Figures(5, 0.5, 1.0)
    assert world.shown("b") == Figures(1, 1 / 50, 1.0)
    assert sorted(world.items.keys()) == ["a", "b", "c"]


def test_silent_for_a_day(world: World) -> None:
    world.items.add("a", 1, 1)
    world.items.add("b", 1, 1)
    world.step(SAMPLES_OF_A_DAY - 2)
    world.items.add("b", 1, 1)
    world.items.add("late", 1, 1)
    assert not any(world.items.is_silent(key) for key in ("a", "b", "late"))
    world.step(DAY.every)
    assert not world.items.is_silent("a"), "the day's first sample was before it came"
    world.step(DAY.every)
    assert world.items.is_silent("a")
    assert not world.items.is_silent("b")
    assert not world.items.is_silent("late")


def test_no_more_items_than_the_most(caplog: pytest.LogCaptureFixture) -> None:
    world = World(most=2)
    with caplog.at_level(logging.WARNING):
        for key in ("a", "b", "c\x1b[2J", "d"):
            world.items.add(key, 1, 1)
    assert sorted(world.items.keys()) == ["a", "b"]
    assert len(caplog.messages) == 1, "said once"
    assert "statistics of 2 things" in caplog.messages[0]
    assert "\x1b" not in caplog.messages[0]
    world.items.discard("a")
    world.items.add("d", 1, 1)
    world.items.add("e", 1, 1)
    assert len(world.items) == 2
    assert "d" in world.items
    assert len(caplog.messages) == 2, "said again once it was met again"
