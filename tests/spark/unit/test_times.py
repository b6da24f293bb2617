"""Times in options: milliseconds, ISO text with and without zones, by topic, broker and queue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_ext.option_table import TABLE
from spark_ext.times import moment

duration = TABLE["maxtriggerdelay"].parse
queue_times = TABLE["startingoffsetsbytimestamp"].parse
NOON = 1_769_860_800_000


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("1769860800000", NOON),
        (" 0 ", 0),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T13:00:00+01:00", NOON),
        ("2026-01-31T13:00+01", NOON),
        ("2026-01-31 06:30:00-05:30", NOON),
        ("2026-01-31T12:00", NOON),
        ("2026-01-31", NOON - 12 * 3_600_000),
        ("2026-01-31T12:00:00.0001Z", NOON + 1),
        ("2026-01-31 13:00 Europe/Berlin", NOON),
        ("2026-07-31T14:00[Europe/Berlin]", NOON + 181 * 86_400_000),
        ("2026-01-31T13:00+01:00[Europe/Berlin]", NOON),
        ("2026-01-31T12:00Z[UTC]", NOON),
        ("2026-01-31 12:00 UTC", NOON),
    ],
)
def test_moments(text: str, means: int) -> None:
    assert moment(text) == means


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1769860800", "seconds would be 2026-01-31T12:00:00Z: give 1769860800000"),
        ("5", "5 ms is 1970-01-01"),
        ("-1", "not -1"),
        ("-1769860800000", "not -1769860800000"),
        ("1769860800000000", "as microseconds .* give 1769860800000"),
        ("1769860800000000000", "as nanoseconds .* give 1769860800000"),
        ("9" * 19, "microseconds|nanoseconds|is no time"),
        ("yesterday", "2026-01-31T12:00:00Z, .* not 'yesterday'"),
        ("2026-02-30", "not '2026-02-30'"),
        ("2026-01-31T25:00Z", "must be"),
        ("1969-12-31T23:59Z", "before 1970"),
        ("2026-01-31T12:00+02:00 Europe/Berlin", "two zones"),
        ("2026-01-31T12:00 Europe/Atlantis", "no time zone 'Europe/Atlantis'"),
        ("2026-03-29T02:30 Europe/Berlin", "does not exist in Europe/Berlin"),
        ("2026-W05-6", "not '2026-W05-6'"),
        ("2026-01-31T12:00 ../../etc/passwd", "must be"),
        ("", "must be"),
        ("1e12", "must be"),
        ("12345678901234567890123", "must be"),
    ],
)
def test_what_is_no_moment(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        moment(text)


def test_times_by_queue() -> None:
    given = {"A": "2026-01-31T12:00Z", "B": {"b": NOON, "c": {"0": str(NOON), "7": "2026-01-31"}}}
    assert queue_times(json.dumps(given)) == {
        "A": NOON,
        "B": {"b": NOON, "c": {0: NOON, 7: NOON - 12 * 3_600_000}},
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{", "not valid JSON"),
        ([], "must be a JSON object"),
        ({"A": 1769860800}, "for 'A' must be .* give 1769860800000"),
        ({"A": {"b": {"0": -1}}}, "for 'A', 'b', queue 0 must be"),
        ({"A": {"b": {"x": NOON}}}, "'x' for 'A', 'b', which is no queue id"),
        ({"A": {"b": {str(2**31): NOON}}}, "no queue id"),
        ({"A": {"b": [NOON]}}, "expected"),
        ({"A": 1.5}, "expected"),
        ({"A": True}, "expected"),
        ({"A": {}}, "empty object"),
        ({}, "empty object"),
        ('{"A": 0, "A": 0}', "key 'A' twice"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply|characters"),
    ],
)
def test_what_is_no_times_by_queue(given: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        queue_times(given if isinstance(given, str) else json.dumps(given))


def test_durations() -> None:
    given = ("15m", "30s", "500", "500ms", "2h", "1 d", "1500us")
    minute = 60_000
    assert [duration(one) for one in given] == [
        15 * minute, 30_000, 500, 500, 120 * minute, 1440 * minute, 2,
    ]  # fmt: skip
    for wrong in ("0", "-5s", "5 weeks", "", "1.5s", "999999999999999d"):
        with pytest.raises(ValueError, match="must be"):
            duration(wrong)
