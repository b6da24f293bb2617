"""What was recorded of Apache's broker on pops, timers, recalls and priorities, asked of ours.

Codes, fields, records and bodies have to be as recorded; texts may differ. Where ours does
otherwise on purpose, pop/otherwise.py says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import toolchain
from .conftest import BROKERS
from .pop.asking import Row
from .pop.otherwise import FOLLOWS, STRICTER, comparable, expected
from .pop.run import PARTS, kept, run
from .pop.servers import Broker, broker
from .store import peer

pytestmark = pytest.mark.skipif(
    peer.VERSION != toolchain.NEWEST, reason="the record is of the newest version"
)
NOT_YET: set[str] = set()
"""Parts that our broker cannot answer yet."""


@pytest.fixture(params=BROKERS, scope="module")
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Broker]]:
    if request.param == "pyrmq" and PARTS.keys() <= NOT_YET:
        pytest.skip("this broker has no part of it yet")
    with broker(request.param, tmp_path_factory.mktemp("pop")) as started:
        yield request.param, started


@pytest.mark.parametrize("part", PARTS)
def test_answers(served: tuple[str, Broker], part: str) -> None:
    whose, started = served
    if whose == "pyrmq" and part in NOT_YET:
        pytest.skip("this broker has no part of it yet")
    recorded, found = kept(part), run(started.address, part)
    if whose == "pyrmq":
        recorded = [expected(row) for row in recorded if row["what"] not in FOLLOWS]
        found = [_of_ours(row) for row in found]
    assert [row["what"] for row in found] == [row["what"] for row in recorded]
    for row, wanted in zip(found, recorded, strict=True):
        assert row == wanted, row["what"]


def _of_ours(row: Row) -> Row:
    row = comparable(row)
    if row["what"] in STRICTER:
        return {name: row[name] for name in ("what", "request", "code")}
    return row


def test_what_ours_does_otherwise_is_of_the_record() -> None:
    assert STRICTER.keys() | FOLLOWS <= {row["what"] for part in PARTS for row in kept(part)}


def test_every_row_has_a_name_of_its_own() -> None:
    names = [row["what"] for part in PARTS for row in kept(part)]
    assert len(set(names)) == len(names)
