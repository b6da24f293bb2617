"""Queue locks of orderly consumers."""

from __future__ import annotations

import pytest

from pyrmq.broker.locks import LIFETIME, QueueLocks
from pyrmq.model.message import MessageQueue

Q = [MessageQueue("T", "b", n) for n in range(4)]


@pytest.fixture
def locks() -> QueueLocks:
    return QueueLocks()


def test_one_holder_per_queue(locks: QueueLocks) -> None:
    assert locks.lock("g", "a", Q[:3], 0) == Q[:3]
    assert locks.lock("g", "b", Q, 1) == [Q[3]]
    assert locks.lock("g", "a", Q, 2) == Q[:3]


def test_groups_are_apart(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q, 0)
    assert locks.lock("h", "b", Q, 0) == Q
    locks.unlock("h", "b", Q)
    assert locks.lock("g", "b", Q, 0) == []


def test_a_lock_runs_out(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q[:1], 0)
    assert locks.lock("g", "b", Q[:1], LIFETIME) == []
    assert locks.lock("g", "b", Q[:1], LIFETIME + 0.1) == Q[:1]
    assert locks.lock("g", "a", Q[:1], LIFETIME + 0.2) == []


def test_renewing_extends(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q[:1], 0)
    locks.lock("g", "a", Q[:1], 50)
    assert locks.lock("g", "b", Q[:1], 50 + LIFETIME) == []


def test_being_refused_does_not_extend(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q[:1], 0)
    locks.lock("g", "b", Q[:1], 59)
    assert locks.lock("g", "b", Q[:1], 61) == Q[:1]


def test_only_the_holder_unlocks(locks: QueueLocks) -> None:
    locks.lock("g", "a", Q, 0)
    locks.unlock("g", "b", Q)
    locks.unlock("other", "a", Q)
    assert locks.lock("g", "b", Q, 1) == []
    locks.unlock("g", "a", Q[:1])
    assert locks.lock("g", "b", Q, 1) == Q[:1]


def test_any_live(locks: QueueLocks) -> None:
    assert not locks.any_live("g", 0)
    locks.lock("g", "a", Q[:1], 0)
    assert locks.any_live("g", LIFETIME)
    assert not locks.any_live("h", 0)
    assert not locks.any_live("g", LIFETIME + 1)
    locks.lock("g", "a", Q[1:2], 70)
    assert locks.any_live("g", 80)
    locks.unlock("g", "a", Q)
    assert not locks.any_live("g", 80)
