"""One record is one line, in text and in JSON, whatever is in it."""

from __future__ import annotations

import json
import logging
import re

import pytest

from pyrmq.logs.lines import MAX_MESSAGE, MAX_TRACE, JsonLines, Line, LineFormatter, TextLines
from tests.logs.records import failed, record

HOSTILE = [
    "a\nERROR own.store: forged",
    "a\r\x1b[2J\x1b]0;owned\x07",
    '","level":"CRITICAL","x":"',
    "\u202egnp.exe\u2066",
    "\u2028\u2029\x85\0\x7f\x9b31m",
    "\ud800",
]


def test_text_says_what_the_message_does_not() -> None:
    line = Line.of(record("offset of %s not written", "orders", topic="orders", queue=3))
    line = Line(0.5, line.level, line.logger, line.message, line.fields)
    text = TextLines()(line)
    assert re.fullmatch(
        r"(1969|1970)-\d\d-\d\d \d\d:\d\d:00,500 WARNING own\.x: "
        r"offset of orders not written \[queue=3\]",
        text,
    )


def test_a_part_of_a_word_does_not_say_it() -> None:
    text = TextLines()(Line.of(record("of orders-2 and 10.0.0.1", topic="orders", queue=0)))
    assert text.endswith("of orders-2 and 10.0.0.1 [topic=orders queue=0]")


def test_text_names_the_server_where_several_write() -> None:
    assert " WARNING [broker-a] own.x: hello" in TextLines("broker-a")(Line.of(record("hello")))


def test_json_has_all_of_it() -> None:
    made = record("offset of %s", "orders", topic="orders", queue=0)
    made.trace_id, made.span_id, made.created = "ab", "cd", 0.25
    assert json.loads(JsonLines("broker-a")(Line.of(made))) == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "WARNING",
        "logger": "own.x",
        "message": "offset of orders",
        "server": "broker-a",
        "topic": "orders",
        "queue": 0,
        "trace_id": "ab",
        "span_id": "cd",
    }


def test_an_exception_is_a_field_or_follows_indented() -> None:
    line = Line.of(failed(ValueError("a\nINFO forged\x1b")))
    found = json.loads(JsonLines()(line))
    assert found["exception"].endswith("ValueError: a\nINFO forged\x1b")
    first, *rest = TextLines()(line).split("\n")
    assert first.endswith("it failed")
    assert all(one.startswith("    ") and one.isprintable() for one in rest)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_their_place(name: str) -> None:
    line = Line.of(record("of %s", name, topic=name, level=logging.INFO))
    text, made = TextLines()(line), JsonLines()(line)
    assert text.isprintable()
    assert made.isprintable()
    found = json.loads(made)
    assert (found["level"], set(found)) == (
        "INFO",
        {"time", "level", "logger", "message", "topic"},
    )
    assert found["message"].startswith("of ")


def test_no_line_is_longer_than_the_bounds() -> None:
    line = Line.of(record("%s", "\n" * 100_000))
    assert len(line.message) < MAX_MESSAGE + 50
    assert line.message.endswith("… (100000 characters)")
    trace = Line.of(failed(ValueError("y" * 100_000))).exception
    assert len(trace) == MAX_TRACE + 1
    text = LineFormatter("%(levelname)s %(message)s").format(record("%s", "\n" * 100_000))
    assert len(text) < 3 * MAX_MESSAGE
