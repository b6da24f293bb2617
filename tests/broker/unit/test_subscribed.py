"""What subscriptions of consumers may take: of a connection, and of all."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.broker.tables import subscriptions
from pyrmq.broker.tables.subscriptions import (
    MEMBER_BYTES,
    SUBSCRIPTION_BYTES,
    TAG_BYTES,
    Subscribed,
    cost,
)
from pyrmq.errors import InvalidParameterError, SystemBusyError
from tests.support.build import FakeConnection

ONE: Any = FakeConnection()
OTHER: Any = FakeConnection()
A, B = ("consuming", "G"), ("producing", "G")


def test_cost() -> None:
    tags = {"topic": "T" * 10, "subString": "a||b", "tagsSet": ["aa", "bbbb", 7], "codeSet": [1, 2]}
    plain = {"topic": "U", "subString": None, "tagsSet": None}
    member = MEMBER_BYTES + 2
    assert cost({"groupName": "CG", "subscriptionDataSet": [tags, plain, "none"]}) == (
        5,
        member + 2 * SUBSCRIPTION_BYTES + 14 + 6 + 5 * TAG_BYTES + 1,
    )
    assert cost({"groupName": "CG"}) == (0, member)
    assert cost({"groupName": "CG", "subscriptionDataSet": {"a": 1}}) == (0, member)


def test_tags_that_are_left_to_the_broker_cost_the_same() -> None:
    sub = {"topic": "T", "subString": "a||b||c"}
    stated = {**sub, "tagsSet": ["a", "b", "c"], "codeSet": [97, 98, 99]}
    left = cost({"groupName": "G", "subscriptionDataSet": [sub]})
    count, size = cost({"groupName": "G", "subscriptionDataSet": [stated]})
    assert left == (3, size - 3)
    assert count == 6
    sql = {**sub, "expressionType": "SQL92"}
    assert cost({"groupName": "G", "subscriptionDataSet": [sql]})[0] == 0


def test_groups_of_a_connection_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_BYTES_PER_CONNECTION", 100)
    taken = Subscribed()
    taken.check(ONE, {A: 60, B: 40})
    taken.take(ONE, A, 60)
    with pytest.raises(InvalidParameterError, match="101 bytes"):
        taken.check(ONE, {B: 41})
    taken.check(ONE, {A: 100})
    taken.check(OTHER, {B: 100})
    taken.forget(ONE, A)
    taken.check(ONE, {B: 100})


def test_all_connections_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_BYTES", 100)
    taken = Subscribed()
    taken.take(ONE, A, 60)
    taken.take(OTHER, A, 40)
    with pytest.raises(SystemBusyError):
        taken.check(OTHER, {A: 41})
    taken.check(OTHER, {A: 40})
    taken.check(OTHER, {A: 1})
    taken.take(ONE, A, 10)
    taken.check(OTHER, {A: 90})
    for connection in (ONE, OTHER):
        taken.forget(connection, A)
        taken.forget(connection, ("consuming", "unknown"))
    assert taken._taken == {}
    assert taken._total == 0
