"""An embedded broker, a server process per file, and a deadline for every trio test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import trio

import pyrmq.testing
from pyrmq.server import Running
from tests.support.client import Client
from tests.support.server import ServerProcess

TEST_SECONDS = 45.0
"""Longest that one trio test may take; most need well under a second."""


@pytest.fixture
async def deadline() -> AsyncIterator[None]:
    """Fails a trio test that hangs (a crash of this fixture's task cancels the test)."""

    async def watch() -> None:
        await trio.sleep(TEST_SECONDS)
        raise TimeoutError(f"the test took more than {TEST_SECONDS:g} s")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield
        nursery.cancel_scope.cancel()


@pytest.fixture
async def embedded(deadline: None) -> AsyncIterator[Running]:
    """Name server and broker in this process, on a store of the test's own."""
    async with pyrmq.testing.broker() as running:
        yield running


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`pyrmq server` as a process, one for all tests of a file."""
    with ServerProcess(tmp_path_factory.mktemp("e2e") / "store") as server:
        yield server


@pytest.fixture
def client(process: ServerProcess) -> Iterator[Client]:
    """A connection to that server's broker."""
    with Client(process.broker) as connection:
        yield connection
