"""The tests of our client in tests/client/e2e once more, with Apache RocketMQ's broker.

They are the same functions; the fixtures that give them a broker are other ones here. (Those of
transactions are in test_client_transactions.py, which runs with both brokers itself.)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.client.e2e import (
    test_consumer,
    test_consumer_kinds,
    test_consumer_requests,
    test_pop,
    test_producer,
    test_rebalance,
    test_sql_filter,
    test_timers,
    test_trace,
)
from tests.support.fixtures import TEST_SECONDS, Serve, limited

from .apache import Apache, Apart, Served, Shared
from .store import peer

pytestmark = [
    pytest.mark.usefixtures("deadline"),
    pytest.mark.thorough("the same tests with Apache RocketMQ's broker"),
]

OURS = {
    "test_a_broker_is_killed_while_messages_are_popped": "5.5 repeats what was acknowledged before",
    "test_first_and_last_offset": "5.5 asks the page cache, not a key, whether a queue is young",
    "test_start_at_a_timestamp": "5.5 asks the page cache, not a key, whether a queue is young",
}
"""Tests that are left out, and why they are of our broker only."""


def _tests(*modules: ModuleType) -> Iterator[tuple[str, object]]:
    """Those that get their broker from a fixture that is here."""
    for module in modules:
        for name, test in vars(module).items():
            if name.startswith("test_") and name not in OURS:
                names = test.__code__.co_varnames[: test.__code__.co_argcount]
                if {"embedded", "serve", "serve_apart"} & set(names):
                    yield name, test


globals().update(
    _tests(
        test_consumer,
        test_consumer_kinds,
        test_consumer_requests,
        test_pop,
        test_producer,
        test_rebalance,
        test_sql_filter,
        test_timers,
        test_trace,
    )
)


@pytest.fixture
async def deadline() -> AsyncIterator[None]:
    """Apache's broker takes 11 s to stop."""
    async with limited(4 * TEST_SECONDS):
        yield


@pytest.fixture(scope="module")
def apache(home: Path) -> Iterator[Apache]:
    with peer.NameServer(home / "namesrv") as names:
        yield Apache(names, home)


@pytest.fixture
def serve(apache: Apache) -> Serve:
    return apache.serve


@pytest.fixture(scope="module")
def shared(home: Path) -> Iterator[Shared]:
    with (
        peer.NameServer(home / "shared-namesrv") as names,
        Apache(names, home / "shared").shared() as running,
    ):
        yield running


@pytest.fixture
def embedded(shared: Shared) -> Iterator[Served]:
    yield shared.served
    shared.clean()


@pytest.fixture
def serve_apart(apache: Apache) -> Callable[[Path], Apart]:
    return apache.apart
