"""What another master of the same name is to this one, and what follows."""

from __future__ import annotations

import pytest

from pyrmq.broker.replication.sole_master import (
    STANDINGS,
    Follows,
    Other,
    Standing,
    standing_of,
)

SINCE = 1_000


@pytest.mark.parametrize(
    ("since", "proven", "standing"),
    [
        (SINCE + 1, True, Standing.SUCCESSOR),
        (SINCE - 1, True, Standing.PREDECESSOR),
        (0, True, Standing.PREDECESSOR),
        (SINCE, True, Standing.RIVAL),
        (None, True, Standing.RIVAL),
        (SINCE + 1, False, Standing.STRANGER),
        (SINCE + 1, None, Standing.STRANGER),
        (None, False, Standing.STRANGER),
    ],
)
def test_standing(since: int | None, proven: bool | None, standing: Standing) -> None:
    assert standing_of(Other(("10.0.0.1", 10911), since, proven), SINCE) is standing


def test_only_a_successor_ends_it() -> None:
    assert STANDINGS.keys() == set(Standing)
    leaving = [standing for standing, follows in STANDINGS.items() if follows is Follows.LEAVE]
    assert leaving == [Standing.SUCCESSOR]
