"""Route tables for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.namesrv.unit.tables import Tables


@pytest.fixture
def routes() -> Tables:
    return Tables()
