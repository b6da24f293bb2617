"""UNIQ_KEY: address, process, constant, milliseconds of the month, counter."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from pyrmq.client.producer import outgoing as unique_key
from pyrmq.client.producer.outgoing import key_maker


@pytest.fixture(autouse=True)
def _address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_key, "own_ip", lambda: "10.1.2.3")


def parts(key: str) -> tuple[str, int, str, int, int]:
    """Address, pid, constant, ms, counter of an IPv4 key."""
    assert len(key) == 32
    assert key == key.upper()
    return key[:8], int(key[8:12], 16), key[12:20], int(key[20:28], 16), int(key[28:], 16)


def test_parts() -> None:
    before = time.time()
    ip, pid, _, ms, _ = parts(key_maker()())
    assert ip == "0A010203"
    assert pid == os.getpid() & 0xFFFF
    now = time.localtime(before)
    start = time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))
    assert int(before * 1000) <= ms + int(start * 1000) <= time.time() * 1000


def test_keys_of_all_makers_are_different() -> None:
    makers = [key_maker() for _ in range(8)]
    keys = [parts(make()) for _ in range(4_000) for make in makers]
    assert len({key[3:] for key in keys}) == 32_000
    assert {(b[4] - a[4]) & 0xFFFF for a, b in itertools.pairwise(keys)} == {1}


def test_a_fork_has_another_constant() -> None:
    ours = parts(key_maker()())
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, key_maker()().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = parts(os.read(read, 64).decode())
    os.close(read)
    os.close(write)
    assert theirs[1] == child & 0xFFFF
    assert theirs[2] != ours[2]


@pytest.mark.parametrize("host", ["2001:db8::1", "fe80::1%eth0"])
def test_ipv6(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(unique_key, "own_ip", lambda: host)
    make = key_maker()
    assert len(make()) == 56
    assert make()[:4] in ("2001", "FE80")
