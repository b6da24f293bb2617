"""What is recorded in memory, and an embedded broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.otel.spans import Recorded, recording
from tests.support.fixtures import deadline as deadline
from tests.support.fixtures import embedded as embedded
from tests.support.fixtures import serve as serve


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    """Clients that a test makes are instrumented."""
    with recording() as recorded:
        yield recorded
