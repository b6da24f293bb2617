"""A scripted cluster that every connection of a test goes to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from tests.support.fake_cluster import FakeBroker, FakeCluster


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeCluster]:
    async with FakeCluster("broker-a", "broker-b") as running:
        monkeypatch.setattr(trio, "open_tcp_stream", running.connect)
        yield running


@pytest.fixture
def broker(cluster: FakeCluster) -> FakeBroker:
    return cluster["broker-a"]


@pytest.fixture
def clock() -> MockClock:
    """Time passes when everybody waits: what hangs fails at once, and a slow machine is no fault.
    (`mock_clock`, on which none passes, is for tests with threads: those wait unseen.)"""
    return MockClock(autojump_threshold=0)
