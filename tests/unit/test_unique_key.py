"""UNIQ_KEY: address, process, constant, milliseconds of the month, counter."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from pyrmq.client import unique_key
from pyrmq.client.unique_key import key_maker


class Clock:
    """A local date that tests move."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def date(year: int, month: int, day: int, hour: int = 0, second: int = 0) -> Clock:
    return Clock(time.mktime((year, month, day, hour, 0, second, 0, 0, -1)))


@pytest.fixture(autouse=True)
def _address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_key, "own_ip", lambda: "10.1.2.3")


def parts(key: str) -> tuple[str, int, str, int, int]:
    """Address, pid, constant, ms, counter of an IPv4 key."""
    assert len(key) == 32
    assert key == key.upper()
    return key[:8], int(key[8:12], 16), key[12:20], int(key[20:28], 16), int(key[28:], 16)


def test_parts() -> None:
    clock = date(2023, 11, 14, 22, 20)
    clock.now += 0.25
    ip, pid, _, ms, _ = parts(key_maker(clock)())
    assert ip == "0A010203"
    assert pid == os.getpid() & 0xFFFF
    start = date(2023, 11, 1).now
    assert ms == int((clock.now - start) * 1000)


def test_keys_of_one_maker_differ_in_counter_only() -> None:
    make = key_maker(date(2023, 11, 14))
    first, second = parts(make()), parts(make())
    assert first[:4] == second[:4]
    assert second[4] == (first[4] + 1) & 0xFFFF


def test_the_counter_wraps() -> None:
    make = key_maker(date(2023, 11, 14))
    keys = [make() for _ in range(65_537)]
    assert len(set(keys[:-1])) == 65_536
    assert keys[-1] == keys[0]


def test_makers_differ_in_their_constant() -> None:
    clock = date(2023, 11, 14)
    assert len({parts(key_maker(clock)())[2] for _ in range(8)}) > 1


@pytest.mark.parametrize("day", [29, 30, 31])
def test_the_last_days_of_a_month_belong_to_it(day: int) -> None:
    clock = date(2023, 12, 2)
    make = key_maker(clock)
    make()
    clock.now = date(2023, 12, day).now
    assert parts(make())[3] == int(clock.now - date(2023, 12, 1).now) * 1000


def test_a_new_month() -> None:
    clock = date(2023, 12, 5)
    make = key_maker(clock)
    clock.now = date(2024, 1, 2, 1).now
    assert parts(make())[3] == 25 * 3_600_000
    clock.now = date(2024, 6, 1, 0, 1).now
    assert parts(make())[3] == 1000


def test_a_clock_that_goes_back() -> None:
    clock = date(2023, 12, 1)
    make = key_maker(clock)
    clock.now -= 100
    assert parts(make())[3] == 0


@pytest.mark.parametrize("host", ["2001:db8::1", "fe80::1%eth0"])
def test_ipv6(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(unique_key, "own_ip", lambda: host)
    make: Callable[[], str] = key_maker(date(2023, 11, 14))
    assert len(make()) == 56
    assert make()[:4] in ("2001", "FE80")
