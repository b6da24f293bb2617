from __future__ import annotations

import json

import pytest

from pyrmq.errors import SegmentOptionError
from pyrmq.segments.offsets import parse_assign, parse_offsets


def test_words_in_any_case() -> None:
    assert parse_offsets(" Earliest ", "starting_offsets") == "earliest"
    assert parse_offsets("LATEST", "ending_offsets") == "latest"


def test_offsets_by_queue() -> None:
    text = '{"T": {"a": {"0": 12, "7": -1}, "b": {"0": -2}}}'
    expected = {"T": {"a": {0: 12, 7: -1}, "b": {0: -2}}}
    assert parse_offsets(text, "starting_offsets") == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("yesterday", "does not parse"),
        ('{"T": {"a": {"0": 1}', "does not parse"),
        ("[1]", "no object"),
        ('{"T": 5}', "'T' has 5"),
        ('{"T": {"a": 5}}', "'T' of 'a' has 5"),
        ('{"T": {"a": [0]}}', "'T' of 'a' has [0]"),
        ('{"T": {"a": {"0": "12"}}}', "'12' is no offset"),
        ('{"T": {"a": {"0": 1.5}}}', "1.5 is no offset"),
        ('{"T": {"a": {"0": true}}}', "True is no offset"),
        ('{"T": {"a": {"0": -3}}}', "-3 is no offset"),
        ('{"T": {"a": {"0": 9223372036854775808}}}', "9223372036854775808 is no offset"),
        ('{"T": {"a": {"-1": 0}}}', "'-1' is no queue id"),
        ('{"T": {"a": {"2147483648": 0}}}', "2147483648 is no queue id"),
        ('{"T": {"a": {"x": 0}}}', "'x' is no queue id"),
        ('{"T": {"a": {"0": 1}}, "T": {}}', "'T' is there twice"),
        pytest.param("[" * 100_000, "does not parse", id="deep"),
    ],
)
def test_wrong_offsets_say_what_is_expected(text: str, part: str) -> None:
    with pytest.raises(SegmentOptionError) as caught:
        parse_offsets(text, "starting_offsets")
    told = str(caught.value)
    assert told.startswith("starting_offsets: ")
    assert part in told
    assert '{"topic": {"broker": {"queue id": offset}}}' in told
    assert len(told) < 500


def test_assign() -> None:
    assert parse_assign('{"T": {"a": [3, 0, 3]}}') == {"T": {"a": (0, 3)}}


@pytest.mark.parametrize(
    "text", ["{}", '{"T": {"a": []}}', '{"T": {"a": {"0": 1}}}', '{"T": {"a": [-1]}}', "x", "3"]
)
def test_wrong_assign_says_what_is_expected(text: str) -> None:
    with pytest.raises(SegmentOptionError, match=r"^assign: .*\[queue ids\]"):
        parse_assign(text)


def test_a_long_text_is_not_shown_whole() -> None:
    text = json.dumps({"T": {"a": {"0": "x" * 10_000}}})
    with pytest.raises(SegmentOptionError) as caught:
        parse_offsets(text, "ending_offsets")
    assert len(str(caught.value)) < 400
