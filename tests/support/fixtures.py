"""An embedded broker, a server process per file, and a deadline for every trio test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio

import pyrmq.testing
from pyrmq.server import Running
from tests.support.client import Client
from tests.support.server import ServerProcess

TEST_SECONDS = 120.0
"""Longest that one trio test may take; most need well under a second."""


@asynccontextmanager
async def limited(seconds: float) -> AsyncIterator[None]:
    """Fails a trio test that hangs (a crash of the fixture's task that this is in cancels it)."""

    async def watch() -> None:
        await trio.sleep(seconds)
        raise TimeoutError(f"the test took more than {seconds:g} s")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield
        nursery.cancel_scope.cancel()


@pytest.fixture
async def deadline() -> AsyncIterator[None]:
    async with limited(TEST_SECONDS):
        yield


Serve = Callable[..., AbstractAsyncContextManager[Running]]
"""`serve(store, key=value, …)`: name server and broker; `namesrv` and `broker_address` of what it
gives."""


# What the tests of clients run against: tests/system/interop/test_client_suite.py has these three
# fixtures as well, with Apache RocketMQ's broker.


@pytest.fixture
def serve() -> Serve:
    """Runs a broker with a configuration of the test's own in this process."""
    return pyrmq.testing.broker


@pytest.fixture
async def embedded(deadline: None, serve: Serve) -> AsyncIterator[Running]:
    """Name server and broker in this process, on a store of the test's own."""
    async with serve() as running:
        yield running


@pytest.fixture
def serve_apart() -> Callable[[Path], ServerProcess]:
    """Makes a server that is started, stopped and killed."""
    return ServerProcess


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
