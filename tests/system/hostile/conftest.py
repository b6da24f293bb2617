"""One server per test file, an old good connection, and a check after every single case."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.server import ServerProcess
from tests.system.hostile.probe import Probe

_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    root = tmp_path_factory.mktemp("hostile")
    with ServerProcess(root / "store") as process:
        yield process
    outside = {path.name for path in root.iterdir()} - {"store", process.log.name}
    assert not outside, f"names from the wire became files outside the store: {outside}"
    queues = process.store / "consumequeue"
    topics = [path.name for path in queues.iterdir()] if queues.exists() else []
    assert not [name for name in topics if not _NAME.fullmatch(name)]


@pytest.fixture(scope="module")
def probe(server: ServerProcess) -> Iterator[Probe]:
    with Client(server.broker) as old:
        yield Probe(server, old)


@pytest.fixture(autouse=True)
def unharmed(probe: Probe) -> Iterator[None]:
    """After each case: an old and a new connection work, memory is bounded, no crash report."""
    probe.start_case()
    yield
    probe.assert_unharmed()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A connection of the case's own."""
    with Client(server.broker) as connection:
        yield connection
