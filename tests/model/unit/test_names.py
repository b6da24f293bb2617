"""Which names are allowed, and which are the system's."""

from __future__ import annotations

import pytest

from pyrmq.errors import InvalidParameterError
from pyrmq.model import names

GOOD = ["a", "TopicTest", "%RETRY%g", "a|b-c_d", "0", "%"]
BAD = ["", " ", "a b", "a.b", "a/b", "../x", "a\n", "\n", "ä", "a\0", "a\\b", "a:b", "a@b"]


@pytest.mark.parametrize("name", GOOD)
def test_good_names(name: str) -> None:
    names.check_topic(name)
    names.check_group(name)


@pytest.mark.parametrize("name", BAD)
def test_bad_names(name: str) -> None:
    for check in (names.check_topic, names.check_group):
        with pytest.raises(InvalidParameterError) as caught:
            check(name)
        assert caught.value.code == 29


@pytest.mark.parametrize(
    ("prefix", "limit"), [("", 127), ("%RETRY%", 255), ("%DLQ%", 255), ("%SYS%", 127)]
)
def test_topic_length(prefix: str, limit: int) -> None:
    names.check_topic(prefix.ljust(limit, "a"))
    with pytest.raises(InvalidParameterError):
        names.check_topic(prefix.ljust(limit + 1, "a"))


def test_group_length() -> None:
    names.check_group("g" * 248)
    names.check_topic(names.retry_topic("g" * 248))
    with pytest.raises(InvalidParameterError):
        names.check_group("g" * 256)


def test_a_consumer_group_has_room_for_the_names_of_its_topics() -> None:
    longest = "g" * 248
    names.check_consumer_group(longest)
    names.check_topic(names.retry_topic(longest))
    names.check_topic(names.DLQ_PREFIX + longest)
    for group in (longest + "g", "g" * 255):
        names.check_group(group)
        with pytest.raises(InvalidParameterError, match="at most 248") as caught:
            names.check_consumer_group(group)
        assert len(str(caught.value)) < 500
    with pytest.raises(InvalidParameterError, match="illegal"):
        names.check_consumer_group("a b")


def test_a_long_bad_name_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidParameterError) as caught:
        names.check_topic("ä" * 100_000)
    assert len(str(caught.value)) < 500


def test_system_topics() -> None:
    for name in ("TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "rmq_sys_anything"):
        assert names.is_system_topic(name)
    for name in ("T", "TBW1020", "xrmq_sys_", "%RETRY%TBW102", "RMQ_SYS_TRACE_TOPIC"):
        assert not names.is_system_topic(name)


def test_clients_may_send_to_some_system_topics() -> None:
    assert names.NO_SEND_TOPICS < names.SYSTEM_TOPICS
    assert {"TBW102", "BenchmarkTest"}.isdisjoint(names.NO_SEND_TOPICS)
