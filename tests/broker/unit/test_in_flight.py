"""popInflightMessageThreshold: messages that are out without an ack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.pop.in_flight import InFlight

KEY = ("T", "G", 0)


SOON, LATE = 1000, 2000


def counting(config: BrokerConfig, now: Callable[[], int] = lambda: 0) -> InFlight:
    limited = replace(config, enable_pop_message_threshold=True, pop_inflight_message_threshold=10)
    return InFlight(LiveConfig(limited), now)


def test_with_more_than_the_threshold_it_is_full(config: BrokerConfig) -> None:
    counts = counting(config)
    counts.popped(KEY, 10, SOON)
    assert not counts.is_full(KEY)
    counts.popped(KEY, 1, LATE)
    assert counts.is_full(KEY)
    assert not counts.is_full(("T", "G", 1))


def test_an_ack_says_when_pops_may_go_on(config: BrokerConfig) -> None:
    counts = counting(config)
    counts.popped(KEY, 12, SOON)
    assert not counts.done(KEY, 1, SOON)
    assert not counts.done(KEY, 1, LATE), "of no pop"
    assert counts.done(KEY, 1, SOON)
    assert not counts.done(KEY, 1, SOON)
    assert not counts.is_full(KEY)
    assert not counts.done(KEY, 99, SOON)
    assert not counts.done(KEY, 1, SOON), "nothing is out any more"


def test_what_becomes_visible_again_is_out_no_more(config: BrokerConfig) -> None:
    times = [0]
    counts = counting(config, lambda: times[0])
    counts.popped(KEY, 8, SOON)
    counts.popped(KEY, 8, LATE)
    assert counts.is_full(KEY)
    times[0] = SOON
    assert not counts.is_full(KEY)
    counts.popped(KEY, 3, LATE)
    assert counts.is_full(KEY)
    times[0] = LATE
    assert not counts.is_full(KEY)
    assert not counts.done(KEY, 1, LATE)


def test_without_the_key_nothing_is_counted(config: BrokerConfig) -> None:
    counts = InFlight(LiveConfig(config), lambda: 0)
    counts.popped(KEY, 1_000_000, SOON)
    assert not counts.is_full(KEY)
    assert not counts.done(KEY, 1, SOON)


def test_what_is_gone_is_forgotten(config: BrokerConfig) -> None:
    counts = counting(config)
    counts.popped(KEY, 11, SOON)
    counts.popped(("U", "G", 0), 11, SOON)
    counts.forget_all(lambda topic, group: topic == "T")
    assert not counts.is_full(KEY)
    assert counts.is_full(("U", "G", 0))


def test_a_new_time_moves_what_is_counted_and_adds_nothing(config: BrokerConfig) -> None:
    times = [0]
    counts = counting(config, lambda: times[0])
    counts.moved(KEY, SOON, LATE)
    counts.popped(KEY, 11, SOON)
    for _ in range(1000):
        counts.moved(KEY, LATE + 1, LATE)
    counts.moved(KEY, SOON, LATE)
    assert counts.is_full(KEY)
    assert counts.done(KEY, 1, LATE)
    assert not counts.done(KEY, 1, LATE), "forged handles have added to it"
    counts.popped(KEY, 12, LATE)
    for _ in range(1000):
        counts.moved(KEY, SOON, LATE)
    times[0] = SOON
    assert counts.is_full(KEY)
    times[0] = LATE
    assert not counts.is_full(KEY)
