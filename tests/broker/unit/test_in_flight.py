"""popInflightMessageThreshold: messages that are out without an ack."""

from __future__ import annotations

from dataclasses import replace

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.pop.in_flight import InFlight

KEY = ("T", "G", 0)


def counting(config: BrokerConfig) -> InFlight:
    limited = replace(config, enable_pop_message_threshold=True, pop_inflight_message_threshold=10)
    return InFlight(LiveConfig(limited))


def test_with_more_than_the_threshold_it_is_full(config: BrokerConfig) -> None:
    counts = counting(config)
    counts.popped(KEY, 10)
    assert not counts.is_full(KEY)
    counts.popped(KEY, 1)
    assert counts.is_full(KEY)
    assert not counts.is_full(("T", "G", 1))


def test_an_ack_says_when_pops_may_go_on(config: BrokerConfig) -> None:
    counts = counting(config)
    counts.popped(KEY, 12)
    assert not counts.done(KEY, 1)
    assert counts.done(KEY, 1)
    assert not counts.done(KEY, 1)
    assert not counts.is_full(KEY)
    assert not counts.done(KEY, 99)
    assert not counts.done(KEY, 1), "nothing is out any more"


def test_without_the_key_nothing_is_counted(config: BrokerConfig) -> None:
    counts = InFlight(LiveConfig(config))
    counts.popped(KEY, 1_000_000)
    assert not counts.is_full(KEY)
    assert not counts.done(KEY, 1)


def test_what_is_gone_is_forgotten(config: BrokerConfig) -> None:
    counts = counting(config)
    counts.popped(KEY, 11)
    counts.popped(("U", "G", 0), 11)
    counts.forget_all(lambda topic, group: topic == "T")
    assert not counts.is_full(KEY)
    assert counts.is_full(("U", "G", 0))
