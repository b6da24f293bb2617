"""Results: plain, bounded, without secrets."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from pyrmq.config.table import HIDDEN
from pyrmq.mcp.shown import MAX_TEXT, Cutting, page


@dataclass
class Account:
    access_key: str
    secret_key: str | None


def test_secrets_are_hidden_at_any_depth() -> None:
    value = {
        "rows": [Account("a", "s3cret"), {"password": "s3cret", "more": {"secretKey": "s3cret"}}]
    }
    shown = Cutting().plain(value)
    assert "s3cret" not in json.dumps(shown)
    assert shown["rows"][0] == {"access_key": "a", "secret_key": HIDDEN}


def test_long_texts_are_cut_and_said() -> None:
    cutting = Cutting()
    shown = cutting.plain({"a": "x" * (MAX_TEXT + 1), "b": "y" * MAX_TEXT})
    assert shown["a"].endswith(f"…[cut: {MAX_TEXT + 1} characters]")
    assert shown["b"] == "y" * MAX_TEXT
    assert len(cutting.notes) == 1


@pytest.mark.parametrize("limit", [300, 1000, 5000])
def test_a_result_fits_and_says_what_is_missing(limit: int) -> None:
    value = {"brokers": [{"name": b, "queues": list(range(1000, 2000))} for b in "ab"], "total": 7}
    cutting = Cutting()
    text = cutting.fit(cutting.plain(value), limit)
    assert len(text) <= limit
    found = json.loads(text)
    assert found["total"] == 7
    assert [b["name"] for b in found["brokers"]] == ["a", "b"]
    kept = [len(b["queues"]) for b in found["brokers"]]
    assert any(f"brokers[].queues shows {n} of 1000" in cutting.notes for n in kept)


def test_what_cannot_be_cut_is_left_out() -> None:
    cutting = Cutting()
    assert json.loads(cutting.fit({"a": "x" * 1000}, 100)) == {"cut": "the result was too large"}
    assert cutting.notes


def test_a_tower_of_lists_ends() -> None:
    value: object = 1
    for _ in range(100):
        value = [value]
    assert json.loads(Cutting().fit(Cutting().plain(value)))


def test_pages() -> None:
    assert page("abcde", 0, 2) == {"total": 5, "offset": 0, "next_offset": 2, "rows": ["a", "b"]}
    assert page("abcde", 4, 2) == {"total": 5, "offset": 4, "rows": ["e"]}
    assert page("abcde", 9, 2) == {"total": 5, "offset": 9, "rows": []}


def test_a_page_that_is_cut_says_where_the_next_one_begins() -> None:
    cutting = Cutting()
    found = json.loads(cutting.fit(cutting.plain(page(["x" * 50] * 100, 20, 60)), 2000))
    assert 0 < len(found["rows"]) < 60
    assert found["next_offset"] == 20 + len(found["rows"])
