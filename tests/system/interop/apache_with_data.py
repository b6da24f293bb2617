"""Apache RocketMQ's servers with the data of the console's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console import data

from .store import peer


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of Apache's with the data of the console's tests."""
    folder: Path = tmp_path_factory.mktemp("apache")
    with peer.NameServer(folder / "namesrv") as names:
        broker = peer.RealBroker(folder / "store", names.address, home=folder / "broker")
        with broker:
            data.seed(names.address)
            yield names.address
