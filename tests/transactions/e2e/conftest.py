"""A broker that checks back quickly, one for each flush mode and file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.client import Client
from tests.support.fixtures import client as client
from tests.support.operators import create_topic
from tests.support.scratch import in_memory as in_memory
from tests.support.server import ServerProcess

CONF = """transactionTimeOut=300
transactionCheckInterval=200
transactionCheckMax=3
flushConsumerOffsetInterval=100
"""
_numbers = count()


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    store = tmp_path_factory.mktemp("tx") / "store"
    with ServerProcess(store, conf=CONF, flush=request.param) as server:
        yield server


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Tx{next(_numbers)}"
    assert create_topic(client, name, 4).code == 0
    return name


@pytest.fixture
def group() -> str:
    """A producer group of the test's own: nobody is in it unless it joins."""
    return f"PG_{next(_numbers)}"
