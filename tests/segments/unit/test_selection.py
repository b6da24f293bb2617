from __future__ import annotations

import pickle
from typing import Any

import pytest

from pyrmq.errors import SegmentOptionError
from pyrmq.segments.selection import (
    Selection,
    parse_tags,
    parse_topics,
    unknown_topic,
)

SYSTEM = [
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "rmq_sys_wheel_timer",
]


@pytest.mark.parametrize("topic", SYSTEM)
def test_system_topics_need_their_name_or_the_option(topic: str) -> None:
    assert not Selection().selects(topic)
    assert not Selection(pattern=".*").selects(topic)
    assert Selection(include_system_topics=True).selects(topic)
    assert Selection(topics=(topic,)).selects(topic)
    assert Selection(assign={topic: {"a": (0,)}}).selects(topic)


@pytest.mark.parametrize("topic", ["Orders", "%RETRY%group", "%DLQ%group"])
def test_retry_and_dead_letters_are_user_topics(topic: str) -> None:
    assert Selection().selects(topic)


def test_a_pattern_is_for_the_whole_name() -> None:
    chosen = Selection(pattern="Order.")
    assert chosen.selects("Orders")
    assert not chosen.selects("Orders2")
    assert not chosen.selects("MyOrders")


def test_a_selection_crosses_processes() -> None:
    chosen = Selection(pattern="A.*", tags=("t",), starting_offsets={"AB": {"x": {0: 5}}})
    again = pickle.loads(pickle.dumps(chosen))
    assert again == chosen
    assert again.selects("AB")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"topics": ("A",), "pattern": "B"}, "topics and pattern are given"),
        ({"pattern": "("}, "no regular expression"),
        ({"assign": {}}, "it names no queue"),
        ({"topics": ("",)}, "no topic name"),
        ({"topics": ("x" * 300,)}, "no topic name"),
        ({"key": " "}, "key is empty"),
        ({"starting_offsets": "first"}, "expected earliest, latest"),
        ({"ending_offsets": "earliest"}, "earliest is no end"),
        ({"ending_offsets": {"A": {"b": {0: -2}}}}, "earliest is no end"),
        ({"start_time": -1}, "start_time: -1 is no time"),
        ({"end_time": 2**60}, "is no time"),
        ({"start_time": 5, "end_time": 4}, "is before start_time"),
        ({"timestamp_strategy": "earliest"}, "expected error or latest"),
        ({"queues": (-1,)}, "are no queue ids"),
        ({"queues": (0,), "assign": {"A": {"b": (0,)}}}, "both name queues"),
    ],
)
def test_contradictions(options: dict[str, Any], part: str) -> None:
    with pytest.raises(SegmentOptionError) as caught:
        Selection(**options)
    assert part in str(caught.value)


def test_topics_of_a_comma_list() -> None:
    assert parse_topics("A, B,A") == ("A", "B")
    with pytest.raises(SegmentOptionError, match="empty topic"):
        parse_topics("A,,B")


def test_tags_of_an_expression() -> None:
    assert parse_tags("*") is None
    assert parse_tags(" A || B||A ") == ("A", "B")


@pytest.mark.parametrize("text", ["", "A ||", "A || || B", "a > 5", "A | B", "TAGS='x'", "A B"])
def test_other_expressions_are_errors(text: str) -> None:
    with pytest.raises(SegmentOptionError, match=r"^tags: "):
        parse_tags(text)


def test_unknown_topic_names_the_nearest() -> None:
    known = ["Orders", "Payments", "SCHEDULE_TOPIC_XXXX"]
    assert "did you mean Orders?" in str(unknown_topic("orders", known))
    assert "there are 2 topics: Orders, Payments" in str(unknown_topic("zzz", known))
    assert "no topic yet" in str(unknown_topic("zzz", []))
