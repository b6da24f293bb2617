"""The calculation of `python -m benches.many_brokers`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benches import many_brokers
from benches.many_brokers import PER_ENTRIES, PER_RECORD, Machine, limits

MACHINE = Machine(
    cores=16,
    client_cores=4,
    scaling=1.5,
    copies=4,
    memory=40e9,
    disk=2e9,
    network=25e9 / 8,
)
SIZE = 1000 - PER_RECORD


def test_each_limit_and_the_lowest_first() -> None:
    found = limits(4.0, SIZE, MACHINE)
    rates = {limit.what: limit.rate for limit in found}
    assert rates == {
        "CPU": pytest.approx(12e6 / 6),
        "memory": pytest.approx(10e6),
        "disk": pytest.approx(2e9 / (1000 + PER_ENTRIES)),
        "network": pytest.approx(25e6 / 8),
    }
    assert [limit.what for limit in found] == ["disk", "CPU", "network", "memory"]
    assert limits(4.0, SIZE, replace(MACHINE, disk=20e9))[0].what == "CPU"


def test_what_is_measured_is_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_brokers, "COPIED", 1 << 16)
    assert many_brokers.memory_rate(2, 0.0) > 0
