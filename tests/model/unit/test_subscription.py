"""Tag expressions and tag hashes."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq import engine
from pyrmq.errors import SubscriptionError
from pyrmq.model.subscription import Subscription, java_hash
from tests.support import records


@given(st.text())
def test_java_hash_agrees_with_the_engine(text: str) -> None:
    assert java_hash(text) == engine.java_hash(text) == records.java_hash(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("TagA", 2598919), ("CANCELLED", -1031784143), ("ä", 0xE4), ("😀", 1772899)],
)
def test_known_hashes(text: str, code: int) -> None:
    assert java_hash(text) == code


@pytest.mark.parametrize("expression", [None, "", "*", "  ", " * "])
def test_all(expression: str | None) -> None:
    sub = Subscription.parse("T", expression, 5)
    assert (sub.sub_string, sub.tags, list(sub.tag_codes)) == ("*", frozenset(), [])
    assert sub.wants(None)
    assert sub.wants("anything")
    assert sub.version == 5


@pytest.mark.parametrize("expression", ["TagA||TagB", " TagA  ||TagB||", "|| TagB || TagA||TagA"])
def test_tags(expression: str) -> None:
    sub = Subscription.parse("T", expression)
    assert sub.tags == {"TagA", "TagB"}
    assert list(sub.tag_codes) == sorted([java_hash("TagA"), java_hash("TagB")])
    assert sub.tag_codes.typecode == "i"
    assert sub.wants("TagA")
    assert not sub.wants("TagC")
    assert not sub.wants(None)


def test_colliding_hashes_are_one_code_but_two_names() -> None:
    assert java_hash("Aa") == java_hash("BB")
    sub = Subscription.parse("T", "Aa")
    assert not sub.wants("BB")
    assert list(Subscription.parse("T", "Aa||BB").tag_codes) == [java_hash("BB")]


def test_a_single_bar_separates_nothing() -> None:
    assert Subscription.parse("T", "a|b").tags == {"a|b"}


@pytest.mark.parametrize("expression", ["||", " || ||  "])
def test_no_tag_at_all(expression: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        Subscription.parse("T", expression)
    assert caught.value.code == 23


def test_other_expression_types_are_not_parsed() -> None:
    sub = Subscription.parse("T", "a > 1 || b", expression_type="SQL92")
    assert (sub.sub_string, sub.expression_type, sub.tags) == ("a > 1 || b", "SQL92", frozenset())
    assert not sub.tag_codes


@given(st.sets(st.text("abäß-1", min_size=1), max_size=4), st.integers(0, 1 << 50))
def test_json_round_trip(tags: set[str], version: int) -> None:
    sub = Subscription.parse("T", " || ".join(sorted(tags)), version)
    assert Subscription.from_json(sub.to_json()) == sub


def test_as_go_states_it() -> None:
    sub = Subscription.from_json(
        {
            "topic": "T", "subString": "TagA", "tagsSet": ["TagA"], "subVersion": "17",
            "codeSet": ["2598919", 2598919, "x", 1 << 31, -1 << 31, None, True],
            "expressionType": None,
        }
    )  # fmt: skip
    assert sub.tag_codes == array("i", [-1 << 31, 2598919])
    assert (sub.version, sub.expression_type, sub.tags) == (17, "TAG", {"TagA"})


def test_json_with_nothing_in_it() -> None:
    sub = Subscription.from_json({"tagsSet": 1, "codeSet": {}})
    assert (sub.topic, sub.sub_string, sub.version) == ("", "*", 0)
    assert not sub.tags
    assert not sub.tag_codes


@pytest.mark.parametrize("codes", [None, [], ["x"]])
def test_a_client_that_leaves_the_codes_to_the_broker(codes: list[str] | None) -> None:
    """No codes would mean all messages."""
    value = {"topic": "T", "subString": " a || b ", "tagsSet": [], "codeSet": codes}
    sub = Subscription.from_json(value)
    assert sub.tag_codes == Subscription.parse("T", "a||b").tag_codes
    assert sub.tags == {"a", "b"}
    assert not Subscription.from_json({**value, "subString": "*"}).tag_codes


def test_too_many_codes_are_refused() -> None:
    with pytest.raises(SubscriptionError, match="more than 1024 tag codes"):
        Subscription.from_json({"topic": "T", "subString": "a", "codeSet": list(range(1025))})
