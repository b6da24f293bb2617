"""These modules have servers of their own, whose tables they look at after each case."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def unharmed() -> None:
    """In place of the one for a server in a process."""
