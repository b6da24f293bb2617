"""Which segments a range of times is looked for in."""

from __future__ import annotations

import json

import pytest

from pyrmq.segments import at_times
from pyrmq.segments.store import SegmentStore

SIZE = 1000


def narrowed(
    monkeypatch: pytest.MonkeyPatch,
    first: list[int | None],
    start: int | None = None,
    end: int | None = None,
) -> tuple[int, int]:
    """The numbers of the segments, the end exclusive; `first` are their first times."""
    files = tuple((n * SIZE, SIZE, f"/x/{n * SIZE:020d}") for n in range(len(first)))
    monkeypatch.setattr(at_times, "first_times", lambda store: first)
    store = SegmentStore(json.dumps({"name": "b", "root": "/x", "files": files}).encode(), None)
    low, high = at_times.narrowed(store, 0, len(first) * SIZE, start, end)
    return low // SIZE, high // SIZE


@pytest.mark.parametrize(
    ("first", "start", "expected"),
    [
        ([100, 200, 300, 400], 350, 1),
        ([100, 200, 300, 400], 150, 0),
        ([100, 200, 300, 400], 900, 2),
        # made ahead
        ([100, 200, None], 250, 0),
        ([100, 200, None, None, None], 250, 0),
        # damaged fronts
        ([100, None, None, None, 400], 150, 0),
        ([100, 200, None, 400, 500], 450, 1),
        ([None, None, 100, 200], 150, 0),
        ([None, None], 150, 0),
    ],
)
def test_a_start_keeps_a_segment_with_records_as_margin(
    monkeypatch: pytest.MonkeyPatch, first: list[int | None], start: int, expected: int
) -> None:
    assert narrowed(monkeypatch, first, start=start)[0] == expected


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        ([100, 200, 300, 400], 150, 2),
        ([100, 200, 300, 400], 50, 1),
        ([100, 200, 300, 400], 350, 4),
        ([100, None, None, None, 400], 300, 5),
        ([100, 400, None, 500, 600], 300, 3),
        ([None, None], 300, 2),
    ],
)
def test_an_end_keeps_a_segment_with_records_as_margin(
    monkeypatch: pytest.MonkeyPatch, first: list[int | None], end: int, expected: int
) -> None:
    assert narrowed(monkeypatch, first, end=end)[1] == expected
