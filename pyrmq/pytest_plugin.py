"""The fixture `pyrmq_broker` for pytest, available when pyrmq is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyrmq.server import Running


@pytest.fixture(scope="session")
def pyrmq_broker() -> Iterator[Running]:
    """Name server and broker on free ports, in a thread, for all tests of a session.
    `pyrmq_broker.namesrv` is the address for clients. Use different topics in each test."""
    from pyrmq.testing import broker

    with broker() as running:
        yield running
