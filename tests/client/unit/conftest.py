"""A scripted cluster that every connection of a test goes to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from tests.support.scripted.groups import GroupBroker, group_broker
from tests.support.scripted.pops import PopBroker, pop_broker
from tests.support.scripted.streams import StreamBroker, StreamCluster


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StreamCluster]:
    async with StreamCluster("broker-a", "broker-b") as running:
        monkeypatch.setattr(trio, "open_tcp_stream", running.connect)
        yield running


@pytest.fixture
def broker(cluster: StreamCluster) -> StreamBroker:
    return cluster["broker-a"]


@pytest.fixture
async def groups(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StreamCluster]:
    """The same of brokers that know consumer groups."""
    async with StreamCluster("broker-a", "broker-b", kind=GroupBroker) as running:
        monkeypatch.setattr(trio, "open_tcp_stream", running.connect)
        yield running


@pytest.fixture
def a(groups: StreamCluster) -> GroupBroker:
    return group_broker(groups["broker-a"])


@pytest.fixture
def b(groups: StreamCluster) -> GroupBroker:
    return group_broker(groups["broker-b"])


@pytest.fixture
def alone(groups: StreamCluster, a: GroupBroker) -> GroupBroker:
    """The only broker there is."""
    del groups.brokers["broker-b"]
    return a


@pytest.fixture
def clock() -> MockClock:
    """Time passes when everybody waits: what hangs fails at once, and a slow machine is no fault.
    (`mock_clock`, on which none passes, is for tests with threads: those wait unseen.)"""
    return MockClock(autojump_threshold=0)


@pytest.fixture
async def pops(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StreamCluster]:
    """The same of brokers that know POP as well."""
    async with StreamCluster("broker-a", "broker-b", kind=PopBroker) as running:
        monkeypatch.setattr(trio, "open_tcp_stream", running.connect)
        yield running


@pytest.fixture
def popped(pops: StreamCluster) -> PopBroker:
    """The only broker there is."""
    del pops.brokers["broker-b"]
    return pop_broker(pops["broker-a"])
