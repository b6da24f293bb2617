"""Times on the command line of `pyrmq admin`."""

from __future__ import annotations

import click
import pytest

from pyrmq.cli.admin import view

NOW = 1_700_000_000_000


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrmq.admin.moments.now_ms", lambda: NOW)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("now", NOW),
        ("90s", NOW - 90_000),
        ("30m", NOW - 1_800_000),
        ("2h", NOW - 7_200_000),
        ("1d", NOW - 86_400_000),
        ("1700000000001", 1_700_000_000_001),
        ("2026-01-31T12:00+00:00", 1_769_860_800_000),
        ("999999d", 0),
    ],
)
def test_forms(text: str, ms: int) -> None:
    assert view.time_of("--begin", text) == ms


@pytest.mark.parametrize("text", ["", "soon", "2", "2w", "-2h", "²h", "1h30m", "9" * 9 + "d"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="how long ago"):
        view.time_of("--begin", text)


def test_a_date_before_1970_is_none() -> None:
    with pytest.raises(click.BadParameter, match="before 1970"):
        view.time_of("--begin", "1969-12-30")
