"""Counts and skew of a few messages with known sums."""

from __future__ import annotations

from typing import Any

import pytest

from spark_ext.jobs import hot
from tests.spark.e2e.jobs.conftest import Frame


def message(
    topic: str, queue: int, tag: str | None, keys: str | None, body: int, broker: str = "a"
) -> tuple[Any, ...]:
    return topic, broker, queue, tag, keys, body, body + 100


MESSAGES = [
    *[message("A", 0, "x", "hot", 10)] * 6,
    message("A", 1, "x", "hot  cold", 1000),
    message("A", 2, None, None, 0),
    message("A", 2, "y", "", 5000, broker="b"),
    message("B", 0, "x", "k" * 500, 1),
]


def test_scopes(frame: Frame) -> None:
    found = hot.compute(frame(" ".join(hot.COLUMNS), *MESSAGES))
    rows = found.table.collect()

    def of(scope: str, *names: str) -> dict[Any, Any]:
        picked = [row for row in rows if row.scope == scope]
        return {tuple(row[n] for n in names): (row.messages, row.bytes) for row in picked}

    assert of("topic", "topic") == {("A",): (9, 6960), ("B",): (1, 101)}
    assert of("queue", "topic", "brokerName", "queueId") == {
        ("A", "a", 0): (6, 660),
        ("A", "a", 1): (1, 1100),
        ("A", "a", 2): (1, 100),
        ("A", "b", 2): (1, 5100),
        ("B", "a", 0): (1, 101),
    }
    assert of("tag", "topic", "tag")[("A", "x")] == (7, 1760)
    assert of("tag", "topic", "tag")[("A", None)] == (1, 100)
    assert of("size", "topic", "bodyFrom") == {
        ("A", 8): (6, 660),
        ("A", 512): (1, 1100),
        ("A", 0): (1, 100),
        ("A", 4096): (1, 5100),
        ("B", 1): (1, 101),
    }
    assert of("key", "topic", "key") == {
        ("A", "hot"): (7, 1760),
        ("A", "cold"): (1, 1100),
        ("B", "k" * 200): (1, 101),
    }
    (a,) = [row for row in rows if row.scope == "topic" and row.topic == "A"]
    assert a.skew == pytest.approx(6 / (9 / 4))
    assert a.share == pytest.approx(6960 / 7061)
    assert (a.largest, a.bodyBytes) == (5000, 6060)


def test_only_the_hottest_keys(frame: Frame) -> None:
    found = hot.compute(frame(" ".join(hot.COLUMNS), *MESSAGES), top_keys=1)
    assert [r.key for r in found.table.where("scope = 'key'").collect()] == ["hot"]


def test_summary(frame: Frame) -> None:
    text = hot.summary(hot.compute(frame(" ".join(hot.COLUMNS), *MESSAGES)), top=2)
    assert text.startswith("10 messages, 6.9 KiB of records, 2 topics, 5 queues")
    assert "2.67" in text
    assert "... and 3 more" in text
    empty = hot.summary(hot.compute(frame(" ".join(hot.COLUMNS))))
    assert empty == "0 messages, 0 B of records, 0 topics, 0 queues"


def test_60_columns(frame: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    messages = [(f"topic-with-a-long-name-{n}", *m[1:]) for n, m in enumerate(MESSAGES)]
    text = hot.summary(hot.compute(frame(" ".join(hot.COLUMNS), *messages)))
    assert max(map(len, text.splitlines())) <= 60, text
