"""Bounds of a histogram, as a request states them."""

import pytest

from pyrmq.errors import InvalidParameterError
from pyrmq.model.timer_figures import (
    BOUNDS,
    MAX_BOUNDS,
    MAX_SECONDS,
    bounds_text,
    check_bounds,
    parse_bounds,
)


def test_what_is_written_is_read() -> None:
    for bounds in ([1], [1, MAX_SECONDS], list(range(1, MAX_BOUNDS + 1))):
        assert parse_bounds(bounds_text(bounds)) == check_bounds(bounds) == bounds


@pytest.mark.parametrize("text", [None, ""])
def test_without_bounds_there_are_the_usual_ones(text: str | None) -> None:
    assert parse_bounds(text) == list(BOUNDS)
    assert check_bounds(BOUNDS) == list(BOUNDS)


@pytest.mark.parametrize(
    "text",
    [
        "0", "-1", "1,1", "2,1", "1,", ",1", "1;2", "1.5", "ten", " 1", "٣", "1" * 10,
        str(MAX_SECONDS + 1), bounds_text(range(1, MAX_BOUNDS + 2)), "1," * 10_000 + "2",
    ],
)  # fmt: skip
def test_others_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameterError, match="bounds"):
        parse_bounds(text)


def test_no_bounds_are_none() -> None:
    with pytest.raises(InvalidParameterError):
        check_bounds([])
