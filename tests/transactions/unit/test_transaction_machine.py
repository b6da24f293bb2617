"""The table of transactions, and which events time and producers make."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.model.transaction import TransactionState
from pyrmq.txn.machine import TABLE, Action, Event, PendingHalf, Rules, State, ended, tick

DOC = Path(__file__).parents[3] / "docs/transactions.md"
RULES = Rules(transaction_time_out=6000, transaction_check_max=15, file_reserved_time=1_000_000)
TIMED = {Event.YOUNG, Event.DUE, Event.UNREACHABLE, Event.EXHAUSTED, Event.EXPIRED}


def half(born: int = 0, immunity: int = -1, checks: int = 0) -> PendingHalf:
    return PendingHalf(7, 1000, born, born, immunity, checks, "PG", "T")


def test_every_state_knows_every_event_that_can_happen_to_it() -> None:
    for state in State:
        for event in Event:
            possible = state is State.PENDING or event not in TIMED
            possible &= (state, event) != (State.DISCARDED, Event.TOO_LATE)
            possible &= event is not Event.OTHERWISE or state is State.SETTLED
            assert ((state, event) in TABLE) == possible, (state, event)


def test_the_document_shows_the_table() -> None:
    rows = {
        f"| {state.value} | {event.value} | {action.value} | {then.value} |"
        for (state, event), (action, then) in TABLE.items()
    }
    shown = {line for line in DOC.read_text().splitlines() if line.count("|") == 5}
    assert rows <= shown, rows - shown


def test_only_a_pending_half_is_delivered_or_dropped() -> None:
    for (state, event), (action, then) in TABLE.items():
        if action in (Action.DELIVER, Action.DROP, Action.ASK, Action.DISCARD):
            assert state is State.PENDING
        if state is State.SETTLED:
            assert then is State.SETTLED, "what is settled stays so"
        if then is State.PENDING and state is not State.PENDING:
            assert event is Event.RESUME


@pytest.mark.parametrize(
    ("age", "given_half", "reachable", "event"),
    [
        (6000, half(), True, Event.YOUNG),
        (6001, half(), True, Event.DUE),
        (6001, half(), False, Event.UNREACHABLE),
        (6001, half(immunity=7), True, Event.YOUNG),
        (7001, half(immunity=7), True, Event.DUE),
        (1, half(immunity=0), True, Event.DUE),
        (-1, half(), True, Event.DUE),
        (7000, half(checks=14), True, Event.DUE),
        (7000, half(checks=15), True, Event.EXHAUSTED),
        (7000, half(checks=15), False, Event.EXHAUSTED),
        (1_000_000, half(), False, Event.UNREACHABLE),
        (1_000_001, half(), False, Event.EXPIRED),
        (1_000_001, half(immunity=99_999), True, Event.EXPIRED),
    ],
)
def test_what_time_does(age: int, given_half: PendingHalf, reachable: bool, event: Event) -> None:
    assert tick(given_half, age, RULES, reachable) is event


@given(
    born=st.integers(-(2**63), 2**63 - 1),
    now=st.integers(0, 2**63 - 1),
    immunity=st.integers(-1, 2**31 - 1),
    checks=st.integers(0, 65535),
    reachable=st.booleans(),
)
def test_every_pending_half_has_an_event(
    born: int, now: int, immunity: int, checks: int, reachable: bool
) -> None:
    event = tick(half(born, immunity, checks), now, RULES, reachable)
    assert (State.PENDING, event) in TABLE


@pytest.mark.parametrize(
    ("word", "age", "immunity", "from_check", "event"),
    [
        (TransactionState.COMMIT, 999_999, None, False, Event.COMMIT),
        (TransactionState.ROLLBACK, 999_999, None, False, Event.ROLLBACK),
        (TransactionState.UNKNOWN, 999_999, 1, False, Event.UNKNOWN),
        (TransactionState.COMMIT, 6000, 1, False, Event.COMMIT),
        (TransactionState.COMMIT, 6001, 1, False, Event.TOO_LATE),
        (TransactionState.ROLLBACK, 9001, 9, False, Event.TOO_LATE),
        (TransactionState.COMMIT, 9000, 9, False, Event.COMMIT),
        (TransactionState.COMMIT, 9001, 9, True, Event.COMMIT),
    ],
)
def test_what_a_producer_says(
    word: TransactionState, age: int, immunity: int | None, from_check: bool, event: Event
) -> None:
    assert ended(word, age, immunity, from_check, RULES) is event
