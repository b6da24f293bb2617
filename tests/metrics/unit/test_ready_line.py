"""The ready line says where metrics are served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq.cli.until_signal import ready_line


@pytest.mark.parametrize(
    ("address", "shown"), [(None, ""), (("127.0.0.1", 5557), " metrics=127.0.0.1:5557")]
)
def test_the_address_of_the_metrics(address: tuple[str, int] | None, shown: str) -> None:
    registration = SimpleNamespace(unregistered=[])
    broker: Any = SimpleNamespace(metrics_address=address, registration=registration)
    line = ready_line(broker, broker="127.0.0.1:10911")
    assert line.startswith(f"ready broker=127.0.0.1:10911{shown} pid=")
