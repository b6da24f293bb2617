"""Repetitions are counted; what is about something else is written."""

from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import pytest

from pyrmq.logs.folding import LINES, MAX_RUNS, PLACE_SECONDS, SECONDS, Folding
from tests.logs.records import failed, record


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folding(clock: Clock) -> Folding:
    return Folding(clock=clock)


def said(folding: Folding) -> list[str]:
    return [line.message for line in folding.due()]


def test_repetitions_are_one_line_and_a_count(folding: Folding, clock: Clock) -> None:
    taken = [folding.takes(record("no %s: %s", "disk", "full", topic="t")) for _ in range(1001)]
    assert taken == [True] + [False] * 1000
    clock.now = SECONDS - 1
    assert said(folding) == []
    clock.now = SECONDS
    (line,) = folding.due()
    assert line.message == f"no disk: full (repeated 1000 times in the last {SECONDS} s)"
    assert (line.level, line.logger, line.fields) == (logging.WARNING, "own.x", {"topic": "t"})
    assert folding.folded == 1000


def test_what_goes_on_is_said_once_a_minute_and_is_new_after_a_quiet_one(
    folding: Folding, clock: Clock
) -> None:
    assert folding.takes(record("no"))
    assert not folding.takes(record("no"))
    clock.now = SECONDS
    assert said(folding) == ["no (repeated once more in the last 60 s)"]
    assert not folding.takes(record("no"))
    clock.now = 2 * SECONDS
    assert said(folding) == ["no (repeated once more in the last 60 s)"]
    clock.now = 3 * SECONDS
    assert said(folding) == []
    assert folding.takes(record("no"))


@pytest.mark.parametrize(
    "other",
    [
        record("no %s", "disk", topic="u"),
        record("no %s", "disk", topic="t", queue=1),
        record("no %s", "file", topic="t"),
        record("no %s", "disk", topic="t", level=logging.ERROR),
        record("no %s", "disk", topic="t", connection="10.0.0.2:1"),
    ],
)
def test_other_subjects_reasons_and_levels_are_not_hidden(folding: Folding, other: Any) -> None:
    assert folding.takes(record("no %s", "disk", topic="t"))
    assert folding.takes(other)


def test_numbers_ports_and_ids_make_no_other_line(folding: Folding) -> None:
    def one(n: int) -> Any:
        peer = f"10.0.0.1:{4000 + n}"
        text = "closing %s: %d bytes in %g s at offset %d"
        return record(text, peer, n, n / 2, -n, connection=peer, message_id=f"A{n}")

    taken = [folding.takes(one(n)) for n in range(1, 50)]
    assert taken == [True] + [False] * 48
    (line,) = folding.rest()
    assert line.message.startswith("closing 10.0.0.1:4049: 49 bytes")
    assert line.fields["connection"] == "10.0.0.1:4049", "that of the last one"


@pytest.mark.parametrize("name", ["pyrmq.audit.console", "pyrmq.mcp.audit"])
def test_what_people_change_is_written_each_time(folding: Folding, clock: Clock, name: str) -> None:
    def change(value: int) -> bool:
        made = record("change done: %s", f"key=fileReservedTime value={value}", level=logging.INFO)
        made.name = name
        return folding.takes(made)

    assert all(change(n % 3) for n in range(LINES))
    assert not change(1)  # a flood is bounded all the same
    clock.now = PLACE_SECONDS
    assert change(1)


@pytest.mark.parametrize(
    ("a", "b"), [("topic1", "topic2"), ("b-1", "b-2"), ("10.0.0.1", "10.0.0.2")]
)
def test_numbers_that_are_part_of_a_name_do(folding: Folding, a: str, b: str) -> None:
    assert folding.takes(record("no %s", a))
    assert folding.takes(record("no %s", b))


def test_numbers_of_engine_lines_are_what_they_are_about(folding: Folding) -> None:
    """They have no fields. A line that comes again is counted all the same."""
    for number, taken in ((2, True), (3, True), (3, False)):
        one = record("%s", f"delay level {number}: the queue ends at 7")
        one.name = "pyrmq.engine.broker"
        assert folding.takes(one) is taken


def test_errors_of_another_kind_are_not_hidden(folding: Folding) -> None:
    assert folding.takes(failed(ValueError("x")))
    assert not folding.takes(failed(ValueError("x")))
    assert folding.takes(failed(KeyError("x")))


def test_debug_lines_are_all_written(folding: Folding) -> None:
    assert all(folding.takes(record("x", level=logging.DEBUG)) for _ in range(LINES))


def test_who_floods_with_different_lines_is_counted(folding: Folding, clock: Clock) -> None:
    taken = [folding.takes(record("no %s", f"t{n}x", topic=f"t{n}x")) for n in range(3 * LINES)]
    assert taken == [True] * LINES + [False] * 2 * LINES
    assert folding.takes(record("another place", line=2))
    clock.now = PLACE_SECONDS
    assert said(folding) == [f"no t{LINES}x (and {2 * LINES} lines like this, left out)"]
    assert folding.takes(record("no %s", "news"))


def test_memory_is_bounded_and_no_count_is_lost(folding: Folding) -> None:
    places = 1 + 2 * MAX_RUNS // LINES
    for line in range(places):
        for n in range(LINES):
            assert folding.takes(record("no %s", f"t{n}x", line=line))
            assert not folding.takes(record("no %s", f"t{n}x", line=line))
    assert len(folding._runs) == MAX_RUNS
    counted = said(folding) + [line.message for line in folding.rest()]
    assert len(counted) == places * LINES
    assert all("repeated once more" in text for text in counted)


def test_a_line_of_which_the_count_was_written_early_counts_anew(folding: Folding) -> None:
    first = record("no %s", "first")
    assert folding.takes(first)
    assert not folding.takes(first)
    for n in range(MAX_RUNS):
        assert folding.takes(record("no %s", f"t{n}x", line=2 + n // LINES))
    assert folding.takes(first)
    assert said(folding) == ["no first (repeated once more in the last 1 s)"]


def test_no_long_text_is_kept(folding: Folding) -> None:
    made = [record("no %s %s", "x" * 100_000, n, topic="t") for n in range(3)]
    assert [folding.takes(one) for one in made] == [True, False, False]
    (run,) = folding._runs.values()
    (place,) = folding._places.values()
    assert len(str(run.msg)) <= 8192
    assert (run.args, place.args == made[2].args) == ((), False)
    (line,) = folding.rest()
    assert line.message.endswith("xxx (repeated 2 times in the last 1 s)")


def test_the_end_says_what_is_counted(folding: Folding) -> None:
    for _ in range(3):
        folding.takes(record("no"))
    assert [line.message for line in folding.rest()] == ["no (repeated 2 times in the last 1 s)"]
    assert folding.rest() == []


def test_without_seconds_nothing_is_folded() -> None:
    folding = Folding(0)
    assert all(folding.takes(record("no")) for _ in range(2 * LINES))


def test_no_traceback_is_kept_alive(folding: Folding) -> None:
    class Big:
        pass

    def one() -> tuple[Any, weakref.ref[Big]]:
        big = Big()
        return failed(ValueError(big)), weakref.ref(big)

    for _ in range(2):
        made, ref = one()
        folding.takes(made)
        del made
        gc.collect()
        assert ref() is None
