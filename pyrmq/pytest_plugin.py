"""The fixture `pyrmq_broker` for pytest, available when pyrmq is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyrmq.testing import TestServer


@pytest.fixture(scope="session")
def pyrmq_broker() -> Iterator[TestServer]:
    """Name server and broker on free ports, in a thread, for all tests of a session.
    `pyrmq_broker.namesrv` is the address for clients, `pyrmq_broker.clock` the broker's time, which
    goes on for all tests. Use different topics in each test."""
    from pyrmq.testing import broker

    with broker() as running:
        yield running
