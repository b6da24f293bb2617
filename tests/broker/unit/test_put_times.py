"""How long sends took, of known numbers of them: RocketMQ's distribution and percentiles."""

from __future__ import annotations

import re

import pytest

from pyrmq.broker.stats.put_times import PutTimes, longest_read_ms
from pyrmq.engine import TIME_BOUNDS_US, RpcFigures


class Sends:
    """A histogram as the engine's."""

    def __init__(self) -> None:
        self.row = [0] * (3 + len(TIME_BOUNDS_US) + 1)
        self.times = PutTimes(lambda: self.row)
        self.now = 0.0
        self.times.sample(self.now)

    def took(self, us: int, times: int = 1) -> None:
        at = sum(bound < us for bound in TIME_BOUNDS_US)
        self.row = self.row.copy()
        self.row[0] += times
        self.row[1] += us * times
        self.row[2] = max(self.row[2], us)
        self.row[3 + at] += times

    def minute(self) -> None:
        self.now += 60
        self.times.sample(self.now)

    def distribution(self) -> list[int]:
        text = self.times.distribution()
        assert re.fullmatch(r"(\[[^]]+\]:\d+ ){13}", text)
        return [int(n) for n in re.findall(r"\]:(\d+) ", text)]


@pytest.fixture
def sends() -> Sends:
    return Sends()


def test_without_sends_all_is_zero(sends: Sends) -> None:
    assert sends.distribution() == [0] * 13
    assert sends.times.percentile(0.99) == sends.times.longest_ms == 0


def test_each_bucket_has_its_sends(sends: Sends) -> None:
    ms = (0.5, 5, 30, 70, 150, 300, 700, 1500, 2500, 3500, 4500, 7000, 15_000)
    for n, took in enumerate(ms, 1):
        sends.took(round(took * 1000), n)
    assert sends.distribution() == list(range(1, 14))
    assert sends.times.longest_ms == 15_000
    sends.took(100_000_000)
    assert sends.distribution()[-1] == 14


def test_percentiles_are_within_their_bucket(sends: Sends) -> None:
    sends.took(90, 989)
    sends.took(40_000, 10)
    sends.took(8_000_000)
    assert 0.05 <= sends.times.percentile(0.5) <= 0.1
    assert 10 <= sends.times.percentile(0.99) <= 50
    assert 10 <= sends.times.percentile(0.999) <= 50
    assert 5000 <= sends.times.percentile(1.0) <= 10_000
    sends.took(100_000_000, 10**6)
    assert sends.times.percentile(0.99) == TIME_BOUNDS_US[-1] / 1000, "above all bounds"


def test_what_is_older_than_two_minutes_does_not_count(sends: Sends) -> None:
    sends.took(1_500_000)
    sends.minute()
    sends.took(90, 3)
    assert sum(sends.distribution()) == 4, "the last minute, and the one under way"
    sends.now += 59
    sends.times.sample(sends.now)
    assert sum(sends.distribution()) == 4
    sends.now -= 59
    sends.minute()
    assert sum(sends.distribution()) == 3
    assert sends.times.percentile(0.999) < 1
    sends.minute()
    assert sum(sends.distribution()) == 0
    assert sends.times.longest_ms == 1500, "since the start"


def test_the_longest_read_waited_for_no_message() -> None:
    figures = RpcFigures()
    assert longest_read_ms(figures) == 0
    figures.record(11, 0, False, "success", 5000)
    figures.record(361, 19, False, "success", 9000)
    figures.record(11, 0, True, "success", 15_000_000)
    figures.record(310, 0, False, "success", 99_000)
    assert longest_read_ms(figures) == 9
    with pytest.raises(ValueError, match='result "sucess" is none of RocketMQ\'s'):
        figures.record(11, 0, False, "sucess", 1)
