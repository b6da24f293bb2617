"""One broker in a thread for all tests of a file; no thread of a client outlives its test."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import pyrmq.testing
from pyrmq.server import Running


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with pyrmq.testing.broker() as running:
        yield running


@pytest.fixture(autouse=True)
def no_threads_are_left() -> Iterator[None]:
    yield
    assert "pyrmq" not in {thread.name for thread in threading.enumerate()}
