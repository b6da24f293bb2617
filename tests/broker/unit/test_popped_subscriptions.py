"""What groups without members have popped is known for some minutes."""

from __future__ import annotations

import pytest

from pyrmq.broker.tables import popped_subscriptions as module
from pyrmq.broker.tables.popped_subscriptions import KEPT, PoppedSubscriptions
from pyrmq.model.subscription import Subscription


def test_the_last_one_counts_for_some_minutes() -> None:
    times = [0.0]
    popped = PoppedSubscriptions(lambda: times[0])
    for tags in ("A", "B"):
        popped.note("G", Subscription.parse("T", tags))
    found = popped.find("G", "T")
    assert found is not None
    assert found.sub_string == "B"
    assert popped.find("H", "T") is popped.find("G", "U") is None
    times[0] = KEPT
    assert popped.find("G", "T") is None


def test_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_POPPED", 2)
    popped = PoppedSubscriptions(lambda: 0.0)
    for topic in ("T", "U", "T", "V"):
        popped.note("G", Subscription.parse(topic, "*"))
    assert [popped.find("G", t) is not None for t in "TUV"] == [True, False, True]
    popped.note("G", Subscription.parse("W", "x" * 2000))
    assert popped.find("G", "W") is None
