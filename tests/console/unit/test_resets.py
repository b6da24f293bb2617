"""Resets in the console: what a form asks for, and that what was shown is what is moved."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pyrmq.admin.offset_moves import START, ResetPreview
from pyrmq.admin.offsets import END, QueueReset
from pyrmq.console.views.resets import Goal, as_shown, fields, goal, moment
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue


def plan(*rows: tuple[str, int, int, int, int]) -> ResetPreview:
    """Of broker, queue, first offset, next offset and goal."""
    queues = [
        QueueReset(MessageQueue("t", broker, queue), to, end, 3, to, first)
        for broker, queue, first, end, to in rows
    ]
    return ResetPreview("g", "t", queues, [])


def test_goals() -> None:
    assert goal({"topic": "t", "to": "earliest"}) == Goal("t", "earliest", "", None, START)
    assert goal({"topic": "t", "to": "latest", "broker": "b"}).time_ms == END
    assert goal({"topic": "t", "to": "time", "time": "30m"}, 10_000_000).time_ms == 8_200_000
    assert goal({"topic": " t ", "to": "latest", "broker": "b"}).text == (
        "latest in topic t on broker b"
    )
    for wrong in ({}, {"topic": "t"}, {"topic": "t", "to": "never"}, {"to": "latest"}):
        with pytest.raises(ClientError, match="choose"):
            goal(wrong)
    with pytest.raises(ClientError, match="no time"):
        goal({"topic": "t", "to": "time", "time": "soon"})
    with pytest.raises(ClientError, match="a time is missing: write now"):
        goal({"topic": "t", "to": "time"})


@pytest.mark.parametrize(
    "text", ["", "soon", "30", "30x", "-5m", "2026-13-01", "٣٠m", "99999999999999999", "0001-01-01"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ClientError):
        moment(text)


def test_times() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moment("2026-01-31T12:00Z") == at.timestamp() * 1000
    assert moment("1700000000000") == 1_700_000_000_000
    assert moment("9d", 1000) == 1, "never START, nor END"


def test_the_move_is_what_was_shown() -> None:
    before = plan(("a", 0, 0, 10, 10), ("b:1", 0, 2, 8, 2))
    shown = fields(before)
    later = plan(("a", 0, 0, 15, 15), ("b:1", 0, 4, 9, 4))
    moved = as_shown(later, shown)
    assert [(q.queue.broker_name, q.offset) for q in moved.queues] == [("a", 10), ("b:1", 4)], (
        "what came since is not skipped, what was deleted since is"
    )


@pytest.mark.parametrize(
    "later",
    [
        plan(("a", 0, 0, 10, 10)),
        plan(("a", 0, 0, 10, 10), ("a", 1, 0, 10, 10), ("a", 2, 0, 1, 1)),
        plan(("a", 0, 0, 10, 10), ("a", 1, 0, 9, 9)),
        plan(),
    ],
    ids=["a queue is gone", "one came", "one became shorter", "all are gone"],
)
def test_queues_that_changed_since_the_preview(later: ResetPreview) -> None:
    shown = fields(plan(("a", 0, 0, 10, 10), ("a", 1, 0, 10, 10)))
    with pytest.raises(ClientError, match="preview again"):
        as_shown(later, shown)


@pytest.mark.parametrize("field", ["", "0:5", "x:5:a", "0:-5:a", "0:99999999999999999999:a"])
def test_a_damaged_form(field: str) -> None:
    with pytest.raises(ClientError, match="damaged"):
        as_shown(plan(("a", 0, 0, 10, 10)), [field])
