"""What the pages of groups make of the answers of brokers."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.admin.connections import ConsumerConnections
from pyrmq.admin.consume_stats import QueueProgress, QueueTimes
from pyrmq.admin.group_lags import GroupLag, lags_from_json
from pyrmq.admin.groups import GroupAt, GroupConfig
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.console.views.groups import added, named, rows_of, untouched
from pyrmq.console.views.one_group import GroupNow, GroupSettings, by_topic, differences
from pyrmq.console.views.summary import summary_of
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.model.message import MessageQueue


def key(topic: str, queue: int = 0) -> tuple[tuple[str, object], ...]:
    return (("brokerName", "a"), ("queueId", queue), ("topic", topic))


def progress(topic: str, end: int, consumed: int, queue: int = 0, first: int = 0) -> QueueProgress:
    return QueueProgress(MessageQueue(topic, "a", queue), end, consumed, consumed, 0, first)


def now(**more: Any) -> GroupNow:
    of: dict[str, Any] = {
        "topics": [],
        "rate": 0.0,
        "deleted_unread": 0,
        "why_empty": "",
        "online": None,
    }
    return GroupNow("g", **{**of, "members_known": True, **more})


def test_names_of_groups() -> None:
    topics = ["%RETRY%g", "%RETRY%g_orders", "%RETRY%h+orders", "orders", "%DLQ%x", "%RETRY%"]
    assert named(topics, []) == ["g", "h"], "a retry topic of POP names no group of its own"
    assert named(topics, ["g_orders", "fresh"]) == ["fresh", "g", "g_orders", "h"]


def test_a_hundred_thousand_groups() -> None:
    names = named((f"%RETRY%team_{i}_consumers" for i in range(100_000)), [])
    rows = rows_of(names, {names[0]}, {names[1]: GroupLag(5)})
    assert len(rows) == 100_000
    assert rows[0].paused
    assert [row.lag for row in rows[:3]] == [None, 5, None]


def test_lags_of_all_groups() -> None:
    def row(end: int, consumed: int, **more: int) -> dict[str, int]:
        return {"brokerOffset": end, "consumerOffset": consumed, **more}

    answer = {
        "consumeStatsList": [
            {"g": [
                {"consumeTps": 1.5, "offsetTable": {key("t"): row(10, 4, minOffset=6)}},
                {"consumeTps": 2, "offsetTable": {key("u"): row(5, -1, minOffset=0)}},
            ]},
            {"h": [{"consumeTps": "x", "offsetTable": {key("t"): row(3, 3), key("t", 1): "bad"}}]},
        ]
    }  # fmt: skip
    found = lags_from_json(answer)
    assert found["g"] == GroupLag(11, 2, 3.5, 2, frozenset("tu"))
    assert found["h"] == GroupLag(0, None, 0.0, 1, frozenset("t")), "Apache's say no first offset"
    both = added([found, {"g": GroupLag(1, 0, 0.5, 1, frozenset("v"))}])
    assert both["g"] == GroupLag(12, 2, 4.0, 3, frozenset("tuv"))
    with pytest.raises(ProtocolError):
        lags_from_json({"consumeStatsList": [{"g": [{"offsetTable": {"no queue": {}}}]}]})


def test_topics_that_are_subscribed_to_and_not_consumed_yet() -> None:
    table = {t: {"topic": t, "subString": "*"} for t in ("%RETRY%g", "new", "old")}
    online = ConsumerConnections.from_json("g", {"subscriptionTable": table})
    assert untouched(online, {"old"}) == ["new"]
    broadcast = {"subscriptionTable": table, "messageModel": "BROADCASTING"}
    assert untouched(ConsumerConnections.from_json("g", broadcast), set()) == []


def test_lag_by_topic() -> None:
    queues = [
        progress("%RETRY%g", 9, 0),
        progress("few", 3, 2),
        progress("many", 20, 10, 0, first=12),
        progress("many", 7, 7, 1),
    ]
    times = {
        MessageQueue("many", "a", n): QueueTimes(MessageQueue("many", "a", n), 0, 0, 0, 5000 + n)
        for n in range(2)
    }
    topics = by_topic(queues, times)
    assert [t.topic for t in topics] == ["many", "few", "%RETRY%g"]
    many, few, retry = topics
    assert (many.lag, many.gone, many.behind_ms) == (10, 2, 5000)
    assert [q.behind_ms for q in many.queues] == [5000, 0], "a queue without lag is not behind"
    assert (few.lag, few.behind_ms) == (1, None), "the broker did not tell"
    assert retry.retried
    found = now(topics=topics)
    assert (found.lag, found.gone, found.behind_ms) == (20, 2, 5000)
    assert now(topics=by_topic([progress("t", 3, 3)], {})).behind_ms == 0


def test_times_of_a_queue() -> None:
    row = {
        "messageQueue": {"topic": "t", "brokerName": "a", "queueId": 3},
        "delayTime": -7,
        "minTimeStamp": 5,
    }
    assert QueueTimes.from_json(row) == QueueTimes(MessageQueue("t", "a", 3), 5, 0, 0, 0)


def test_members_that_subscribe_differently() -> None:
    answer = {
        "connectionSet": [
            {"clientId": "1", "subscriptions": {"t": "A", "u": "*"}},
            {"clientId": "2", "subscriptions": {"t": "B", "u": "*"}},
            {"clientId": "3", "subscriptions": {"t": "A"}},
            {"clientId": "old"},
        ]
    }
    found = now(online=ConsumerConnections.from_json("g", answer)).differences
    assert [(d.topic, d.wanted) for d in found] == [
        ("t", {"A": ["1", "3"], "B": ["2"]}),
        ("u", {"": ["3"], "*": ["1", "2"]}),
    ]
    assert differences({"1": {"t": "*"}, "2": {"t": "*"}}) == []


def test_settings_in_which_brokers_differ() -> None:
    def at(name: str, **more: Any) -> GroupAt:
        return GroupAt("c", name, f"{name}:1", GroupConfig("g", **more))

    settings = GroupSettings([at("a"), at("b", consume_enable=False, retry_max_times=3)])
    rows = {name: (shown, differ) for name, shown, differ in settings.rows}
    assert rows["retryMaxTimes"] == (["16", "3"], True)
    assert rows["consumeEnable"] == (["yes", "no"], True)
    assert rows["retryQueueNums"] == (["1", "1"], False)
    assert (settings.paused, settings.partly_paused) == (False, True)
    assert GroupSettings([at("a", consume_enable=False)]).paused
    assert not GroupSettings([]).paused
    assert GroupSettings([]).rows == []


def test_what_is_said_of_a_change() -> None:
    good: Outcome[None] = Outcome("a:1")
    bad: Outcome[None] = Outcome("b:1", error=ClientError("no room"))
    assert summary_of(Outcomes([good]), "Done") == ("Done on 1 server.", False)
    assert summary_of(Outcomes([good, bad]), "Done") == (
        "Done on 1 server. Not on 1: b:1: no room",
        True,
    )
    with pytest.raises(ClientError, match="no room"):
        summary_of(Outcomes([bad]), "Done")
    with pytest.raises(ClientError, match="no server"):
        summary_of(Outcomes(), "Done")
