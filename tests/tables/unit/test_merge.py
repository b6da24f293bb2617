"""Sorted streams into one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pyrmq.tables.merge import KEYS, NotSortedError, is_sorted, merged
from tests.support.thorough import seed

Place = tuple[str, int, int]


def _stream(places: list[Place], size: int = 4) -> Iterator[pa.RecordBatch]:
    columns = zip(*places, strict=True) if places else [(), (), ()]
    types = (pa.string(), pa.int32(), pa.int64())
    arrays = [pa.array(list(c), t) for c, t in zip(columns, types, strict=True)]
    return iter(pa.table(arrays, names=list(KEYS)).to_batches(max_chunksize=size))


def _merged(parts: list[list[Place]], size: int = 4) -> list[Any]:
    streams = [(str(n), _stream(part, size)) for n, part in enumerate(parts)]
    return [tuple(row.values()) for batch in merged(streams) for row in batch.to_pylist()]


def test_any_division_of_sorted_rows_gives_all_of_them_in_order() -> None:
    chance = random.Random(seed())
    for _ in range(200):
        every = sorted(
            ((chance.choice("aZ€\U0001f600"), chance.randrange(12), n) for n in range(60)),
            key=lambda place: (place[0].encode(), *place[1:]),
        )
        parts: list[list[Place]] = [[] for _ in range(chance.randrange(1, 7))]
        for place in every:
            chance.choice(parts).append(place)
        assert _merged(parts, chance.randrange(1, 9)) == every


def test_equal_rows_all_stay() -> None:
    assert _merged([[("a", 0, 1)] * 5, [("a", 0, 1)] * 4], 2) == [("a", 0, 1)] * 9


def test_no_stream_and_empty_streams_give_nothing() -> None:
    assert _merged([]) == []
    assert _merged([[], []]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        [("a", 0, 2), ("a", 0, 1)],
        [("a", 1, 0), ("a", 0, 5)],
        [("b", 0, 0), ("a", 5, 5)],
        [*[("a", 0, n) for n in range(4)], ("a", 0, 2)],  # in the second batch
    ],
)
def test_a_stream_that_is_not_sorted_is_named(wrong: list[Place]) -> None:
    with pytest.raises(NotSortedError) as raised:
        _merged([[("a", 0, 0), ("z", 9, 9)], wrong])
    assert raised.value.name == "1"


def test_rows_without_a_key_are_not_sorted() -> None:
    nothing = pa.record_batch([["a"], pa.array([None], pa.int32()), [1]], names=list(KEYS))
    assert not is_sorted(nothing)
