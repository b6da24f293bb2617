"""What was recorded of Apache's broker on pops, timers, recalls and priorities, asked of ours.

Codes, fields, records and bodies have to be as recorded; texts may differ. Where ours does
otherwise on purpose, a table below says so, and what ours does instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from . import toolchain
from .conftest import BROKERS
from .pop.asking import Row
from .pop.run import PARTS, kept, run
from .pop.servers import Broker, broker
from .store import peer

pytestmark = pytest.mark.skipif(
    peer.VERSION != toolchain.NEWEST, reason="the record is of the newest version"
)
NOT_YET: set[str] = set()
"""Parts that our broker cannot answer yet."""
OTHERWISE: dict[str, dict[str, Any]] = {}
"""What ours answers instead."""


@pytest.fixture(params=BROKERS, scope="module")
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Broker]]:
    if request.param == "pyrmq" and PARTS.keys() <= NOT_YET:
        pytest.skip("this broker has no part of it yet")
    with broker(request.param, tmp_path_factory.mktemp("pop")) as started:
        yield request.param, started


def _compared(row: Row) -> Row:
    """A row without its text."""
    return {name: value for name, value in row.items() if name != "remark"}


def _expected(whose: str, row: Row) -> Row:
    return row if whose == "apache" else row | OTHERWISE.get(row["what"], {})


@pytest.mark.parametrize("part", PARTS)
def test_answers(served: tuple[str, Broker], part: str) -> None:
    whose, started = served
    if whose == "pyrmq" and part in NOT_YET:
        pytest.skip("this broker has no part of it yet")
    recorded = [_compared(_expected(whose, row)) for row in kept(part)]
    found = [_compared(row) for row in run(started.address, part)]
    assert [row["what"] for row in found] == [row["what"] for row in recorded]
    assert {row["what"]: row for row in found} == {row["what"]: row for row in recorded}


def test_what_ours_does_otherwise_is_of_the_record() -> None:
    assert OTHERWISE.keys() <= {row["what"] for part in PARTS for row in kept(part)}


def test_every_row_has_a_name_of_its_own() -> None:
    names = [row["what"] for part in PARTS for row in kept(part)]
    assert len(set(names)) == len(names)
