"""How many lines of one kind a log gets."""

from __future__ import annotations

import logging

from pyrmq.cli.logs import LINES, MAX_MESSAGE, SECONDS, FewerLines, LineFormatter


def record(text: str, *args: object, line: int = 1) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, "x.py", line, text, args, None)


def test_who_floods_the_log_is_counted() -> None:
    now = 0.0
    fewer = FewerLines(lambda: now)
    kept = [fewer.filter(record("%d of many", n)) for n in range(3 * LINES)]
    assert kept == [True] * LINES + [False] * 2 * LINES
    assert fewer.filter(record("another", line=2))
    now = SECONDS
    told = record("%s%%", "peer %s")
    assert fewer.filter(told)
    assert told.getMessage() == f"peer %s% (and {2 * LINES} lines like this, left out)"
    plain = record("%d", 5)
    assert fewer.filter(plain)
    assert plain.getMessage() == "5"


def test_no_line_is_longer_than_the_bound() -> None:
    line = LineFormatter("%(levelname)s %(message)s").format(record("%s", "\n" * 100_000))
    assert len(line) < 3 * MAX_MESSAGE
    assert line.endswith("… (100000 characters)")
