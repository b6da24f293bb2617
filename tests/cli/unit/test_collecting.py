"""Full garbage collections leave out what tables hold."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pyrmq.cli.collecting import MANY, Collecting


class Row:
    """A row of a table: objects that the collector tracks."""

    def __init__(self) -> None:
        self.values = [[{}]]  # type: ignore[var-annotated]


class Passed:
    """Counts what full collections pass over: what is tracked and not frozen as they begin."""

    def __init__(self) -> None:
        self.objects: list[int] = []

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            self.objects.append(len(gc.get_objects()))


@pytest.fixture
def passed() -> Iterator[Passed]:
    found = Passed()
    yield found
    if found in gc.callbacks:
        gc.callbacks.remove(found)
    gc.unfreeze()


def rows(count: int) -> list[Row]:
    return [Row() for _ in range(count)]


def test_a_full_collection_passes_over_what_came_since_the_last(passed: Passed) -> None:
    table: list[Row] = []
    with Collecting(lambda: len(table)):
        gc.callbacks.append(passed)
        for _ in range(10):
            table += rows(MANY)
            gc.collect()
        assert max(passed.objects) < 5 * MANY, "of 60,000 objects that the table has at the end"


def test_garbage_goes_before_anything_is_frozen(passed: Passed) -> None:
    class Knot:
        def __init__(self) -> None:
            self.self = self

    with Collecting(lambda: MANY):
        for _ in range(3):
            knot = Knot()
            ref = weakref.ref(knot)
            del knot
            gc.collect()
            assert ref() is None


def test_while_tables_are_small_nothing_is_frozen(passed: Passed) -> None:
    with Collecting(lambda: MANY - 1):
        gc.callbacks.append(passed)
        kept = rows(MANY)
        gc.collect()
        gc.collect()
        assert passed.objects[-1] > len(kept)


def test_behind_the_block_all_is_as_before() -> None:
    before = list(gc.callbacks), gc.get_threshold()
    with Collecting(lambda: 0):
        assert len(gc.callbacks) == len(before[0]) + 1
        assert gc.get_threshold() != before[1]
    assert (gc.callbacks, gc.get_threshold()) == before
    gc.unfreeze()
