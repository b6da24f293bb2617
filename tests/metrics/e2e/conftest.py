"""An embedded broker, a server process, and a deadline for every trio test."""

from collections.abc import Iterator

import pytest

import pyrmq.testing
from pyrmq.metrics import exposition
from pyrmq.testing import TestServer
from tests.metrics.e2e.scrape import SERVED
from tests.support.client import Client
from tests.support.fixtures import deadline as deadline
from tests.support.fixtures import serve as serve
from tests.support.fixtures import serve_apart as serve_apart


@pytest.fixture(autouse=True)
def pages_are_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "FRESH", 0.0)
    monkeypatch.setattr(exposition, "MOST_FRESH", 0.0)


@pytest.fixture
def server() -> Iterator[TestServer]:
    """A broker that serves metrics, and whose clock a test moves."""
    with pyrmq.testing.broker(**SERVED) as running:
        yield running


@pytest.fixture
def client(server: TestServer) -> Iterator[Client]:
    with Client(server.broker_address) as connection:
        yield connection
