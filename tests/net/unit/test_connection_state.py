"""What a connection may do next, as a table over everything that it depends on."""

from __future__ import annotations

from itertools import product

import pytest

from pyrmq.net.server.connection_state import (
    TRANSITIONS,
    Event,
    State,
    Step,
    next_step,
)

OPEN, MUTE, CLOSING, CLOSED = State.OPEN, State.MUTE, State.CLOSING, State.CLOSED

# The first row that fits says what follows. None: whatever it is.
# state, unsent, awaited, unconfirmed, full, more, stopping -> step
ROWS: list[tuple[tuple[object, ...], Step]] = [
    ((CLOSED, None, None, None, None, None, None), Step.CLOSE),
    ((None, True, None, None, None, None, None), Step.SEND),
    ((CLOSING, None, 0, 0, None, None, None), Step.CLOSE),
    ((CLOSING, None, None, None, None, None, None), Step.WAIT),
    ((None, None, None, None, True, None, None), Step.WAIT),
    ((None, None, None, None, None, True, None), Step.FEED),
    ((None, None, None, None, None, None, True), Step.WAIT),
    ((None, None, None, None, None, None, None), Step.READ),
]
FLAGS = (False, True)
ALL = list(product(State, FLAGS, (0, 1), (0, 1), FLAGS, FLAGS, FLAGS))


def fits(row: tuple[object, ...], facts: tuple[object, ...]) -> bool:
    return all(wanted in (None, fact) for wanted, fact in zip(row, facts, strict=True))


@pytest.mark.parametrize("state", State)
def test_next_step(state: State) -> None:
    for facts in (f for f in ALL if f[0] is state):
        _, unsent, awaited, unconfirmed, full, more, stopping = facts
        expected = next(
            step
            for row, step in ROWS
            if all(
                wanted is None or wanted == fact for wanted, fact in zip(row, facts, strict=True)
            )
        )
        found = next_step(
            state,
            unsent=unsent,
            awaited=awaited,
            unconfirmed=unconfirmed,
            full=full,
            more=more,
            stopping=stopping,
        )
        assert found is expected, facts


def test_transitions() -> None:
    """Nothing leads back, and every state ends."""
    order = list(State)
    for (state, _), after in TRANSITIONS.items():
        assert order.index(after) > order.index(state)
    for state in (OPEN, MUTE, CLOSING):
        assert TRANSITIONS[state, Event.END] is CLOSED
    assert TRANSITIONS[OPEN, Event.SEND_FAILED] is MUTE
    assert TRANSITIONS[OPEN, Event.PROTOCOL_ERROR] is CLOSING
    assert (OPEN, Event.ALL_ANSWERED) not in TRANSITIONS
    assert not any(state is CLOSED for state, _ in TRANSITIONS)


def test_a_connection_that_closes_answers_first() -> None:
    facts = {"unsent": False, "full": False, "more": True, "stopping": False}
    assert next_step(CLOSING, awaited=1, unconfirmed=0, **facts) is Step.WAIT
    assert next_step(CLOSING, awaited=0, unconfirmed=1, **facts) is Step.WAIT
    assert next_step(CLOSING, awaited=0, unconfirmed=0, **facts) is Step.CLOSE
