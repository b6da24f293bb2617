"""A scripted cluster for tests on a clock of their own, a broker in a thread for those in plain
code."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator

import pytest
import trio
from trio.testing import MockClock

import pyrmq.testing
from pyrmq.server import Running
from tests.support.scripted.groups import GroupBroker, group_broker
from tests.support.scripted.streams import StreamCluster


@pytest.fixture
async def alone(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GroupBroker]:
    """The only broker of a scripted cluster; group `g` has consumed nothing so far."""
    async with StreamCluster("broker-a", kind=GroupBroker) as running:
        monkeypatch.setattr(trio, "open_tcp_stream", running.connect)
        broker = group_broker(running["broker-a"])
        for topic in ("T", "U", "%RETRY%g"):
            for queue in (0, 1):
                broker.offsets["g", topic, queue] = 0
        yield broker


@pytest.fixture
def clock() -> MockClock:
    """Time passes when everybody waits."""
    return MockClock(autojump_threshold=0)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with pyrmq.testing.broker() as running:
        yield running


@pytest.fixture(autouse=True)
def no_threads_are_left() -> Iterator[None]:
    yield
    assert "pyrmq" not in {thread.name for thread in threading.enumerate()}
