"""An embedded broker, a server process, and a deadline for every trio test."""

import pytest

from pyrmq.metrics import exposition
from tests.support.fixtures import deadline as deadline
from tests.support.fixtures import serve as serve
from tests.support.fixtures import serve_apart as serve_apart


@pytest.fixture(autouse=True)
def pages_are_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "FRESH", 0.0)
    monkeypatch.setattr(exposition, "MOST_FRESH", 0.0)
