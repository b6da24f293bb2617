"""Full garbage collections leave out what tables hold."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pyrmq.cli.collecting import STEP, Collecting


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
    gc.callbacks.remove(found)
    gc.unfreeze()


def test_a_full_collection_leaves_out_tables_that_have_grown(passed: Passed) -> None:
    table: list[Row] = []
    with Collecting(lambda: len(table)):
        gc.callbacks.append(passed)  # called behind the other
        for _ in range(5):
            table += [Row() for _ in range(20 * STEP)]
            gc.collect()
    assert len(passed.objects) == 5
    assert max(passed.objects) < STEP, "of 300,000 objects that the table has at the end"


def test_what_does_not_come_from_tables_is_collected(passed: Passed) -> None:
    class Knot:
        def __init__(self) -> None:
            self.self = self

    with Collecting(lambda: STEP - 1):
        gc.callbacks.append(passed)
        knot = Knot()
        ref = weakref.ref(knot)
        del knot
        gc.collect()
        assert ref() is None


def test_tables_that_grow_again_after_they_have_shrunk(passed: Passed) -> None:
    table: list[Row] = [Row() for _ in range(2 * STEP)]
    with Collecting(lambda: len(table)):
        gc.callbacks.append(passed)
        table.clear()
        gc.collect()
        table += [Row() for _ in range(2 * STEP)]
        gc.collect()
        assert passed.objects[-1] < STEP


def test_behind_the_block_nothing_is_frozen_any_more(passed: Passed) -> None:
    gc.callbacks.append(passed)
    before = list(gc.callbacks)
    with Collecting(lambda: 0):
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before
